"""What a running task learns of its job and its worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import bide
from bide.jobs.app import App
from bide.testing.clock import ManualClock
from bide.worker.worker import WorkerSummary
from tests.worker.conftest import MakeApp
from tests.worker.running import PATIENCE_S, Running, burst, spin_until, state, wait


def test_a_task_knows_its_job(app: App, clock: ManualClock) -> None:
    seen: list[tuple[object, ...]] = []

    @app.task(queue="mail", max_retries=7)
    def task(ctx: bide.Context, number: int) -> None:
        seen.append((number, ctx.job_id, ctx.queue, ctx.key, ctx.max_retries, ctx.due))
        assert not ctx.stopping
        assert not ctx.cancelled

    handle = task.using(key="order", delay=60).enqueue(1)
    due = datetime.fromtimestamp(clock.now_ms() / 1_000, UTC) + timedelta(seconds=60)
    clock.advance(3_600)  # it is late
    assert burst(app) == WorkerSummary(succeeded=1)
    assert seen == [(1, handle.id, "mail", "order", 7, due)]


# ---------------------------------------------------------------- stopping


def test_a_task_is_told_that_its_worker_stops(make_app: MakeApp, any_url: str) -> None:
    app, _ = make_app(any_url)
    started = threading.Event()
    told: list[bool] = []

    @app.task(timeout=None)
    def task(ctx: bide.Context) -> None:
        told.append(ctx.stopping)
        started.set()
        spin_until(lambda: ctx.stopping)

    task.enqueue()
    with Running(app) as running:
        wait(started)
        running.stop()
        assert running.end() == WorkerSummary(succeeded=1)
    assert told == [False]


def test_a_task_that_is_told_may_save_its_work_and_snooze(make_app: MakeApp, any_url: str) -> None:
    app, _ = make_app(any_url)
    started = threading.Event()
    attempts: list[int] = []

    @app.task(timeout=None)
    def task(ctx: bide.Context) -> object:
        attempts.append(ctx.attempt)
        if len(attempts) > 1:
            return None
        started.set()
        spin_until(lambda: ctx.stopping)
        return bide.Snooze(0)

    task.enqueue()
    with Running(app) as running:
        wait(started)
        running.stop()
        assert running.end() == WorkerSummary(snoozed=1)
    assert attempts == [1]  # a stopping worker does not take it again
    assert burst(app) == WorkerSummary(succeeded=1)
    assert attempts == [1, 1]


def test_a_burst_that_only_comes_to_its_end_tells_no_task_to_stop(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    told: list[bool] = []
    started, release = threading.Event(), threading.Event()

    @app.task
    def task(ctx: bide.Context) -> None:
        started.set()
        wait(release)
        told.append(ctx.stopping)

    task.enqueue()
    with Running(app, burst=True) as running:
        wait(started)
        watched.wait_for_looks()  # nothing else is due
        release.set()
        assert running.end() == WorkerSummary(succeeded=1)
    assert told == [False]


# ---------------------------------------------------------------- cancelled


ENDS: dict[str, Callable[[], object]] = {
    "returns": lambda: None,
    "snoozes": lambda: bide.Snooze(1),
    "retries": lambda: bide.Retry(1),
    "fails": lambda: bide.Fail("it was cancelled"),
    "raises": lambda: 1 // 0,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_cancelled_job_is_told_and_nothing_that_it_says_counts(
    make_app: MakeApp,
    any_url: str,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    end: Callable[[], object],
) -> None:
    app, watched = make_app(any_url, clock)
    started = threading.Event()
    told: list[bool] = []

    @app.task(timeout=None, retry_backoff=0)
    def task(ctx: bide.Context) -> object:
        told.append(ctx.cancelled)
        started.set()
        spin_until(lambda: ctx.cancelled)
        assert not ctx.stopping
        return end()

    keyed = task.using(key="order")
    handle = keyed.enqueue()
    with caplog.at_level(logging.INFO, "bide.worker"), Running(app) as running:
        wait(started)
        assert handle.cancel()
        assert state(handle) is None
        clock.advance(0.2)  # to the next look around
        watched.wait_until(lambda: len(watched.settled) == 1)
        clock.advance(3_600)
        watched.wait_for_looks()
        running.stop()
        assert running.end() == WorkerSummary(unsettled=1)
    assert told == [False]  # it ran once
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "its outcome does not count" in caplog.text
    queue = app.stats().queues[0]
    assert (queue.cancelled_total, queue.succeeded_total, queue.failed_total) == (1, 0, 0)
    assert keyed.enqueue().cancel()  # the key is free


def test_only_the_cancelled_of_several_runs_is_told(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    started, release = threading.Barrier(4), threading.Event()
    ended: list[tuple[int, bool]] = []

    @app.task(timeout=None)
    def task(ctx: bide.Context, number: int) -> None:
        started.wait(PATIENCE_S)
        spin_until(lambda: ctx.cancelled or release.is_set())
        ended.append((number, ctx.cancelled))

    handles = [task.enqueue(number) for number in range(3)]
    with Running(app) as running:
        started.wait(PATIENCE_S)
        handles[1].cancel()
        clock.advance(0.2)
        watched.wait_until(lambda: len(watched.settled) == 1)
        release.set()
        running.stop()
        assert running.end() == WorkerSummary(succeeded=2, unsettled=1)
    assert ended[0] == (1, True)
    assert sorted(ended[1:]) == [(0, False), (2, False)]


def test_a_successor_put_while_the_cancelled_job_runs_is_its_own(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    started, release = threading.Semaphore(0), threading.Event()
    ran: list[tuple[int, int, bool]] = []

    @app.task(timeout=None)
    def task(ctx: bide.Context, number: int) -> None:
        started.release()
        wait(release)
        ran.append((number, ctx.attempt, ctx.cancelled))

    first = task.using(key="order").enqueue(1)
    with Running(app, threads=2) as running:
        assert started.acquire(timeout=PATIENCE_S)
        app.cancel(key="order")
        second = task.using(key="order").enqueue(2)
        assert started.acquire(timeout=PATIENCE_S)
        clock.advance(0.2)
        watched.wait_for_looks()
        release.set()
        watched.wait_until(lambda: len(watched.settled) == 2)
        running.stop()
        assert running.end() == WorkerSummary(succeeded=1, unsettled=1)
    assert sorted(ran) == [(1, 1, True), (2, 1, False)]
    assert [state(first), state(second)] == [None, None]
