"""Many jobs at once in one store: a far future that costs nothing, a second that has them all."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from pathlib import Path

import pytest

import bide
from bide.model.facts import JobsCompleted, JobsPut, JobsReserved, JobsReturned
from bide.model.job import NewJob
from bide.model.limits import BATCH_COUNT_MAX
from bide.worker.worker import AHEAD_MAX
from tests.crash.app import note, nothing
from tests.crash.processes import Child, check_store, facts, wait_until_gone, worker

FAR_COUNT = 1_000_000
NEAR_COUNT = 7
MEMORY_SIZE_MAX = 4 << 20
"""What a worker may take more for a million jobs: far below four bytes for each."""

SECOND_COUNT = 100_000
THREADS = 4
AT_ONCE_S = 0.1
"""Half of what a worker sleeps when nobody wakes it."""

YEAR_MS = 365 * 86_400_000


def put_many(app: bide.App, count: int, due_ms: int, spread_ms: int) -> None:
    """Put jobs that do nothing, due over *spread_ms* from *due_ms* on."""
    for start in range(0, count, BATCH_COUNT_MAX):
        numbers = range(start, min(start + BATCH_COUNT_MAX, count))
        app.backend.put(
            [
                NewJob(
                    queue="default",
                    task=nothing.name,
                    args=b"\x80",
                    due_ms=due_ms + number % spread_ms,
                )
                for number in numbers
            ],
            sync="never",
        )


def own_memory_size(child: Child) -> int:
    """Bytes of memory that are the process's own, without what it maps from files."""
    for line in Path(f"/proc/{child.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) << 10
    pytest.skip("this system does not say what memory is a process's own")


def put_and_time(app: bide.App, child: Child) -> list[float]:
    """Put jobs for now, each as the worker sleeps; the seconds from before the put to its start."""
    task = app.task(name=note.name)(note.function)
    delays_s: list[float] = []
    for number in range(NEAR_COUNT):
        child.skip()
        child.read_until("rest")
        put_ns = time.monotonic_ns()
        handle = task.enqueue(number, 0)
        start = child.read_until("start")
        assert start[1] == str(number)
        delays_s.append((int(start[5]) - put_ns) / 1e9)
        wait_until_gone(handle)
    return delays_s


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_a_million_far_jobs_cost_a_worker_no_memory_and_a_job_for_now_no_time(
    tmp_path: Path,
) -> None:
    memory_sizes: list[int] = []
    for count in (0, FAR_COUNT):
        path = tmp_path / str(count)
        with bide.App(path.as_uri()) as app:
            put_many(app, count, app.clock.now_ms() + YEAR_MS, YEAR_MS)
            child = Child(path, "tests.crash.resting", "--threads", "2")
            child.read(1)
            delays_s = put_and_time(app, child)
            assert statistics.median(delays_s) < AT_ONCE_S
            memory_sizes.append(own_memory_size(child))
            child.stop()
            stats = app.stats().queues[0]
            assert (stats.waiting, stats.succeeded_total) == (count, NEAR_COUNT)
    assert memory_sizes[1] - memory_sizes[0] < MEMORY_SIZE_MAX


def test_a_hundred_thousand_jobs_of_one_second_run_once_each_in_bounded_batches(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    with bide.App(path.as_uri(), sync="never") as app:
        due_ms = app.clock.now_ms() - 1_000
        put_many(app, SECOND_COUNT, due_ms, 1_000)
        workers = [worker(path, "--burst", "--threads", str(THREADS)) for _ in range(2)]
        for child in workers:
            child.read(1)
        urgent = app.task(name=note.name)(note.function).using(priority=100).enqueue(0, 0)
        for child in workers:
            child.rest()
            assert child.process.returncode == 0
        (queue,) = app.stats().queues
        assert (queue.waiting, queue.running, queue.failed) == (0, 0, 0)
        assert queue.succeeded_total == SECOND_COUNT + 1

    reserved: Counter[int] = Counter()
    completed: Counter[int] = Counter()
    batch_sizes: list[int] = []
    urgent_put = urgent_reserved = -1
    for fact in facts(path):
        match fact:
            case JobsPut(jobs) if jobs[0].id == urgent.id:
                urgent_put = len(batch_sizes)
            case JobsReserved(_, leases):
                batch_sizes.append(len(leases))
                reserved.update(lease.id for lease in leases)
                if urgent_reserved < 0 and any(lease.id == urgent.id for lease in leases):
                    urgent_reserved = len(batch_sizes)
            case JobsReturned(_, leases):
                reserved.subtract(lease.id for lease in leases)  # no thread came to them in time
            case JobsCompleted(jobs):
                completed.update(job.id for job in jobs)
    assert len(completed) == SECOND_COUNT + 1
    assert max(completed.values()) == 1, "a job was settled twice"
    assert max(batch_sizes) <= THREADS + AHEAD_MAX
    assert set(reserved.values()) == {1}, "a job was handed out twice"
    # A worker may have looked at its clock before the put; its next batch has the urgent one.
    assert 0 <= urgent_put < urgent_reserved <= urgent_put + len(workers) + 1
    check_store(path)
