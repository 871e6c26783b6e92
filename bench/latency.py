"""How soon a job starts: after its put in another process, and after it is due."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from bench.scene import Scene
from bench.series import Series, percentile
from bench.tasks import NOTE, Program, make_program
from bench.worker_process import WorkerProcess
from bide import SystemClock

_IDLE_S = 0.005
"""Between a start and the next put: the worker settles the job and falls asleep."""

_LEAD_MS = 1_000
"""Between the first put and the first due time, so that all are put before any is due."""

_MS_NS = 1_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICKS = 20

START_P50 = Series("put to start in another process, idle machine, p50", "ms", "always")
START_P99 = Series("put to start in another process, idle machine, p99", "ms", "always")
LATE_P50 = Series("lateness at 1,000 jobs due per second, p50", "ms", "always")
LATE_P99 = Series("lateness at 1,000 jobs due per second, p99", "ms", "always")
EARLY = Series("jobs started early", "jobs", "always")

Note = tuple[int, int, int]
"""As `bench.tasks.NOTE` has it: argument, Unix ms, monotonic ns."""


def start(scene: Scene) -> Iterator[tuple[Series, float]]:
    """Put, wait for the start, let all come to rest, put again."""
    pause = threading.Event()
    took_ms: list[float] = []
    with _worker(scene) as (program, read):
        for number in range(scene.sizes.start_count):
            pause.wait(_IDLE_S)
            put_ns = time.monotonic_ns()
            program.note.enqueue(number)
            seen, _, started_ns = read()
            assert seen == number
            took_ms.append((started_ns - put_ns) / _MS_NS)
    yield START_P50, percentile(took_ms, 0.5)
    yield START_P99, percentile(took_ms, 0.99)


def lateness(scene: Scene) -> Iterator[tuple[Series, float]]:
    """Jobs put ahead of time, due one each millisecond; each carries its due time."""
    count = scene.sizes.due_count
    late_ms: list[float] = []
    early_count = 0
    with _worker(scene) as (program, read):
        offset_ns = _unix_offset_ns()
        first_ms = SystemClock().now_ms() + _LEAD_MS
        program.app.enqueue_many(
            program.note.using(run_at=_EPOCH + timedelta(milliseconds=due_ms)).request(due_ms)
            for due_ms in range(first_ms, first_ms + count)
        )
        for _ in range(count):
            due_ms, started_ms, started_ns = read()
            early_count += started_ms < due_ms  # by the clock that says when it is due
            late_ms.append((started_ns + offset_ns) / _MS_NS - due_ms)
    yield LATE_P50, percentile(late_ms, 0.5)
    yield LATE_P99, percentile(late_ms, 0.99)
    yield EARLY, early_count


@contextlib.contextmanager
def _worker(scene: Scene) -> Iterator[tuple[Program, Callable[[], Note]]]:
    """A program, a worker for it in another process, awake, and what its tasks note."""
    read_fd, write_fd = os.pipe()
    try:
        with (
            scene.directory() as path,
            make_program(path, "always") as program,
            WorkerProcess(path, "always", notes_fd=write_fd) as process,
        ):
            os.close(write_fd)
            write_fd = -1

            def read() -> Note:
                data = os.read(read_fd, NOTE.size)
                while data and len(data) < NOTE.size:
                    data += os.read(read_fd, NOTE.size - len(data))
                if not data:
                    raise RuntimeError("the worker process ended")
                number, unix_ms, monotonic_ns = NOTE.unpack(data)
                return number, unix_ms, monotonic_ns

            program.note.enqueue(-1)
            read()  # it is there, and has run its first job
            yield program, read
            process.stop()
    finally:
        os.close(read_fd)
        if write_fd >= 0:
            os.close(write_fd)


def _unix_offset_ns() -> int:
    """What to add to the monotonic clock for Unix time, which bide reads in whole ms only."""
    clock = SystemClock()
    offsets_ns: list[int] = []
    for _ in range(_TICKS):
        before_ms = clock.now_ms()
        while (now_ms := clock.now_ms()) == before_ms:
            pass
        offsets_ns.append(now_ms * _MS_NS - time.monotonic_ns())
    return max(offsets_ns)  # a tick is seen late, never early
