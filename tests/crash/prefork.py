"""A server that uses its App before, while and after it makes child processes: ``WAY``.

As gunicorn with a preloaded application does (``os.fork``), or a pool of
`multiprocessing` by one of its start methods. Two threads use the App all
the while, so a child is made while they hold its locks. One more is
made later. Tells ``put NUMBER JOB`` of each job that was accepted.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Self

import bide
from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker
from tests.crash.app import app, note, tell

CHILDREN = 4
EACH = 15
GUARD_S = 30


def put(number: int) -> None:
    tell("put", number, note.enqueue(number, 0).id)


def serve(first: int) -> None:
    """What a child does: put, look, and run what is due."""
    for number in range(first, first + EACH):
        put(number)
    app.stats()
    Worker(app, WorkerOptions(threads=2, burst=True)).run()
    with bide.App(app.url) as another:  # opened in the child: it shares the child's store
        assert another.stats().queues[0].put_total >= EACH


def fork(first: int) -> Callable[[], int]:
    """A child by `os.fork`; the function waits for its end and returns its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(GUARD_S)
            serve(first)
            code = 0
        except BaseException:  # noqa: BLE001  told, and the exit code says it
            traceback.print_exc()
        finally:
            os._exit(code)
    return lambda: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def make(first: int, method: str) -> Callable[[], int]:
    """A child by `multiprocessing`."""
    process = multiprocessing.get_context(method).Process(target=serve, args=(first,))  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()

    def wait() -> int:
        process.join(GUARD_S)
        code: int | None = process.exitcode
        assert code is not None, "a child hangs"
        return code

    return wait


class BusyThread:
    """Uses the App, until the block ends; it must have done so at each moment that counts."""

    def __init__(self, use: Callable[[int], object], first: int) -> None:
        self.count = 0
        self._use = use
        self._first = first
        self._stop = threading.Event()
        self._used = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._used.wait(GUARD_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(GUARD_S)
        assert not self._thread.is_alive(), "a thread of the parent hangs"

    def _run(self) -> None:
        for number in itertools.count(self._first):
            if self._stop.is_set():
                return
            self._use(number)
            self.count += 1
            self._used.set()


def open_and_close(_: int) -> None:
    """Open another App on the directory, and close it: the table of open stores is locked."""
    with bide.App(app.url) as another:
        another.stats()


def firsts() -> Iterator[int]:
    return itertools.count(1_000, 1_000)


def main(way: str) -> None:
    put(0)
    with BusyThread(put, 1_000_000) as putting, BusyThread(open_and_close, 0) as opening:
        first = firsts()
        begin = fork if way == "os.fork" else lambda number: make(number, way)
        children = [begin(next(first)) for _ in range(CHILDREN)]
        put(1)
        children.append(begin(next(first)))  # one more, as for one that was lost
        codes = [wait() for wait in children]
        assert codes == [0] * len(children), codes
    put(2)
    tell("children", len(children))
    tell("threads", min(putting.count, opening.count))
    app.close()


if __name__ == "__main__":
    main(sys.argv[1])
