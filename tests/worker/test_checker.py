"""Workers and transactions: the checker decides what was left undecided."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import bide
from bide.jobs.app import App
from bide.testing.clock import ManualClock
from bide.worker.worker import WorkerSummary
from tests.worker.conftest import MakeApp
from tests.worker.running import Running, burst, wait


def add_task(app: App) -> tuple[bide.Task[[int], None], list[int]]:
    ran: list[int] = []

    @app.task(name="ship", queue="mail")
    def ship(number: int) -> None:
        ran.append(number)

    return ship, ran


def state(app: App, prepared: bide.Transaction) -> bide.State | None:
    info = app.get(prepared.id)
    return None if info is None else info.state


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_the_checker_decides(app: App, clock: ManualClock, answer: bool, is_async: bool) -> None:
    ship, ran = add_task(app)
    asked: list[bide.Prepared] = []

    def check(prepared: bide.Prepared) -> bool:
        asked.append(prepared)
        return answer

    async def check_async(prepared: bide.Prepared) -> bool:
        await asyncio.sleep(0)
        return check(prepared)

    app.checker(check_async if is_async else check)
    prepared_ms = clock.now_ms()
    requests = (ship.request(1), ship.using(key="k", queue="other").request(2))
    prepared = app.prepare(*requests, check_after=30, label="order 1")
    clock.advance(29.999)
    assert burst(app) == WorkerSummary()
    clock.advance(0.001)
    assert burst(app) == WorkerSummary(succeeded=2 if answer else 1)
    (one,) = asked
    assert (one.id, one.label, one.prepared_ms, one.asked) == (
        prepared.id,
        "order 1",
        prepared_ms,
        0,
    )
    assert [(job.task, job.queue, job.key) for job in one.jobs] == [
        ("ship", "mail", None),
        ("ship", "other", "k"),
    ]
    assert [job.arguments for job in one.jobs] == [{"number": 1}, {"number": 2}]
    assert ran == ([1] if answer else [])
    assert (app.get(key="k", queue="other") is not None) == answer
    assert state(app, prepared) is None
    app.cancel(key="k", queue="other")


def no_answer(prepared: bide.Prepared) -> None:
    del prepared


def raises(prepared: bide.Prepared) -> bool:
    raise ValueError(f"no idea about {prepared.id}")


def exits(prepared: bide.Prepared) -> bool:
    raise SystemExit(prepared.id)


def says_yes(prepared: bide.Prepared) -> Any:
    return "yes"


@pytest.mark.parametrize("check", [no_answer, raises, exits, says_yes])
def test_a_checker_that_cannot_tell_is_asked_again_for_ever(
    app: App, clock: ManualClock, check: Callable[[bide.Prepared], Any]
) -> None:
    ship, ran = add_task(app)
    asked: list[int] = []

    @app.checker
    def check_and_count(prepared: bide.Prepared) -> Any:
        asked.append(prepared.asked)
        return check(prepared)

    prepared = app.prepare(ship.request(1), check_after=0)
    delays: list[int] = []
    for _ in range(12):
        burst(app)
        info = app.get(prepared.id)
        assert info is not None
        assert info.state is bide.State.PREPARED
        delays.append((info.job.due_ms - clock.now_ms()) // 1_000)
        clock.set_ms(info.job.due_ms)
    assert asked == list(range(12))
    assert delays == [10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600, 3_600]
    assert ran == []
    prepared.commit()
    burst(app)
    assert ran == [1]


def test_without_a_checker_it_waits_and_that_is_told_once(
    make_app: MakeApp, any_url: str, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    app, watched = make_app(any_url, clock)
    ship, _ = add_task(app)
    prepared = app.prepare(ship.request(1), check_after=0)
    with caplog.at_level(logging.WARNING, "bide.worker"), Running(app):
        for _ in range(3):
            watched.wait_for_looks()
            clock.advance(10)
        watched.wait_for_looks()
    assert [r.getMessage()[:30] for r in caplog.records] == ["undecided transactions wait to"]
    assert state(app, prepared) is bide.State.PREPARED
    prepared.rollback()


def test_only_workers_of_its_first_queue_are_asked(app: App) -> None:
    ship, _ = add_task(app)
    app.task(name="other", queue="other")(lambda: None)
    app.checker(lambda _prepared: True)
    prepared = app.prepare(ship.request(1), check_after=0)
    assert burst(app, queues=("other",)) == WorkerSummary()
    assert state(app, prepared) is bide.State.PREPARED
    assert burst(app, queues=("mail",)) == WorkerSummary(succeeded=2)


def test_a_transaction_that_publishes_first_is_checked_by_its_subscribers(app: App) -> None:
    got: list[int] = []

    @app.subscribe("orders", "mail")
    def mail(number: int) -> None:
        got.append(number)

    app.checker(lambda _prepared: True)
    app.make_channel("orders", "mail")
    app.prepare(app.message("orders", {"number": 7}), check_after=0)
    assert burst(app) == WorkerSummary(succeeded=2)
    assert got == [7]


def test_the_caller_may_decide_while_the_checker_is_asked(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, _ = make_app(any_url, clock)
    ship, ran = add_task(app)
    asked, go_on = threading.Event(), threading.Event()

    @app.checker
    def check(prepared: bide.Prepared) -> bool:
        asked.set()
        wait(go_on)
        return False

    prepared = app.prepare(ship.request(1), check_after=0)
    with Running(app, threads=1) as running:
        wait(asked)
        (handle,) = prepared.commit()
        go_on.set()
        app.backend.wait_until(lambda: app.get(handle.id) is None)  # type: ignore[attr-defined]
        running.stop()
        assert running.end() == WorkerSummary(succeeded=1, unsettled=1)
    assert ran == [1]


def test_a_checker_that_takes_too_long_is_asked_again(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    ship, _ = add_task(app)
    asked = threading.Event()

    @app.checker
    async def check(prepared: bide.Prepared) -> None:
        asked.set()
        await asyncio.Event().wait()

    prepared = app.prepare(ship.request(1), check_after=0)
    with Running(app, threads=1):
        wait(asked)
        clock.advance(61)
        watched.wait_until(lambda: watched.settled)
    info = app.get(prepared.id)
    assert info is not None
    assert info.state is bide.State.PREPARED
    assert "TaskTimeout" in info.job.errors[-1].text
    prepared.rollback()
