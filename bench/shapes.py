"""Stores of unusual shape: every priority, many queues, many keys, all due at once."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import pairwise

from bench.growth import median_us, turn_us
from bench.scene import Scene
from bench.series import Comparison, Goal, Series
from bench.tasks import NOTE, make_program
from bench.worker_process import WorkerProcess
from bide import SystemClock
from bide.jobs.when import datetime_of
from bide.model.limits import PRIORITY_MAX

_LEAD_MS = 1_000
_PUT_RATE = 100_000
"""Jobs that are put in a second, at least, so that all are in before they are due."""

_MS_NS = 1_000_000

ONE_TURN = Series("reserve and settle, of 100, one priority", "us", "never")
ALL_TURN = Series("reserve and settle, of 100, all 201 priorities in use", "us", "never")
ONE_PUT = Series("put, one queue", "us", "never")
QUEUES_PUT = Series("put, many queues in turn", "us", "never")
QUEUES_STATS = Series("statistics of many queues", "ms")
KEYED_PUT = Series("enqueue_many, each job with a key", "jobs/s", "never")
HERD_RATE = Series("jobs due in one millisecond, run", "jobs/s", "always")
HERD_GAP = Series("jobs due in one millisecond, longest gap between two starts", "ms", "always")

COMPARISONS = (
    Comparison(name="reserve and settle, all priorities to one", of=ALL_TURN, to=ONE_TURN),
    Comparison(name="put, many queues to one", of=QUEUES_PUT, to=ONE_PUT),
)
GOALS = (
    *(Goal(of=comparison, at_most=1.5) for comparison in COMPARISONS),
    Goal(of=HERD_GAP, at_most=200),
)


def priorities(scene: Scene) -> Iterator[tuple[Series, float]]:
    """A worker's turns beside jobs that wait in each priority."""
    for series, used in (
        (ONE_TURN, [0]),
        (ALL_TURN, range(-PRIORITY_MAX, PRIORITY_MAX + 1)),
    ):
        with scene.directory() as path, make_program(path, "never") as program:
            for priority in used:
                later = program.noop.using(priority=priority, delay=86_400)
                program.app.enqueue_many(later.request(n) for n in range(20))
            yield series, turn_us(program, scene.sizes.growth_count)


def queues(scene: Scene) -> Iterator[tuple[Series, float]]:
    """Puts into one queue after another, and their statistics."""
    count = scene.sizes.queue_count
    with scene.directory() as path, make_program(path, "never") as program:
        calls = [[n] for n in range(scene.sizes.unsynced_count)]
        yield ONE_PUT, median_us(program.noop.enqueue, calls)
        tasks = [program.noop.using(queue=f"queue-{n}") for n in range(count)]
        program.app.enqueue_many(task.request(0) for task in tasks)
        yield (
            QUEUES_PUT,
            median_us(lambda n: tasks[n % count].enqueue(n), calls),
        )
        start_s = time.perf_counter()
        assert len(program.app.stats().queues) == count + 1
        yield QUEUES_STATS, (time.perf_counter() - start_s) * 1_000


def keys(scene: Scene) -> Iterator[tuple[Series, float]]:
    """Jobs each of which has a key."""
    count = scene.sizes.key_count
    with scene.directory() as path, make_program(path, "never") as program:
        requests = [program.noop.using(key=f"key {n}").request(n) for n in range(count)]
        start_s = time.perf_counter()
        program.app.enqueue_many(requests)
        yield KEYED_PUT, count / (time.perf_counter() - start_s)


def herd(scene: Scene) -> Iterator[tuple[Series, float]]:
    """Many jobs that fall due in the same millisecond."""
    count = scene.sizes.herd_count
    read_fd, write_fd = os.pipe()
    with scene.directory() as path, make_program(path, "always") as program:
        due_ms = SystemClock().now_ms() + _LEAD_MS + count * 1_000 // _PUT_RATE
        request = program.note.using(run_at=datetime_of(due_ms)).request(0)
        program.app.enqueue_many([request] * count)
        with WorkerProcess(path, "always", notes_fd=write_fd) as worker:
            os.close(write_fd)
            started_ns = _read_starts(read_fd, count)
            worker.stop()
    os.close(read_fd)
    yield HERD_RATE, count / ((started_ns[-1] - started_ns[0]) / 1e9)
    yield HERD_GAP, max(b - a for a, b in pairwise(started_ns)) / _MS_NS


def _read_starts(fd: int, count: int) -> list[int]:
    """When each of so many jobs started, by the monotonic clock, in ns."""
    data = bytearray()
    while len(data) < count * NOTE.size:
        part = os.read(fd, 1 << 16)
        if not part:
            raise RuntimeError("the worker process ended")
        data += part
    return sorted(started_ns for _, _, started_ns in NOTE.iter_unpack(data))
