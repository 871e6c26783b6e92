"""Puts numbered jobs and works at the same time, on one App: ``FIRST COUNT``.

Tells ``put NUMBER JOB`` of each that was accepted, and stops when it has put
them all.
"""

from __future__ import annotations

import sys
import threading

from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker
from tests.crash.app import app, note, tell


def put(first: int, count: int, failures: list[BaseException]) -> None:
    """One half one by one, the other in batches of ten."""
    try:
        for number in range(first, first + count // 2):
            tell("put", number, note.using(key=f"{number}").enqueue(number, 100).id)
        for start in range(first + count // 2, first + count, 10):
            numbers = range(start, min(start + 10, first + count))
            handles = app.enqueue_many(note.request(number, 100) for number in numbers)
            for number, handle in zip(numbers, handles, strict=True):
                tell("put", number, handle.id)
    except BaseException as error:  # noqa: BLE001  raised by the main thread
        failures.append(error)


def main(first: int, count: int) -> None:
    failures: list[BaseException] = []
    worker = Worker(app, WorkerOptions(threads=2))

    def put_and_stop() -> None:
        put(first, count, failures)
        worker.stop()

    putting = threading.Thread(target=put_and_stop)
    putting.start()
    summary = worker.run()
    putting.join()
    assert not failures, failures
    assert summary.failed == summary.retried == summary.unsettled == summary.stuck == 0, summary
    app.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
