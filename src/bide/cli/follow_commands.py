"""The commands of replicas: follow, promote."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any

import click
import msgspec

from bide.cli import output
from bide.cli.options import json_option
from bide.clock import SystemClock
from bide.connect import directory_of
from bide.errors import StoreError

POLL_S = 0.1
"""Between two looks at a leader that has nothing new."""

TELL_S = 10.0
"""Between two lines on how far the follower is."""

BACKOFF_S = 1.0


@click.command(
    short_help="Keep a replica of a store.",
    epilog="""\
\b
Examples:
  bide follow /var/lib/shop/jobs /mnt/other/jobs
  bide follow --once /var/lib/shop/jobs /mnt/other/jobs
""",
)
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option("--once", is_flag=True, help="End as soon as DST has all that SRC has.")
@json_option
def follow(*, source: str, target: str, once: bool, as_json: bool) -> None:
    """Keep the store in DST up with the one in SRC, until interrupted.

    Both are directories, or file: URLs. DST is made if it is not there. It
    can be looked at and checked meanwhile; 'bide promote DST' makes it a store
    of its own. Stopped or killed, it goes on where it was.
    """
    from bide.storage.follower import Follower, Lag

    clock = SystemClock()
    follower = Follower(directory_of(source), directory_of(target))

    def tell(lag: Lag) -> None:
        if as_json:
            output.print_line(msgspec.json.encode(lag).decode())
        else:
            output.print_line(
                f"{target}: log offset {lag.end}, {lag.records} records ({lag.size} bytes) and "
                f"{lag.ms / 1000:.1f} s behind"
            )

    with contextlib.closing(follower), _stopped_by_signals() as stop:
        told_s = float("-inf")
        is_told = False
        while not stop.is_set():
            try:
                lag = follower.step(clock.now_ms())
            except StoreError as error:
                if once:
                    raise
                if not is_told:
                    output.print_error(f"{error}; trying again every {BACKOFF_S:g} s")
                is_told = True
                stop.wait(BACKOFF_S)
                continue
            is_told = False
            if (once and not lag.size) or clock.monotonic() - told_s >= TELL_S:
                told_s = clock.monotonic()
                tell(lag)
            if once and not lag.size:
                return
            if not lag.size:
                stop.wait(POLL_S)
        with contextlib.suppress(StoreError):  # it was told; a leader that is gone holds nobody up
            tell(follower.step(clock.now_ms()))


@click.command(
    short_help="Have a replica lead.",
    epilog="""\
\b
Examples:
  bide promote /mnt/other/jobs
""",
)
@click.argument("target", metavar="DST")
@json_option
def promote(*, target: str, as_json: bool) -> None:
    """Make the follower in DST a store of its own: jobs are put and run there.

    Stop 'bide follow' first, and see to it that nothing runs the old store's
    jobs any more: both would run them. What was running there runs again.
    """
    from bide.storage.follower import promote as let_lead

    directory = let_lead(directory_of(target))
    document: dict[str, Any] = {"path": str(directory.path), "leads": True}
    if as_json:
        output.print_json(document)
    else:
        output.print_line(f"{directory.path}: leads now; start workers there")


class _Stop:
    """As an event, whose lock a signal handler would wait for in the thread that holds it."""

    def __init__(self) -> None:
        self._set: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        self._set.put(None)

    def is_set(self) -> bool:
        return not self._set.empty()

    def wait(self, timeout_s: float) -> None:
        with contextlib.suppress(Empty):
            self._set.get(timeout=timeout_s)
            self._set.put(None)


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[_Stop]:
    """What INT and TERM set."""
    stop = _Stop()
    old = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        sys.stdout.flush()
