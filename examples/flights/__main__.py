"""``python -m examples.flights``: a month of departures in a minute.

Exits 0 if every flight boarded once, on time, or was cancelled, as the file
says it should; 1 if not; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from examples.flights.data import read_flights
from examples.flights.expected import work_out
from examples.flights.history import read_facts, tell
from examples.flights.replay import Replay
from examples.flights.runs import RunReader
from examples.flights.screen import open_screen
from examples.flights.verdict import Verdict, judge
from examples.flights.workers import WorkerDied


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns its exit code."""
    options = parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: sys.exit(128 + got))  # so that workers are stopped
    try:
        with choose_directory(options.keep) as directory:
            verdict = replay(options, directory)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except WorkerDied as error:
        print(error, file=sys.stderr)
        return 1
    print(verdict.line())
    for fault in verdict.faults:
        print(f"wrong: {fault}")
    return verdict.exit_code


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; exits 2 on one that can't be."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.flights",
        description="A month of departures from New York in a minute, on bide, "
        "with a worker killed on the way.",
    )
    add = parser.add_argument
    add("--seconds", type=float, default=60.0, help="how long it shall take (60)")
    add("--first", type=date.fromisoformat, default=date(2013, 1, 1), help="first day (2013-01-01)")
    add("--last", type=date.fromisoformat, default=date(2013, 1, 31), help="last day (2013-01-31)")
    add("--kill-at", type=float, default=0.5, help="share of the time before the kill (0.5)")
    add("--keep", type=Path, metavar="DIR", help="keep store, runs and logs in this new directory")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds <= 86_400:
        parser.error("--seconds: use more than 0, and at most a day")
    if not 0 <= options.kill_at <= 1:
        parser.error("--kill-at: use 0 to 1")
    if options.keep is not None and options.keep.exists():
        parser.error("--keep: name a directory that is not there yet")
    options.flights = read_flights(options.first, options.last)
    if not options.flights:
        parser.error(f"the file has no flights from {options.first} to {options.last}")
    return options


@contextlib.contextmanager
def choose_directory(keep: Path | None) -> Iterator[Path]:
    """An empty directory: *keep*, or one that goes with the demo."""
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep.resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="bide-flights-") as name:
            yield Path(name)


def replay(options: argparse.Namespace, directory: Path) -> Verdict:
    """Replay the flights, and compare what happened with what should have."""
    answer = work_out(options.flights)
    with open_screen() as screen:
        month = Replay(
            options.flights,
            answer,
            directory=directory,
            seconds=options.seconds,
            kill_at=options.kill_at,
            screen=screen,
        )
        month.run()
    runs = RunReader(month.runs).read_new()
    history = tell(read_facts(month.store), month.killed)
    return judge(answer, runs, history, month.rate)


if __name__ == "__main__":
    sys.exit(main())
