"""Workers and topics: subscriptions, messages that come due, pauses."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec
import pytest

import bide
from bide.jobs.app import App
from bide.testing.clock import ManualClock
from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker, WorkerSummary
from tests.worker.conftest import MakeApp
from tests.worker.running import Running, burst, last_error, wait


class Order(msgspec.Struct):
    number: int
    note: str = ""


def subscribe(app: App, channel: str, got: list[tuple[str, int]], **options: object) -> None:
    @app.subscribe("orders", channel=channel, **options)
    def receive(number: int) -> None:
        got.append((channel, number))


def test_each_channel_gets_each_message(app: App) -> None:
    got: list[tuple[str, int]] = []
    subscribe(app, "mail", got)
    subscribe(app, "audit", got)
    app.publish("orders", {"number": 1})
    app.publish("orders", Order(2))
    assert burst(app, threads=1) == WorkerSummary(succeeded=4)
    assert got == [("audit", 1), ("audit", 2), ("mail", 1), ("mail", 2)]


def test_a_retry_is_seen_by_its_channel_alone(app: App, clock: ManualClock) -> None:
    got: list[tuple[str, int]] = []
    subscribe(app, "mail", got)

    @app.subscribe("orders", "audit", max_retries=1, retry_backoff=1, retry_jitter=0)
    def audit(ctx: bide.Context, number: int) -> None:
        got.append((f"{ctx.queue} {ctx.attempt}", number))
        raise ValueError("no")

    app.publish("orders", {"number": 1})
    assert burst(app, threads=1) == WorkerSummary(succeeded=1, retried=1)
    clock.advance(1)
    assert burst(app, threads=1) == WorkerSummary(failed=1)
    assert got == [("orders:audit 1", 1), ("mail", 1), ("orders:audit 2", 1)]
    (info,) = app.jobs(bide.State.FAILED, queue="orders:audit").jobs
    assert "ValueError" in last_error(bide.Handle(app, info.job.id, "put"))


def test_a_worker_starts_the_channels_of_its_queues_by_their_present_terms(app: App) -> None:
    subscribe(app, "mail", [], max_retries=7, timeout=None)
    subscribe(app, "audit", [])
    app.make_channel("orders", "mail", max_retries=1)
    burst(app, queues=("orders:mail",))
    (info,) = app.channels()
    assert (info.channel, info.max_retries, info.timeout_ms) == ("mail", 7, 0)


def test_arguments_that_do_not_fit_fail_in_that_channel(app: App) -> None:
    got: list[tuple[str, int]] = []
    subscribe(app, "mail", got, max_retries=0)
    app.publish("orders", {"other": 1})
    assert burst(app) == WorkerSummary(failed=1)
    assert got == []


def test_a_waiting_worker_wakes_for_a_message_that_comes_due(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    got = threading.Event()

    @app.subscribe("orders", "mail")
    def mail(number: int) -> None:
        got.set()

    with Running(app):
        watched.wait_for_looks()
        app.publish("orders", {"number": 1}, delay=3_600)
        watched.wait_for_looks()
        assert not got.is_set()
        clock.advance(3_600)
        wait(got)


def test_a_waiting_worker_is_rung_for_a_message(make_app: MakeApp, url: str) -> None:
    app, watched = make_app(url)
    got = threading.Event()

    @app.subscribe("orders", "mail")
    def mail(number: int) -> None:
        got.set()

    with Running(app):
        watched.wait_for_looks()
        app.publish("orders", {"number": 1})
        wait(got)


def test_a_paused_queue_lets_a_worker_sleep_and_resume_wakes_it(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    got = threading.Event()
    app.task(name="task")(got.set).enqueue()
    app.pause("default")
    waits: list[int | None] = []
    tick = watched._backend.tick

    def noted(queues: Sequence[str]) -> int | None:
        waits.append(tick(queues))
        return waits[-1]

    watched._backend.tick = noted  # type: ignore[method-assign]
    with Running(app):
        watched.wait_for_looks(3)
        assert not got.is_set()
        assert set(waits) == {None}, "it would spin"
        app.resume("default")
        wait(got)


def test_a_burst_ends_though_a_paused_queue_has_jobs(app: App) -> None:
    app.task(name="task")(lambda: None).enqueue()
    app.pause("default")
    assert burst(app) == WorkerSummary()
    app.resume("default")
    assert burst(app) == WorkerSummary(succeeded=1)


def test_a_worker_of_a_channel_that_was_dropped_goes_on(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    subscribe(app, "mail", [])
    with Running(app) as running:
        watched.wait_for_looks()
        app.drop_channel("orders", "mail")
        app.publish("orders", {"number": 1})
        watched.wait_for_looks()
        running.stop()
        assert running.end() == WorkerSummary()
    assert app.channels() == ()


def test_a_channel_that_no_function_subscribes_to(app: App) -> None:
    subscribe(app, "mail", [])
    with pytest.raises(bide.errors.UnknownQueue, match="orders:audit"):
        Worker(app, WorkerOptions(queues=("orders:audit",)))
