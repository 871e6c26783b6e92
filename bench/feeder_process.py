"""A steady stream of jobs from a process of its own: ``python -m bench.feeder_process``.

It puts what is due to be put every few milliseconds, however long the puts
take, until its standard input ends: who is late catches up.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.scene import ROOT
from bench.tasks import make_program

_TICK_S = 0.005


class FeederProcess:
    """Puts *rate* no-op jobs a second into the store at *path*, for as long as the block lasts."""

    def __init__(self, path: Path, rate: float) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(path), str(rate)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError(f"the feeder process ended with {self._process.wait()}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()


def feed(path: Path, rate: float, until: threading.Event) -> None:
    """Put jobs in batches, so many a second, until *until* is set."""
    with make_program(path, "always") as program:
        start_s, done = time.perf_counter(), 0
        while not until.wait(_TICK_S):
            wanted = int((time.perf_counter() - start_s) * rate)
            program.app.enqueue_many(program.noop.request(n) for n in range(done, wanted))
            if not done:
                print("feeding", flush=True)
            done = wanted


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    parser.add_argument("rate", type=float)
    given = parser.parse_args()
    until = threading.Event()

    def stop_with_stdin() -> None:
        sys.stdin.buffer.read()
        until.set()

    threading.Thread(target=stop_with_stdin, daemon=True).start()
    feed(given.path, given.rate, until)


if __name__ == "__main__":
    main()
