"""What a run measures, in order; what it compares; and what bide wants to reach."""

from __future__ import annotations

from bench import draining, growth, latency, pending, processes, putting, shapes, upkeep
from bench.series import Comparison, Goal, Measurement

MEASUREMENTS: tuple[Measurement, ...] = (
    putting.disk,
    putting.single,
    putting.threaded,
    putting.raw_single,
    putting.raw_many,
    putting.many,
    draining.raw_drain,
    draining.drain,
    pending.pending,
    pending.reserve,
    growth.growth,
    shapes.priorities,
    shapes.queues,
    shapes.keys,
    shapes.herd,
    processes.processes,
    latency.latency,
    upkeep.upkeep,
    upkeep.reopen,
)

MANY_TO_RAW = Comparison(name="enqueue_many to raw engine", of=putting.MANY, to=putting.RAW_MANY)
SINGLE_TO_DISK = Comparison(name="enqueue, 1 thread, to disk", of=putting.SINGLE, to=putting.DISK)
THREADED_TO_SINGLE = Comparison(
    name="enqueue, 16 threads to 1", of=putting.THREADED, to=putting.SINGLE
)
RESERVE_GROWTH = Comparison(
    name="reserve that finds nothing, many delayed jobs to none",
    of=pending.MANY_RESERVE,
    to=pending.NONE_RESERVE,
)
MEMORY_GROWTH = Comparison(
    name="worker's own memory, growth from few delayed jobs to many",
    of=pending.MANY_MEMORY,
    to=pending.FEW_MEMORY,
    how="difference",
)
PUT_PENDING = Comparison(
    name="enqueue_many, many delayed jobs pending to few",
    of=pending.MANY_PUT,
    to=pending.FEW_PUT,
)
DRAIN_PENDING = Comparison(
    name="worker, no-op jobs, many delayed jobs pending to few",
    of=pending.MANY_DRAIN,
    to=pending.FEW_DRAIN,
)

COMPARISONS: tuple[Comparison, ...] = (
    MANY_TO_RAW,
    SINGLE_TO_DISK,
    Comparison(
        name="enqueue, 1 thread, to disk with space reserved ahead",
        of=putting.SINGLE,
        to=putting.DISK_RESERVED,
    ),
    Comparison(name="enqueue, 1 thread, to raw engine", of=putting.SINGLE, to=putting.RAW_SINGLE),
    THREADED_TO_SINGLE,
    Comparison(name="worker, 1 thread, to raw engine", of=draining.DRAIN_1, to=draining.RAW_DRAIN),
    Comparison(name="worker, 8 threads, to raw engine", of=draining.DRAIN_8, to=draining.RAW_DRAIN),
    Comparison(
        name="worker, 1 thread, to raw engine, unsynced",
        of=draining.DRAIN_1_NEVER,
        to=draining.RAW_DRAIN_NEVER,
    ),
    Comparison(
        name="worker, 8 threads, to raw engine, unsynced",
        of=draining.DRAIN_8_NEVER,
        to=draining.RAW_DRAIN_NEVER,
    ),
    PUT_PENDING,
    DRAIN_PENDING,
    MEMORY_GROWTH,
    RESERVE_GROWTH,
    *growth.COMPARISONS,
    *shapes.COMPARISONS,
)

GOALS: tuple[Goal, ...] = (
    Goal(of=putting.MANY, at_least=50_000),
    Goal(of=MANY_TO_RAW, at_least=0.5),
    Goal(of=SINGLE_TO_DISK, at_least=0.8),
    Goal(of=THREADED_TO_SINGLE, at_least=8),
    Goal(of=draining.DRAIN_1, at_least=10_000),
    Goal(of=draining.DRAIN_8, at_least=10_000),
    Goal(of=PUT_PENDING, at_least=0.7),
    Goal(of=DRAIN_PENDING, at_least=0.7),
    Goal(of=MEMORY_GROWTH, at_most=5),
    Goal(of=RESERVE_GROWTH, at_most=1.5),
    *growth.GOALS,
    *shapes.GOALS,
    Goal(of=latency.START_P50, at_most=1.5),
    Goal(of=latency.START_P99, at_most=5),
    Goal(of=latency.LATE_P99, at_most=20),
    Goal(of=latency.EARLY, at_most=0),
    Goal(of=upkeep.PUT_P99, at_most=20),
    Goal(of=upkeep.TURN_P99, at_most=20),
    Goal(of=upkeep.REOPEN, at_most=1_000),
)
