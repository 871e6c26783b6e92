"""What a task returns or raises, and what becomes of its job."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

import bide
from bide.jobs.app import App
from bide.model.limits import ERROR_TEXT_SIZE_MAX
from bide.testing.clock import ManualClock
from bide.worker.worker import WorkerSummary
from tests.worker.running import burst


class Refused(Exception):
    """An error of the user's."""


class Silent(BaseException):
    """No `Exception`, as libraries have them for their own control flow."""


def last_error(handle: bide.Handle) -> str:
    info = handle.get()
    assert info is not None
    return info.job.errors[-1].text


def state(handle: bide.Handle) -> bide.State | None:
    info = handle.get()
    return None if info is None else info.state


def test_a_job_whose_task_returns_is_gone(app: App) -> None:
    @app.task
    def task() -> str:
        return "a value that nothing keeps"

    handle = task.enqueue()
    assert burst(app) == WorkerSummary(succeeded=1)
    assert handle.get() is None


@pytest.mark.parametrize("value", [Refused("no"), ValueError(), Silent(), bide.Retry, bide.Cancel])
def test_an_error_that_is_only_returned_is_a_value(app: App, value: object) -> None:
    @app.task
    def task() -> object:
        return value

    task.enqueue()
    assert burst(app) == WorkerSummary(succeeded=1)


def say(how: str, outcome: BaseException) -> BaseException:
    """Return or raise *outcome*."""
    if how == "raised":
        raise outcome
    return outcome


BOTH_WAYS = pytest.mark.parametrize("how", ["returned", "raised"])


@BOTH_WAYS
def test_retry_comes_no_earlier_than_it_asked_for(app: App, clock: ManualClock, how: str) -> None:
    attempts: list[int] = []

    @app.task(retry_backoff=1, retry_jitter=1)
    def task(ctx: bide.Context) -> object:
        attempts.append(ctx.attempt)
        return say(how, bide.Retry(delay=3_600, reason="not yet")) if ctx.attempt == 1 else None

    handle = task.enqueue()
    assert burst(app) == WorkerSummary(retried=1)
    assert "not yet" in last_error(handle)
    clock.advance(3_599.999)
    assert burst(app) == WorkerSummary()
    clock.advance(0.001)
    assert burst(app) == WorkerSummary(succeeded=1)
    assert attempts == [1, 2]


@BOTH_WAYS
def test_retry_without_a_delay_follows_the_backoff(app: App, clock: ManualClock, how: str) -> None:
    @app.task(retry_backoff=60, retry_jitter=0)
    def task() -> object:
        return say(how, bide.Retry())

    handle = task.enqueue()
    burst(app)
    info = handle.get()
    assert info is not None
    assert info.job.due_ms - clock.now_ms() == 60_000


@BOTH_WAYS
def test_snoozes_come_no_earlier_and_do_not_count(app: App, clock: ManualClock, how: str) -> None:
    attempts: list[int] = []

    @app.task(max_retries=0)
    def task(ctx: bide.Context) -> object:
        attempts.append(ctx.attempt)
        return say(how, bide.Snooze(60)) if len(attempts) < 5 else None

    handle = task.enqueue()
    for _ in range(4):
        assert burst(app) == WorkerSummary(snoozed=1)
        clock.advance(59.999)
        assert burst(app) == WorkerSummary()
        clock.advance(0.001)
    assert burst(app) == WorkerSummary(succeeded=1)
    assert attempts == [1] * 5
    assert handle.get() is None


@BOTH_WAYS
def test_cancel_withdraws_the_job(app: App, how: str) -> None:
    @app.task
    def task() -> object:
        return say(how, bide.Cancel("paid"))

    handle = task.using(key="order").enqueue()
    assert burst(app) == WorkerSummary(cancelled=1)
    assert handle.get() is None
    assert app.stats().queues[0].cancelled_total == 1
    assert task.using(key="order").enqueue().outcome == "put"
    burst(app)


@BOTH_WAYS
def test_fail_is_for_good_whatever_attempts_are_left(app: App, how: str) -> None:
    @app.task(max_retries=9)
    def task() -> object:
        return say(how, bide.Fail("no such customer"))

    handle = task.enqueue()
    assert burst(app) == WorkerSummary(failed=1)
    assert state(handle) is bide.State.FAILED
    assert "no such customer" in last_error(handle)


def overflow(depth: int = 0) -> int:
    return overflow(depth + 1)


def raise_(error: BaseException) -> NoReturn:
    raise error


BREAKERS: dict[str, Callable[[], object]] = {
    "exception": lambda: raise_(Refused("no")),
    "SystemExit": lambda: raise_(SystemExit(3)),
    "KeyboardInterrupt": lambda: raise_(KeyboardInterrupt()),
    "GeneratorExit": lambda: raise_(GeneratorExit()),
    "CancelledError": lambda: raise_(asyncio.CancelledError()),
    "StopIteration": lambda: raise_(StopIteration(3)),
    "own BaseException": lambda: raise_(Silent()),
    "RecursionError": overflow,
    "MemoryError": lambda: bytearray(1 << 62),
    "group": lambda: raise_(ExceptionGroup("two", [Refused("one"), ValueError("other")])),
}


@pytest.mark.parametrize("breaker", BREAKERS.values(), ids=BREAKERS)
def test_whatever_is_raised_ends_the_attempt_and_not_the_worker(
    app: App, clock: ManualClock, breaker: Callable[[], object]
) -> None:
    attempts: list[int] = []

    @app.task(max_retries=1, retry_backoff=1, retry_jitter=0)
    def broken(ctx: bide.Context) -> None:
        attempts.append(ctx.attempt)
        breaker()

    @app.task
    def sound() -> None: ...

    handle = broken.enqueue()
    sound.enqueue()
    assert burst(app, threads=1) == WorkerSummary(retried=1, succeeded=1)
    clock.advance(1)
    assert burst(app) == WorkerSummary(failed=1)
    assert attempts == [1, 2]
    assert state(handle) is bide.State.FAILED


@pytest.mark.parametrize("breaker", BREAKERS.values(), ids=BREAKERS)
def test_whatever_is_raised_in_a_coroutine_ends_the_attempt(
    app: App, breaker: Callable[[], object]
) -> None:
    @app.task(max_retries=0)
    async def broken() -> None:
        await asyncio.sleep(0)
        breaker()

    handle = broken.enqueue()
    assert burst(app) == WorkerSummary(failed=1)
    assert state(handle) is bide.State.FAILED


def test_retry_on_says_which_errors_are_worth_another_run(app: App, clock: ManualClock) -> None:
    errors: dict[str, BaseException] = {
        "listed": Refused("no"),
        "unlisted": KeyError("no"),
        "no exception": SystemExit(1),
    }

    @app.task(retry_on=(Refused, TimeoutError), retry_backoff=1)
    def task(which: str) -> None:
        raise errors[which]

    handles = {which: task.enqueue(which) for which in errors}
    assert burst(app) == WorkerSummary(retried=2, failed=1)
    assert {which: state(handle) for which, handle in handles.items()} == {
        "listed": bide.State.SCHEDULED,
        "unlisted": bide.State.FAILED,
        "no exception": bide.State.SCHEDULED,  # it ended this run, and says nothing of the next
    }
    for handle in handles.values():
        handle.cancel()


def test_an_outcome_asked_for_is_beyond_retry_on(app: App, clock: ManualClock) -> None:
    @app.task(retry_on=())
    def task(ctx: bide.Context) -> None:
        if ctx.attempt == 1:
            raise bide.Retry(delay=1)

    task.enqueue()
    assert burst(app) == WorkerSummary(retried=1)
    clock.advance(1)
    assert burst(app) == WorkerSummary(succeeded=1)


class Awkward(Exception):
    """An error that can't even be shown."""

    def __str__(self) -> str:
        raise Refused("no text either")


AWKWARD: dict[str, Callable[[], object]] = {
    "text that is no UTF-8": lambda: raise_(OSError(os.fsdecode(b"/tmp/\xff\xfe"))),
    "retry's reason": lambda: raise_(bide.Retry(1, reason=os.fsdecode(b"\xff"))),
    "fail's reason": lambda: raise_(bide.Fail(os.fsdecode(b"\xff"))),
    "no text at all": lambda: raise_(Awkward()),
    "NUL and controls": lambda: raise_(Refused("\0\x1b[2J\r\n\u2028")),
    "very long text": lambda: raise_(Refused("x" * 3_000_000)),
}


@pytest.mark.parametrize("breaker", AWKWARD.values(), ids=AWKWARD)
def test_any_text_of_an_error_can_be_kept(app: App, breaker: Callable[[], object]) -> None:
    @app.task(max_retries=0)
    def broken() -> None:
        breaker()

    handle = broken.enqueue()
    assert burst(app) == WorkerSummary(failed=1)
    assert 0 < len(last_error(handle)) <= ERROR_TEXT_SIZE_MAX


def test_an_error_is_kept_with_the_users_own_frames(app: App) -> None:
    @app.task(max_retries=0)
    def broken(order: int) -> None:
        raise Refused(f"order {order}") from KeyError("cause")

    handle = broken.enqueue(42)
    burst(app)
    text = last_error(handle)
    assert text.rstrip().endswith("Refused: order 42")
    assert "KeyError: 'cause'" in text
    assert "test_outcomes.py" in text
    assert "bide/worker" not in text


def test_the_same_arguments_come_with_each_attempt(app: App, clock: ManualClock) -> None:
    seen: list[list[Any]] = []

    @app.task(max_retries=2, retry_backoff=1)
    def task(values: list[int]) -> None:
        seen.append(list(values))
        values.append(0)  # what one run does to them is its own affair
        raise Refused("again")

    task.enqueue([1, 2])
    for _ in range(3):
        burst(app)
        clock.advance(60)
    assert seen == [[1, 2]] * 3
