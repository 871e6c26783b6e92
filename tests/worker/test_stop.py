"""How a worker comes to its end: what is running, held and waiting then."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import bide
import bide.worker
from bide.jobs.app import App
from bide.jobs.outcome import TaskStopped
from bide.model import commands as c
from bide.testing.clock import ManualClock
from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker, WorkerSummary
from tests.worker.conftest import MakeApp
from tests.worker.interrupting import Interrupter
from tests.worker.running import (
    PATIENCE_S,
    Running,
    Watched,
    attempts,
    burst,
    spin_until,
    state,
    wait,
)


class Tasks:
    """Tasks that last until they are told, and notes of what they saw."""

    def __init__(self, app: App) -> None:
        self.started = threading.Event()
        self.release = threading.Event()
        self.interrupts: list[type[BaseException]] = []
        self.runs: list[tuple[str, int]] = []
        self.hold = app.task(name="hold", timeout=None)(self._hold)
        self.spin = app.task(name="spin", timeout=None)(self._spin)
        self.quick = app.task(name="quick")(self._quick)

    def _hold(self, ctx: bide.Context) -> None:
        self.runs.append(("hold", ctx.attempt))
        self.started.set()
        wait(self.release)

    def _spin(self, ctx: bide.Context) -> None:
        """Go on by small steps, as an interrupt needs it."""
        self.runs.append(("spin", ctx.attempt))
        try:
            self.started.set()
            spin_until(self.release.is_set)
        except BaseException as error:
            self.interrupts.append(type(error))
            raise

    def _quick(self) -> None:
        self.runs.append(("quick", 0))


def learn_that_jobs_are_short(tasks: Tasks, watched: Watched) -> None:
    """Have the worker run so many short jobs that it holds others ahead."""
    for _ in range(20):
        tasks.quick.enqueue()
    watched.wait_for_settled(c.Completed, 20)
    tasks.runs.clear()


# ---------------------------------------------------------------- draining


def test_draining_ends_what_runs_returns_what_is_held_and_starts_nothing(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    tasks = Tasks(app)
    with Running(app, threads=1) as running:
        learn_that_jobs_are_short(tasks, watched)
        requests = [tasks.hold.request(), *(tasks.quick.request() for _ in range(5))]
        hold, *held = app.enqueue_many(requests)
        wait(tasks.started)
        watched.wait_until(lambda: len(watched.reserved) == 26)
        running.stop()
        watched.wait_for_settled(c.Returned, 5)
        late = tasks.quick.enqueue()
        watched.wait_for_looks()
        assert state(hold) is bide.State.RUNNING  # it has its time
        tasks.release.set()
        assert running.end() == WorkerSummary(succeeded=21)
    assert tasks.runs == [("hold", 1)]
    assert watched.settled_as(c.Returned) == [handle.id for handle in held]
    assert state(hold) is None
    for handle in [*held, late]:
        assert (state(handle), attempts(handle)) == (bide.State.READY, 0)


def test_a_drain_without_end_waits_as_long_as_it_takes(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    tasks = Tasks(app)
    tasks.spin.enqueue()
    with Running(app, drain_timeout_s=float("inf")) as running:
        wait(tasks.started)
        running.stop()
        watched.wait_for_looks()
        clock.advance(365 * 86_400)
        watched.wait_for_looks()
        tasks.release.set()
        assert running.end() == WorkerSummary(succeeded=1)
    assert tasks.interrupts == []


def drain_timeout(running: Running, clock: ManualClock, watched: Watched) -> None:
    running.stop()
    watched.wait_for_looks()  # its time counts from when it notices
    clock.advance(29.999)
    watched.wait_for_looks()
    assert watched.settled == []
    clock.advance(0.001)


def stop_now(running: Running, clock: ManualClock, watched: Watched) -> None:
    running.stop(now=True)


def stop_then_now(running: Running, clock: ManualClock, watched: Watched) -> None:
    running.stop()
    watched.wait_for_looks()
    running.stop(now=True)


ENDS = {"drain timeout": drain_timeout, "now": stop_now, "later now": stop_then_now}
EACH_END = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


@EACH_END
def test_runs_are_interrupted_and_their_jobs_go_back_uncounted(
    make_app: MakeApp,
    any_url: str,
    clock: ManualClock,
    end: Callable[[Running, ManualClock, Watched], None],
) -> None:
    app, watched = make_app(any_url, clock)
    tasks = Tasks(app)
    handle = tasks.spin.enqueue()
    with Running(app, drain_timeout_s=30) as running:
        wait(tasks.started)
        end(running, clock, watched)
        assert running.end() == WorkerSummary(unsettled=1)
    assert tasks.interrupts == [TaskStopped]
    assert watched.settled_as(c.Returned) == [handle.id]
    assert (state(handle), attempts(handle)) == (bide.State.READY, 0)
    tasks.release.set()
    assert burst(app) == WorkerSummary(succeeded=1)
    assert tasks.runs == [("spin", 1), ("spin", 1)]


def test_a_coroutine_that_waits_is_interrupted_too(make_app: MakeApp, any_url: str) -> None:
    app, _ = make_app(any_url)
    started, cleaned_up = threading.Event(), threading.Event()

    @app.task(timeout=None)
    async def patient(ctx: bide.Context) -> None:
        if started.is_set():
            return
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            cleaned_up.set()

    handle = patient.enqueue()
    with Running(app) as running:
        wait(started)
        running.stop(now=True)
        assert running.end() == WorkerSummary(unsettled=1)
    assert cleaned_up.is_set()
    assert attempts(handle) == 0
    assert burst(app) == WorkerSummary(succeeded=1)


def test_what_an_interrupted_task_still_says_counts(make_app: MakeApp, any_url: str) -> None:
    app, _ = make_app(any_url)
    started = threading.Barrier(3)

    def spin_until_stopped() -> None:
        try:
            started.wait(PATIENCE_S)
            spin_until(lambda: False)
        except TaskStopped:
            return

    @app.task(timeout=None)
    def done() -> None:
        spin_until_stopped()

    @app.task(timeout=None)
    def later() -> object:
        spin_until_stopped()
        return bide.Snooze(60)

    handles = [done.enqueue(), later.enqueue()]
    with Running(app) as running:
        started.wait(PATIENCE_S)
        running.stop(now=True)
        assert running.end() == WorkerSummary(succeeded=1, snoozed=1)
    assert [state(handle) for handle in handles] == [None, bide.State.SCHEDULED]
    handles[1].cancel()


# ---------------------------------------------------------------- when it is stopped


def test_a_worker_stopped_before_it_runs_starts_nothing(app: App) -> None:
    tasks = Tasks(app)
    handle = tasks.quick.enqueue()
    worker = Worker(app)
    worker.stop()
    assert worker.run() == WorkerSummary()
    assert tasks.runs == []
    assert (state(handle), attempts(handle)) == (bide.State.READY, 0)


def test_stopping_again_and_after_the_end_is_harmless(app: App) -> None:
    tasks = Tasks(app)
    tasks.hold.enqueue()
    with Running(app) as running:
        wait(tasks.started)
        for _ in range(10):
            running.stop()
        tasks.release.set()
        assert running.end() == WorkerSummary(succeeded=1)
        running.stop()
        running.stop(now=True)
    assert tasks.runs == [("hold", 1)]


def test_now_is_not_taken_back_by_another_stop(app: App) -> None:
    tasks = Tasks(app)
    tasks.spin.enqueue()
    with Running(app) as running:
        wait(tasks.started)
        running.stop(now=True)
        running.stop()
        assert running.end() == WorkerSummary(unsettled=1)


def test_a_signal_handler_may_stop_it(make_app: MakeApp, any_url: str) -> None:
    app, _ = make_app(any_url)
    tasks = Tasks(app)
    worker = Worker(app, WorkerOptions(threads=2))
    signals = itertools.count()

    @app.task
    def send_signal() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    tasks.spin.enqueue()
    send_signal.enqueue()

    def on_signal(*_: object) -> None:
        worker.stop(now=next(signals) > 0)
        if not worker._stop_now:
            os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, on_signal)
    try:
        assert worker.run() == WorkerSummary(succeeded=1, unsettled=1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def stop_at(worker: Worker, at: int) -> int:
    """Run *worker*, and stop it as a signal would at point *at*; how many points it passed."""
    points = itertools.count(1)

    def handle_signal() -> None:
        point = next(points)
        if point >= at:  # two signals: to come to an end, and to hurry
            worker.stop(now=point > at)

    with Interrupter(Path(bide.worker.__file__).parent, -1, handle_signal).here():
        assert worker.run() == WorkerSummary()
    return next(points) - 1


def test_a_handler_that_runs_at_any_point_of_the_loop_stops_it(make_app: MakeApp) -> None:
    """A signal's handler comes between two instructions of the very thread that it is to stop."""
    for at in itertools.count(1):
        app, watched = make_app()
        app.task(name="task")(lambda: None)
        stop_at(Worker(app, WorkerOptions(threads=1)), at)
        if sum(watched.looks.values()) > 1:
            break  # it has slept, and then begins anew
    assert at > 20
