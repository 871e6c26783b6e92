"""When a burst ends by itself, and when it does not."""

from __future__ import annotations

import threading

import bide
from bide.jobs.app import App
from bide.testing.clock import ManualClock
from bide.worker.worker import WorkerSummary
from tests.worker.conftest import MakeApp
from tests.worker.running import Running, burst, state, wait


def test_a_burst_ends_at_once_where_nothing_is(app: App) -> None:
    app.task(name="task")(lambda: None)
    assert burst(app) == WorkerSummary()


def test_a_burst_leaves_what_is_due_later(app: App, clock: ManualClock) -> None:
    ran: list[str] = []

    @app.task
    def task(name: str) -> object:
        ran.append(name)
        return bide.Retry(60) if name == "again" else None

    later = [task.using(delay=delay).enqueue("later") for delay in (0.001, 1, 86_400)]
    task.enqueue("now")
    again = task.enqueue("again")
    assert burst(app) == WorkerSummary(succeeded=1, retried=1)
    assert sorted(ran) == ["again", "now"]
    assert {state(handle) for handle in [*later, again]} == {bide.State.SCHEDULED}
    clock.advance(0.001)
    assert burst(app) == WorkerSummary(succeeded=1)


def test_a_burst_runs_what_its_jobs_put_for_now(app: App) -> None:
    @app.task
    def count_down(number: int) -> None:
        if number:
            count_down.enqueue(number - 1)

    count_down.enqueue(50)
    assert burst(app) == WorkerSummary(succeeded=51)


def test_a_burst_waits_for_its_last_run(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    started, release = threading.Event(), threading.Event()

    @app.task(timeout=None)
    def slow() -> None:
        started.set()
        wait(release)
        quick.enqueue()

    @app.task
    def quick() -> None: ...

    slow.enqueue()
    with Running(app, burst=True, threads=1) as running:
        wait(started)
        clock.advance(86_400)
        watched.wait_for_looks()
        assert running.summary is None
        release.set()
        assert running.end() == WorkerSummary(succeeded=2)


def test_a_burst_can_be_stopped(app: App) -> None:
    started = threading.Event()
    ran: list[int] = []

    @app.task
    def endless() -> None:
        ran.append(len(ran))
        endless.enqueue()
        if len(ran) >= 10:
            started.set()

    endless.enqueue()
    with Running(app, burst=True) as running:
        wait(started)
        running.stop()
        assert running.end().succeeded == len(ran)
