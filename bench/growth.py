"""What an operation costs beside more and more jobs that are pending."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from bench.draining import drained
from bench.pending import MIB
from bench.scene import Scene
from bench.series import Comparison, Goal, Series
from bench.tasks import Program, make_program
from bide.backends.port import Attendance
from bide.model.commands import Completed, Settlement

_US = 1_000_000
_PARTS = 10
_BATCH = 100
LEVELS = ("few", "more", "many", "most")
"""Of jobs that are pending: each ten times as many as the one before."""

DRAIN = {
    level: Series(f"worker, no-op jobs, {level} pending", "jobs/s", "always") for level in LEVELS
}
MEMORY = {level: Series(f"worker's own memory, {level} pending", "MiB") for level in LEVELS}
PUT, TURN, CANCEL, MOVE = "put", "reserve and settle, of 100", "cancel by key", "move by key"
SERIES = {
    (what, level): Series(f"{what}, {level} pending", "us", "never")
    for level in LEVELS
    for what in (PUT, TURN, CANCEL, MOVE)
}

COMPARISONS = tuple(
    Comparison(name=f"{what}, most pending to few", of=SERIES[what, "most"], to=SERIES[what, "few"])
    for what in (PUT, TURN, CANCEL, MOVE)
)
GOALS = tuple(Goal(of=comparison, at_most=1.5) for comparison in COMPARISONS)


def growth(scene: Scene) -> Iterator[tuple[Series, float]]:
    """The time of one operation, the disk not waited for, at each level."""
    count = scene.sizes.growth_count
    for level, pending in zip(LEVELS, scene.sizes.pending_counts, strict=True):
        path = scene.delayed_store(pending)
        with make_program(path, "never") as program:
            later = program.noop.using(delay=7 * 86_400)
            yield SERIES[PUT, level], median_us(later.enqueue, [[n] for n in range(count)])
            yield SERIES[TURN, level], turn_us(program, count)
            keys = [[key] for key in scene.take_keys(pending, 2 * count)]
            by_key = _ByKey(program)
            yield SERIES[CANCEL, level], median_us(by_key.cancel, keys[:count])
            yield SERIES[MOVE, level], median_us(by_key.move, keys[count:])
            drain_count = scene.sizes.drain_count
            program.app.enqueue_many(program.noop.request(n) for n in range(drain_count))
        report = drained(path, "always", drain_count)
        yield DRAIN[level], drain_count / report.took_s
        if report.memory_size is not None:
            yield MEMORY[level], report.memory_size / MIB


class _ByKey:
    """A user's calls that name a job by its key."""

    def __init__(self, program: Program) -> None:
        self._app = program.app
        self._queue = program.noop.options.queue

    def cancel(self, key: str) -> None:
        assert self._app.cancel(key=key, queue=self._queue)

    def move(self, key: str) -> None:
        self._app.move(key=key, queue=self._queue, delay=86_400)


def median_us(work: Callable[..., object], calls: Sequence[Sequence[object]]) -> float:
    """The time of a call, in the middle one of some parts of them: what else goes on is out."""
    size = max(1, len(calls) // _PARTS)
    times: list[float] = []
    for first in range(0, len(calls), size):
        part = calls[first : first + size]
        start_s = time.perf_counter()
        for arguments in part:
            work(*arguments)
        times.append((time.perf_counter() - start_s) / len(part) * _US)
    return statistics.median(times)


def turn_us(program: Program, count: int) -> float:
    """The time that a job takes from its reserve to its settlement, in a worker's batches."""
    backend, queues = program.app.backend, (program.noop.options.queue,)
    turns = max(_PARTS, count // _BATCH)
    program.app.enqueue_many(program.noop.request(n) for n in range((turns + 1) * _BATCH))
    attendance: Attendance = backend.attend(queues)
    times: list[float] = []
    settlements: list[Settlement] = []
    try:
        for _ in range(turns):
            start_s = time.perf_counter()
            leases = backend.reserve(attendance.owner, queues, _BATCH, settlements).leases
            settlements = [Settlement(one.job.id, one.attempt, Completed()) for one in leases]
            assert len(leases) == _BATCH
            times.append((time.perf_counter() - start_s) / _BATCH * _US)
        while settlements:
            leases = backend.reserve(attendance.owner, queues, _BATCH, settlements).leases
            settlements = [Settlement(one.job.id, one.attempt, Completed()) for one in leases]
    finally:
        attendance.leave()
    return statistics.median(times)
