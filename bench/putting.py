"""Puts: what the disk, the raw engine and bide can take."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench.raw_engine import RawEngine
from bench.scene import Scene
from bench.series import Series
from bench.tasks import Program, make_program
from bide.backends.port import Sync
from bide.storage.disk import OsDisk

_APPEND_SIZE = 200
_RESERVE_SIZE = 1 << 20
_BATCH = 1_000
_THREADS = 16

DISK = Series("disk: append 200 bytes, fdatasync", "syncs/s", "always")
DISK_RESERVED = Series("disk: the same in space reserved ahead", "syncs/s", "always")
RAW_SINGLE = Series("raw engine: put one by one", "jobs/s", "always")
RAW_MANY = Series("raw engine: put in batches of 1,000", "jobs/s", "always")
MANY = Series("enqueue_many, batches of 1,000", "jobs/s", "always")
SINGLE = Series("enqueue, 1 thread", "jobs/s", "always")
SINGLE_INTERVAL = Series("enqueue, 1 thread", "jobs/s", "interval")
SINGLE_NEVER = Series("enqueue, 1 thread", "jobs/s", "never")
THREADED = Series("enqueue, 16 threads", "jobs/s", "always")


def disk(scene: Scene) -> Iterator[tuple[Series, float]]:
    """The disk's own rate, without and with the space taken ahead as bide takes it."""
    for series, reserve_size in ((DISK, 0), (DISK_RESERVED, _RESERVE_SIZE)):
        with scene.directory() as path:
            os_disk = OsDisk()
            fd = os_disk.open(path / "file", create=True)
            try:
                if reserve_size:
                    os_disk.reserve(fd, reserve_size)
                    os_disk.sync(fd)
                count = scene.sizes.sync_count
                start_s = time.perf_counter()
                for number in range(count):
                    os.pwrite(fd, b"x" * _APPEND_SIZE, number * _APPEND_SIZE)
                    os_disk.sync(fd)
                yield series, count / (time.perf_counter() - start_s)
            finally:
                os_disk.close(fd)


def raw_single(scene: Scene) -> Iterator[tuple[Series, float]]:
    count = scene.sizes.sync_count
    with scene.directory() as path, RawEngine(path) as engine:
        start_s = time.perf_counter()
        for _ in range(count):
            engine.put(1)
            engine.sync()
        yield RAW_SINGLE, count / (time.perf_counter() - start_s)


def raw_many(scene: Scene) -> Iterator[tuple[Series, float]]:
    count = scene.sizes.many_count
    with scene.directory() as path, RawEngine(path) as engine:
        start_s = time.perf_counter()
        for first in range(0, count, _BATCH):
            engine.put(min(_BATCH, count - first))
            engine.sync()
        yield RAW_MANY, count / (time.perf_counter() - start_s)


def many(scene: Scene) -> Iterator[tuple[Series, float]]:
    with scene.directory() as path, _warm_program(path, "always") as program:
        yield MANY, many_rate(program, scene.sizes.many_count)


def many_rate(program: Program, count: int) -> float:
    """Jobs per second of one `enqueue_many`."""
    start_s = time.perf_counter()
    program.app.enqueue_many(program.noop.request(n) for n in range(count))
    return count / (time.perf_counter() - start_s)


def single(scene: Scene) -> Iterator[tuple[Series, float]]:
    sizes = scene.sizes
    for series, count in (
        (SINGLE, sizes.sync_count),
        (SINGLE_INTERVAL, sizes.unsynced_count),
        (SINGLE_NEVER, sizes.unsynced_count),
    ):
        assert series.sync is not None
        with scene.directory() as path, _warm_program(path, series.sync) as program:
            start_s = time.perf_counter()
            for number in range(count):
                program.noop.enqueue(number)
            yield series, count / (time.perf_counter() - start_s)


def threaded(scene: Scene) -> Iterator[tuple[Series, float]]:
    each = max(1, scene.sizes.sync_count * 4 // _THREADS)
    with scene.directory() as path, _warm_program(path, "always") as program:
        barrier = threading.Barrier(_THREADS + 1)

        def put() -> None:
            barrier.wait()
            for number in range(each):
                program.noop.enqueue(number)

        threads = [threading.Thread(target=put) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        barrier.wait()
        start_s = time.perf_counter()
        for thread in threads:
            thread.join()
        took_s = time.perf_counter() - start_s
        put_count = sum(queue.put_total for queue in program.app.stats().queues)
        assert put_count == _THREADS * each + 1, put_count
        yield THREADED, _THREADS * each / took_s


@contextlib.contextmanager
def _warm_program(path: Path, sync: Sync) -> Iterator[Program]:
    """A program that has put its first job, and so has its store open."""
    with make_program(path, sync) as program:
        program.noop.enqueue(0)
        yield program
