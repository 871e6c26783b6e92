"""How soon a job starts: after its put in another process, and after it is due."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from bench.draining import drained
from bench.feeder_process import FeederProcess
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

SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
LOADS = {"idle machine": 0.0, "load of 50 %": 0.5, "load of 90 %": 0.9}
"""Of what one worker process can run: a steady stream of no-op jobs beside those that are timed."""

START = "put to start in another process"
LATE = "lateness at 1,000 jobs due per second"
SERIES = {
    (what, load, share): Series(f"{what}, {load}, {share}", "ms", "always")
    for what in (START, LATE)
    for load in LOADS
    for share in SHARES
}
START_P50, START_P99 = SERIES[START, "idle machine", "p50"], SERIES[START, "idle machine", "p99"]
LATE_P99 = SERIES[LATE, "idle machine", "p99"]
EARLY = Series("jobs started early", "jobs", "always")

Note = tuple[int, int, int]
"""As `bench.tasks.NOTE` has it: argument, Unix ms, monotonic ns."""


def latency(scene: Scene) -> Iterator[tuple[Series, float]]:
    """From a put, and from a due time, to the start, on an idle machine and beside a load."""
    capacity = _capacity(scene)
    early_count = 0
    for load, of_capacity in LOADS.items():
        with _worker(scene, of_capacity * capacity) as (program, read):
            took_ms = _start(program, read, scene.sizes.start_count)
        with _worker(scene, of_capacity * capacity) as (program, read):
            late_ms, early = _lateness(program, read, scene.sizes.due_count)
        early_count += early
        for what, times_ms in ((START, took_ms), (LATE, late_ms)):
            scene.add_samples(f"{what}, {load}", times_ms)
            for name, share in SHARES.items():
                yield SERIES[what, load, name], percentile(times_ms, share)
    yield EARLY, early_count


def _capacity(scene: Scene) -> float:
    """Jobs per second that one worker process runs."""
    count = scene.sizes.drain_count
    with scene.directory() as path:
        with make_program(path, "never") as program:
            program.app.enqueue_many(program.noop.request(n) for n in range(count))
        return count / drained(path, "always", count).took_s


def _start(program: Program, read: Callable[[], Note], count: int) -> list[float]:
    """Put, wait for the start, let all come to rest, put again."""
    pause = threading.Event()
    took_ms: list[float] = []
    for number in range(count):
        pause.wait(_IDLE_S)
        put_ns = time.monotonic_ns()
        program.note.enqueue(number)
        seen, _, started_ns = read()
        assert seen == number
        took_ms.append((started_ns - put_ns) / _MS_NS)
    return took_ms


def _lateness(program: Program, read: Callable[[], Note], count: int) -> tuple[list[float], int]:
    """Jobs put ahead of time, due one each millisecond; each carries its due time."""
    late_ms: list[float] = []
    early_count = 0
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
    return late_ms, early_count


@contextlib.contextmanager
def _worker(scene: Scene, rate: float) -> Iterator[tuple[Program, Callable[[], Note]]]:
    """A program, a worker for it in another process, awake, and what its tasks note.

    Args:
        rate: Of the no-op jobs that come in beside it, per second.
    """
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
            with FeederProcess(path, rate) if rate else contextlib.nullcontext():
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
