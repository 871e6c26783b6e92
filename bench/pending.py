"""What many jobs that are not due yet cost those that are."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.draining import drained
from bench.putting import many_rate
from bench.scene import Scene
from bench.series import Series
from bench.tasks import Program, make_program

MIB = 1 << 20
_US = 1_000_000

FEW_PUT = Series("enqueue_many, few delayed jobs pending", "jobs/s", "always")
MANY_PUT = Series("enqueue_many, many delayed jobs pending", "jobs/s", "always")
FEW_DRAIN = Series("worker, no-op jobs, few delayed jobs pending", "jobs/s", "always")
MANY_DRAIN = Series("worker, no-op jobs, many delayed jobs pending", "jobs/s", "always")
FEW_MEMORY = Series("worker's own memory, few delayed jobs pending", "MiB")
MANY_MEMORY = Series("worker's own memory, many delayed jobs pending", "MiB")
NONE_RESERVE = Series("reserve that finds nothing, no job pending", "us")
MANY_RESERVE = Series("reserve that finds nothing, many delayed jobs pending", "us")


def pending(scene: Scene) -> Iterator[tuple[Series, float]]:
    """Puts, drains and memory of a worker beside few delayed jobs and beside many."""
    count = scene.sizes.drain_count
    for delayed_count, put, drain, memory in (
        (scene.sizes.delayed_count_few, FEW_PUT, FEW_DRAIN, FEW_MEMORY),
        (scene.sizes.delayed_count_many, MANY_PUT, MANY_DRAIN, MANY_MEMORY),
    ):
        path = scene.delayed_store(delayed_count)
        with make_program(path, "always") as program:
            yield put, many_rate(program, count)
        report = drained(path, "always", count)
        yield drain, count / report.took_s
        if report.memory_size is not None:
            yield memory, report.memory_size / MIB


def reserve(scene: Scene) -> Iterator[tuple[Series, float]]:
    """A look for a job where none is due."""
    count = scene.sizes.reserve_count
    with scene.directory() as path, make_program(path, "always") as program:
        yield NONE_RESERVE, _reserve_us(program, count)
    path = scene.delayed_store(scene.sizes.delayed_count_many)
    with make_program(path, "always") as program:
        yield MANY_RESERVE, _reserve_us(program, count)


def _reserve_us(program: Program, count: int) -> float:
    backend = program.app.backend
    queues = (program.noop.options.queue,)
    attendance = backend.attend(queues)
    try:
        start_s = time.perf_counter()
        for _ in range(count):
            assert not backend.reserve(attendance.owner, queues, 1).leases
        return (time.perf_counter() - start_s) / count * _US
    finally:
        attendance.leave()
