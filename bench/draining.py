"""Jobs that do nothing, run by one worker process as fast as it can."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from bench.raw_engine import RawEngine
from bench.scene import Scene
from bench.series import Series
from bench.tasks import make_program
from bench.worker_process import Report, WorkerProcess
from bide.backends.port import Sync

_RAW_BATCH = 100
_PUT_BATCH = 1_000

RAW_DRAIN = Series("raw engine: reserve and complete, batches of 100", "jobs/s", "always")
RAW_DRAIN_NEVER = Series("raw engine: reserve and complete, batches of 100", "jobs/s", "never")
DRAIN_1 = Series("worker, no-op jobs, 1 thread", "jobs/s", "always")
DRAIN_8 = Series("worker, no-op jobs, 8 threads", "jobs/s", "always")
DRAIN_1_NEVER = Series("worker, no-op jobs, 1 thread", "jobs/s", "never")
DRAIN_8_NEVER = Series("worker, no-op jobs, 8 threads", "jobs/s", "never")

_DRAINS = ((DRAIN_1, 1), (DRAIN_8, 8), (DRAIN_1_NEVER, 1), (DRAIN_8_NEVER, 8))


def raw_drain(scene: Scene) -> Iterator[tuple[Series, float]]:
    count = scene.sizes.drain_count
    for series in (RAW_DRAIN, RAW_DRAIN_NEVER):
        with scene.directory() as path, RawEngine(path) as engine:
            for first in range(0, count, _PUT_BATCH):
                engine.put(min(_PUT_BATCH, count - first))
            engine.sync()
            start_s = time.perf_counter()
            while engine.exchange(_RAW_BATCH):
                if series.sync == "always":
                    engine.sync()
            yield series, count / (time.perf_counter() - start_s)


def drain(scene: Scene) -> Iterator[tuple[Series, float]]:
    count = scene.sizes.drain_count
    for series, threads in _DRAINS:
        assert series.sync is not None
        with scene.directory() as path:
            with make_program(path, "never") as program:
                program.app.enqueue_many(program.noop.request(n) for n in range(count))
            report = drained(path, series.sync, count, threads=threads)
            yield series, count / report.took_s


def drained(path: Path, sync: Sync, count: int, *, threads: int | None = None) -> Report:
    """Have one worker run the *count* due jobs of a store, and stop."""
    with WorkerProcess(path, sync, threads=threads, burst=True) as process:
        report = process.wait()
    assert report.succeeded == count, report
    return report
