"""A thread that nothing ends: the worker ends all the same, and its job runs nowhere else yet."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import bide
from bide.jobs.app import App
from bide.testing.clock import ManualClock
from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker, WorkerSummary
from tests.unit.storage.children import Child
from tests.worker.conftest import MakeApp
from tests.worker.running import PATIENCE_S, Running, Watched, attempts, burst, state, wait

GRACE_S = 1.0


class Stuck:
    """A task that waits where no exception gets in."""

    def __init__(self, app: App) -> None:
        self.started = threading.Event()
        self.release = threading.Event()
        self.attempts: list[int] = []
        self.task = app.task(name="stuck", timeout=None)(self._run)

    def _run(self, ctx: bide.Context) -> None:
        self.attempts.append(ctx.attempt)
        self.started.set()
        self.release.wait(PATIENCE_S)


@pytest.fixture
def watched_app(make_app: MakeApp, any_url: str, clock: ManualClock) -> tuple[App, Watched]:
    return make_app(any_url, clock)


@pytest.fixture
def stuck(watched_app: tuple[App, Watched]) -> Iterator[Stuck]:
    stuck = Stuck(watched_app[0])
    yield stuck
    stuck.release.set()


def leave_as_at_exit(running: Running) -> None:
    """Give up the seat, as the end of the process would."""
    attendance = running.worker._attendance
    assert attendance is not None
    attendance.leave()


def stop_and_give_up(
    running: Running, watched: Watched, clock: ManualClock, *, settled_count: int = 0
) -> WorkerSummary:
    """Stop it now, and let the grace period pass once so many jobs have ended."""
    running.stop(now=True)
    watched.wait_until(lambda: len(watched.settled) == settled_count)
    watched.wait_for_looks()  # its time counts from when it notices
    clock.advance(GRACE_S)
    watched.wait_for_looks()
    assert running.summary is None  # it gives it all of that
    clock.advance(0.001)
    return running.end()


def test_a_worker_ends_without_a_thread_that_does_not(
    watched_app: tuple[App, Watched],
    clock: ManualClock,
    stuck: Stuck,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app, watched = watched_app
    handle = stuck.task.enqueue()
    with caplog.at_level(logging.WARNING, "bide.worker"), Running(app) as running:
        wait(stuck.started)
        assert stop_and_give_up(running, watched, clock) == WorkerSummary(stuck=1)
    assert "1 jobs do not stop" in caplog.text
    assert state(handle) is bide.State.RUNNING
    assert len(app.stats().owners) == 1
    leave_as_at_exit(running)


def test_what_is_stuck_is_not_run_by_another_worker_and_its_late_end_is_nothing(
    watched_app: tuple[App, Watched], clock: ManualClock, stuck: Stuck
) -> None:
    app, watched = watched_app
    handle = stuck.task.enqueue()
    with Running(app) as running:
        wait(stuck.started)
        stop_and_give_up(running, watched, clock)
    clock.advance(86_400)
    assert burst(app) == WorkerSummary()
    stuck.release.set()
    for thread in threading.enumerate():
        if thread.name.startswith("bide-"):
            thread.join(PATIENCE_S)
    assert burst(app) == WorkerSummary()  # it may have ended well: nobody knows of it
    assert watched.settled == []
    assert (state(handle), attempts(handle)) == (bide.State.RUNNING, 0)
    leave_as_at_exit(running)
    assert (state(handle), attempts(handle)) == (bide.State.READY, 0)
    assert burst(app) == WorkerSummary(succeeded=1)
    assert stuck.attempts == [1, 1]


def test_the_others_end_as_they_can_beside_one_that_is_stuck(
    watched_app: tuple[App, Watched], clock: ManualClock, stuck: Stuck
) -> None:
    app, watched = watched_app
    spinning, stop = threading.Event(), threading.Event()

    @app.task(timeout=None)
    def spin() -> None:
        spinning.set()
        while not stop.is_set():
            pass

    @app.task
    def quick() -> None: ...

    first = quick.enqueue()
    stuck.task.enqueue()
    second = spin.enqueue()
    with Running(app) as running:
        wait(stuck.started)
        wait(spinning)
        summary = stop_and_give_up(running, watched, clock, settled_count=2)
    assert summary == WorkerSummary(succeeded=1, unsettled=1, stuck=1)
    assert state(first) is None
    assert (state(second), attempts(second)) == (bide.State.READY, 0)
    stop.set()
    assert burst(app) == WorkerSummary(succeeded=1)
    leave_as_at_exit(running)
    stuck.release.set()
    assert burst(app) == WorkerSummary(succeeded=1)


def test_what_was_stuck_runs_again_once_its_process_has_ended(tmp_path: Path) -> None:
    url = (tmp_path / "store").as_uri()

    def be_stuck(pipe: Connection) -> None:
        app = bide.App(url)
        stuck = Stuck(app)
        worker = Worker(app, WorkerOptions(threads=1, drain_timeout_s=0))

        def stop_once_started() -> None:
            wait(stuck.started)
            worker.stop()

        threading.Thread(target=stop_once_started).start()
        pipe.send(worker.run().stuck)
        pipe.recv()

    with bide.App(url) as app:
        stuck = Stuck(app)
        stuck.release.set()  # here it is not
        handle = stuck.task.enqueue()
        child = Child(be_stuck)
        assert child.receive() == 1
        assert burst(app) == WorkerSummary()
        assert state(handle) is bide.State.RUNNING
        child.pipe.send("end")
        assert child.wait() == 0
        assert burst(app) == WorkerSummary(succeeded=1)
        assert stuck.attempts == [1]
        assert app.stats().owners == ()
