"""What a worker holds ahead of its threads, and that nobody waits for that."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

import bide
from bide.jobs.app import App
from bide.model import commands as c
from bide.testing.clock import ManualClock
from bide.worker.worker import WorkerSummary
from tests.worker.conftest import MakeApp
from tests.worker.running import PATIENCE_S, Running, Watched, attempts, burst, state, wait

HELD_S_MAX = 0.05


class Tasks:
    """A task that is done at once, and one that lasts until it is released."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.ran: list[int] = []
        self.started = threading.Semaphore(0)
        self.release = threading.Event()
        self.quick = app.task(name="quick")(self._quick)
        self.slow = app.task(name="slow", timeout=None)(self._slow)

    def _quick(self, number: int) -> None:
        self.ran.append(number)

    def _slow(self) -> None:
        self.started.release()
        wait(self.release)

    def wait_for_slow(self, count: int) -> None:
        """Wait until so many slow jobs have started."""
        for _ in range(count):
            assert self.started.acquire(timeout=PATIENCE_S)

    def put(self, *, slow: int, quick: int) -> list[bide.Handle]:
        """Put slow jobs and, behind them, quick ones, all at once."""
        requests = [self.slow.request() for _ in range(slow)]
        requests += [self.quick.request(number) for number in range(quick)]
        return self.app.enqueue_many(requests)


def learn_that_jobs_are_short(tasks: Tasks, watched: Watched) -> None:
    """Have the worker run so many short jobs that it holds others ahead."""
    goal = len(watched.settled_as(c.Completed)) + 100
    tasks.put(slow=0, quick=100)
    watched.wait_for_settled(c.Completed, goal)
    tasks.ran.clear()


@pytest.mark.parametrize(
    "took_ms, in_hand",
    [
        (0, range(100, 514)),  # as many as one batch may have
        (1, range(5, 7)),  # 5 ms of work, and the one that runs
        (2, range(3, 4)),
        (5, range(2, 3)),
        (6, range(1, 2)),
        (1_000, range(1, 2)),
    ],
)
def test_the_longer_jobs_take_the_fewer_are_held_ahead(
    make_app: MakeApp, any_url: str, clock: ManualClock, took_ms: int, in_hand: range
) -> None:
    app, watched = make_app(any_url, clock)

    @app.task(timeout=None)
    def task() -> None:
        clock.advance(took_ms / 1_000)

    count = 2_000 if took_ms == 0 else 50
    app.enqueue_many(task.request() for _ in range(count))
    assert burst(app, threads=1) == WorkerSummary(succeeded=count)
    assert watched.in_hand_max in in_hand


def test_held_jobs_go_back_once_every_thread_is_busy_for_long(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    tasks = Tasks(app)
    with Running(app, threads=2) as running:
        learn_that_jobs_are_short(tasks, watched)
        handles = tasks.put(slow=2, quick=5)
        watched.wait_until(lambda: len(watched.reserved) == 107)
        tasks.wait_for_slow(2)
        clock.advance(HELD_S_MAX - 0.001)
        watched.wait_for_looks()
        assert watched.settled_as(c.Returned) == []
        clock.advance(0.001)
        watched.wait_until(lambda: len(watched.settled) == 105)
        assert watched.settled_as(c.Returned) == [handle.id for handle in handles[2:]]
        assert [state(handle) for handle in handles[2:]] == [bide.State.READY] * 5
        assert [attempts(handle) for handle in handles[2:]] == [0] * 5
        watched.wait_for_looks()
        assert len(watched.reserved) == 107  # it does not take again what it can't run
        assert tasks.ran == []
        tasks.release.set()
        watched.wait_until(lambda: len(watched.settled) == 112)
        running.stop()
        assert running.end() == WorkerSummary(succeeded=107)
    assert sorted(tasks.ran) == [0, 1, 2, 3, 4]


def test_one_slow_job_among_quick_ones_holds_up_none_of_them(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    tasks = Tasks(app)
    with Running(app, threads=2) as running:
        learn_that_jobs_are_short(tasks, watched)
        tasks.put(slow=1, quick=0)
        tasks.wait_for_slow(1)
        clock.advance(60)
        tasks.put(slow=0, quick=500)
        watched.wait_until(lambda: len(watched.settled) == 600)
        assert sorted(tasks.ran) == list(range(500))
        tasks.release.set()
        running.stop()
        assert running.end() == WorkerSummary(succeeded=601)
    assert watched.settled_as(c.Returned) == []  # the other thread came to each of them


def test_what_waits_behind_a_slow_job_is_run_by_another_worker(
    make_app: MakeApp, any_url: str
) -> None:
    app, watched = make_app(any_url)
    tasks = Tasks(app)
    with Running(app, threads=1) as first:
        learn_that_jobs_are_short(tasks, watched)
        tasks.put(slow=1, quick=1)
        watched.wait_until(lambda: len(watched.reserved) >= 102)
        tasks.wait_for_slow(1)
        with Running(app, threads=1) as second:
            watched.wait_for_settled(c.Completed, 101)
            assert tasks.ran == [0]
            tasks.release.set()
            first.stop()
            second.stop()
            assert first.end().succeeded + second.end().succeeded == 102


@pytest.mark.parametrize("workers", [2, 3])
def test_idle_workers_and_as_many_jobs_run_all_at_once(
    make_app: MakeApp, any_url: str, workers: int
) -> None:
    app, watched = make_app(any_url)
    tasks = Tasks(app)
    together = threading.Barrier(workers)

    @app.task
    def meet() -> None:
        together.wait(PATIENCE_S)

    with ExitStack() as stack:
        runnings = [stack.enter_context(Running(app, threads=1)) for _ in range(workers)]
        watched.wait_until(lambda: len(watched.looks) == workers)
        for turn in range(1, 4):
            learn_that_jobs_are_short(tasks, watched)
            app.enqueue_many(meet.request() for _ in range(workers))
            watched.wait_for_settled(c.Completed, turn * (100 + workers))
        for running in runnings:
            running.stop()
        assert sum(running.end().succeeded for running in runnings) == 3 * (100 + workers)
