"""The thread executor by itself: each run ends once, whenever its interrupt comes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import bide
from bide.jobs.outcome import TaskStopped, TaskTimeout
from bide.model import commands as c
from bide.model.job import Job, JobId, Lease, OwnerId
from bide.testing.clock import ManualClock
from bide.worker import threads
from bide.worker.run import Runner
from bide.worker.threads import ThreadExecutor, _Run
from tests.worker.interrupting import Interrupter
from tests.worker.running import PATIENCE_S, wait

POINTS_MAX = 500


class Seat:
    """An attendance that only counts."""

    owner = OwnerId(1)

    def __init__(self) -> None:
        self.board: dict[int, int] = {}
        self._slot = 0

    def start(self, lease: Lease) -> int:
        self._slot += 1
        self.board[self._slot] = lease.job.id
        return self._slot

    def clear(self, slot: int) -> None:
        del self.board[slot]

    def wait(self, until_ms: int | None, timeout_s: float) -> None: ...
    def wake(self) -> None: ...
    def leave(self) -> None: ...


class Bench:
    """An executor, and what a worker would see of it."""

    def __init__(self, count: int, **tasks: Callable[..., object]) -> None:
        self.app = bide.App("memory:")
        for name, function in tasks.items():
            self.app.task(name=name, max_retries=0)(function)
        self.clock = ManualClock()
        self.seat = Seat()
        self._changed = threading.Semaphore(0)
        self.executor = ThreadExecutor(
            count,
            Runner(self.app.tasks, self.clock),
            self.seat,
            self.clock,
            notify=self._changed.release,
            is_stopping=lambda: False,
        )
        self.executor.start()
        self._last_id = 0

    def submit(self, task: str, timeout_s: float = 0) -> int:
        self._last_id += 1
        job = Job(
            id=JobId(self._last_id),
            queue="q",
            task=task,
            args=b"\x80",
            due_ms=0,
            priority=0,
            key=None,
            attempt=0,
            max_retries=0,
            timeout_ms=round(timeout_s * 1_000),
            put_ms=0,
        )
        self.executor.submit(Lease(OwnerId(1), job, 1))
        return job.id

    def collect(self, count: int) -> list[tuple[int, c.Outcome]]:
        """The next *count* ends: (job id, outcome)."""
        ended: list[tuple[int, c.Outcome]] = []
        while len(ended) < count:
            assert self._changed.acquire(timeout=PATIENCE_S), "nothing ends"
            ended += [(end.lease.job.id, end.outcome) for end in self.executor.collect()]
        return ended

    def close(self) -> None:
        self.executor.end()
        self.app.close()


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_what_is_submitted_runs_and_is_collected() -> None:
    bench = Bench(2, task=lambda: None)
    ids = [bench.submit("task") for _ in range(5)]
    assert bench.executor.in_hand == 5
    assert sorted(bench.collect(5)) == [(id_, c.Completed()) for id_ in ids]
    assert bench.executor.in_hand == 0
    assert bench.executor.collect() == []
    bench.close()


def test_what_is_taken_back_is_never_run() -> None:
    entered, release = threading.Event(), threading.Event()
    ran: list[str] = []

    def hold() -> None:
        entered.set()
        wait(release)

    bench = Bench(1, hold=hold, task=lambda: ran.append("task"))
    held = bench.submit("hold")
    wait(entered)
    waiting = [bench.submit("task") for _ in range(3)]
    assert [lease.job.id for lease in bench.executor.running] == [held]
    assert bench.executor.waiting_count == 3
    assert [lease.job.id for lease in bench.executor.take_back()] == waiting
    assert bench.executor.in_hand == 1
    assert list(bench.seat.board.values()) == [held]  # only a run that began counts
    release.set()
    assert bench.collect(1) == [(held, c.Completed())]
    bench.close()
    assert ran == []


def test_a_thread_that_does_not_end_in_time_is_written_off_once() -> None:
    entered, release, left = threading.Event(), threading.Event(), threading.Event()

    def stuck() -> None:
        entered.set()
        try:
            release.wait(PATIENCE_S)
        finally:
            left.set()

    bench = Bench(1, stuck=stuck, task=lambda: None)
    executor = bench.executor
    stuck_id = bench.submit("stuck", timeout_s=10)
    wait(entered)
    executor.enforce(9.9)
    assert executor.next_deadline_s() == 10
    executor.enforce(10)
    assert executor.next_deadline_s() == 10 + threads.GRACE_S
    assert executor.collect() == []
    executor.enforce(10 + threads.GRACE_S)
    (ended,) = executor.collect()
    assert ended.lease.job.id == stuck_id
    assert isinstance(ended.outcome, c.Retried)
    assert executor.next_deadline_s() is None
    assert executor.in_hand == 0
    task_id = bench.submit("task")
    assert bench.collect(1) == [(task_id, c.Completed())]  # another thread has its place
    release.set()
    wait(left)
    bench.close()
    assert executor.collect() == []


def test_a_stopped_run_that_does_not_end_is_left_to_the_worker() -> None:
    entered, release = threading.Event(), threading.Event()

    def stuck() -> None:
        entered.set()
        wait(release)

    bench = Bench(1, stuck=stuck)
    bench.submit("stuck", timeout_s=10)
    wait(entered)
    bench.executor.interrupt_all(0)
    bench.executor.enforce(1_000)
    assert bench.executor.collect() == []
    assert bench.executor.abandon() == 1
    assert bench.seat.board == {}  # it counts as no attempt
    release.set()
    bench.close()


@pytest.mark.parametrize("interrupt", [TaskTimeout, TaskStopped])
def test_an_interrupt_that_is_sent_as_its_run_ends_hits_nothing_behind_it(
    interrupt: type[BaseException],
) -> None:
    entered, release = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        wait(release)

    bench = Bench(1, hold=hold, task=lambda: None)
    hold_id, task_id = bench.submit("hold"), bench.submit("task")
    wait(entered)
    (run,) = bench.executor._runs.values()
    with run.lock:  # as `throw` holds it, while the run comes to its end
        release.set()
        end_s = time.monotonic() + PATIENCE_S
        while sys._current_frames()[run.ident].f_code is not _Run.finish.__code__:
            assert time.monotonic() < end_s, "the run does not end"
        run.interrupt = interrupt
        run.write_off_s = 1e9
        threads._raise_in_thread(run.ident, interrupt)
    ended = bench.collect(2)
    assert [job_id for job_id, _ in ended] == [hold_id, task_id]
    assert ended[1][1] == c.Completed()
    bench.close()


def interrupt_run(at: int, interrupt: type[BaseException]) -> tuple[str | None, list[str]]:
    """Interrupt a run at point *at* of its thread's way through: the place, and what is wrong."""
    bench = Bench(0, task=lambda: None)  # no threads: this one does their work
    executor = bench.executor
    runs: list[_Run] = []

    def throw() -> BaseException | None:
        """The exception, where `_Run.throw` of another thread could have it raised."""
        runs[:] = list(executor._runs.values()) or runs
        run = runs[0] if runs else None
        if run is None or run.over or run.lock.locked() or run.lease.job.id != 1:
            return None
        run.interrupt = interrupt
        run.write_off_s = 1e9
        return interrupt()

    interrupter = Interrupter(Path(threads.__file__).parent, at, throw)
    for _ in range(2):
        bench.submit("task", timeout_s=1)
    executor._waiting.put(None)
    problems: list[str] = []
    try:
        with interrupter.here():
            executor._serve()
    except (TaskTimeout, TaskStopped) as error:
        problems.append(f"the thread died: {error!r}")
    ended = [end.lease.job.id for end in executor.collect()]
    if ended != [1, 2]:
        problems.append(f"what ended: {ended}")
    if executor.running:
        problems.append("a run that is over counts as running")
    bench.close()
    return interrupter.where, problems


@pytest.mark.parametrize("interrupt", [TaskTimeout, TaskStopped])
def test_an_interrupt_at_any_point_of_a_run_ends_it_once_and_never_its_thread(
    interrupt: type[BaseException],
) -> None:
    found: dict[str, list[str]] = {}
    count = 0
    for count in range(1, POINTS_MAX):
        where, problems = interrupt_run(count, interrupt)
        if where is None:
            break
        if problems:
            found[where] = problems
    assert 3 < count < POINTS_MAX  # else nothing, or not all, was interrupted
    assert found == {}
