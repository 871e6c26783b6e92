"""Tasks that are coroutines: each runs in an event loop of its own, to its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest

import bide
from bide.jobs.app import App
from bide.testing.clock import ManualClock
from bide.worker.worker import WorkerSummary
from tests.worker.conftest import MakeApp
from tests.worker.running import (
    PATIENCE_S,
    Running,
    attempts,
    burst,
    last_error,
    spin_until,
    state,
    wait,
)

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


def test_a_coroutine_is_run_with_its_arguments_to_its_end(app: App) -> None:
    ran: list[tuple[int, int, int]] = []

    @app.task
    async def task(ctx: bide.Context, number: int) -> str:
        ran.append((0, ctx.attempt, number))
        await asyncio.sleep(0)
        ran.append((1, ctx.attempt, number))
        return "a value that nothing keeps"

    handle = task.enqueue(42)
    assert burst(app) == WorkerSummary(succeeded=1)
    assert ran == [(0, 1, 42), (1, 1, 42)]
    assert handle.get() is None


@pytest.mark.parametrize("how", ["returned", "raised"])
def test_a_coroutine_says_its_outcome_as_a_function_does(
    app: App, clock: ManualClock, how: str
) -> None:
    outcomes: dict[str, BaseException] = {
        "retry": bide.Retry(60, reason="not yet"),
        "snooze": bide.Snooze(60),
        "cancel": bide.Cancel(),
        "fail": bide.Fail("never"),
    }

    @app.task
    async def task(which: str) -> object:
        await asyncio.sleep(0)
        if how == "raised":
            raise outcomes[which]
        return outcomes[which]

    handles = {which: task.enqueue(which) for which in outcomes}
    assert burst(app) == WorkerSummary(retried=1, snoozed=1, cancelled=1, failed=1)
    assert {which: state(handle) for which, handle in handles.items()} == {
        "retry": bide.State.SCHEDULED,
        "snooze": bide.State.SCHEDULED,
        "cancel": None,
        "fail": bide.State.FAILED,
    }
    assert "not yet" in last_error(handles["retry"])
    assert "never" in last_error(handles["fail"])
    clock.advance(59.999)
    assert burst(app) == WorkerSummary()
    for handle in handles.values():
        handle.cancel()


def test_an_error_shows_the_coroutines_own_lines(app: App) -> None:
    async def inner() -> None:
        await asyncio.sleep(0)
        raise LookupError("no such customer")

    @app.task(max_retries=0)
    async def outer() -> None:
        await inner()

    handle = outer.enqueue()
    assert burst(app) == WorkerSummary(failed=1)
    error = last_error(handle)
    assert error.rstrip().endswith("LookupError: no such customer")
    assert "in outer" in error
    assert "in inner" in error


def test_coroutines_run_side_by_side_on_loops_of_their_own(app: App) -> None:
    count = 3
    all_started = threading.Barrier(count)
    loops: list[asyncio.AbstractEventLoop] = []

    @app.task
    async def task() -> None:
        all_started.wait(PATIENCE_S)  # one that holds up its loop holds up no other
        loops.append(asyncio.get_running_loop())

    for _ in range(count):
        task.enqueue()
    assert burst(app, threads=count) == WorkerSummary(succeeded=count)
    assert len(set(loops)) == count
    assert all(loop.is_closed() for loop in loops)


def test_what_a_coroutine_has_started_ends_with_it(app: App) -> None:
    ended: list[str] = []
    kept: list[object] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("background task")

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.append("generator")

    @app.task
    async def task() -> None:
        kept.append(asyncio.create_task(forever()))
        generator = numbers()
        kept.append(generator)
        assert await anext(generator) == 1
        await asyncio.sleep(0)

    task.enqueue()
    assert burst(app) == WorkerSummary(succeeded=1)
    assert sorted(ended) == ["background task", "generator"]


def test_a_coroutine_may_put_jobs(make_app: MakeApp, any_url: str) -> None:
    app, _ = make_app(any_url)
    ran: list[int] = []

    @app.task
    def child(number: int) -> None:
        ran.append(number)

    @app.task
    async def parent(first: int) -> None:
        await asyncio.gather(*(child.aenqueue(first + number) for number in range(20)))
        child.enqueue(first + 20)

    for first in range(0, 210, 21):
        parent.enqueue(first)
    assert burst(app, threads=4) == WorkerSummary(succeeded=220)
    assert sorted(ran) == list(range(210))


async def wait_beside_a_callback(started: threading.Event) -> None:
    """Wait for ever, while a callback spins: asyncio swallows what is raised in one."""

    def spin() -> None:
        started.set()
        spin_until(lambda: False)

    asyncio.get_running_loop().call_soon(spin)
    await asyncio.Event().wait()


def test_a_limit_that_is_swallowed_by_a_callback_ends_the_coroutine_all_the_same(
    make_app: MakeApp,
) -> None:
    app, _ = make_app()

    @app.task(timeout=0.05, max_retries=0)
    async def task() -> None:
        await wait_beside_a_callback(threading.Event())

    handle = task.enqueue()
    assert burst(app, threads=1) == WorkerSummary(failed=1)
    assert last_error(handle) == "TaskTimeout: it ran longer than 0.05 s"


def test_a_stop_that_is_swallowed_by_a_callback_counts_no_attempt(make_app: MakeApp) -> None:
    app, _ = make_app()
    started = threading.Event()

    @app.task(timeout=None, max_retries=0)
    async def task() -> None:
        await wait_beside_a_callback(started)

    handle = task.enqueue()
    with Running(app, threads=1) as running:
        wait(started)
        running.stop(now=True)
        assert running.end() == WorkerSummary(unsettled=1)
    assert attempts(handle) == 0


def test_a_coroutine_that_is_cancelled_by_its_own_has_failed(app: App) -> None:
    @app.task(max_retries=0)
    async def task() -> None:
        raise asyncio.CancelledError

    handle = task.enqueue()
    assert burst(app) == WorkerSummary(failed=1)
    assert "CancelledError" in last_error(handle)


def test_a_limit_holds_for_the_coroutine_and_all_that_it_awaits(make_app: MakeApp) -> None:
    app, _ = make_app()
    ended: list[str] = []

    async def wait_long(name: str) -> None:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), PATIENCE_S)
        finally:
            ended.append(name)

    @app.task(timeout=0.05, max_retries=0)
    async def task() -> None:
        await asyncio.gather(wait_long("a"), wait_long("b"))

    handle = task.enqueue()
    assert burst(app, threads=1) == WorkerSummary(failed=1)
    assert last_error(handle) == "TaskTimeout: it ran longer than 0.05 s"
    assert sorted(ended) == ["a", "b"]


@pytest.mark.parametrize("kind", ["coroutine", "function"])
def test_what_one_run_sets_in_its_context_no_other_sees(app: App, kind: str) -> None:
    seen: list[str] = []

    def note(name: str) -> None:
        seen.append(tenant.get())
        tenant.set(name)

    async def anote(name: str) -> None:
        note(name)
        await asyncio.sleep(0)
        assert tenant.get() == name

    task = app.task(name="note")(note if kind == "function" else anote)
    for name in ("a", "b", "c"):
        task.enqueue(name)
    assert burst(app, threads=1) == WorkerSummary(succeeded=3)
    assert seen == ["nobody"] * 3
