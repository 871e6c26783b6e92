"""How often a job runs, when it runs again, and what is kept of the attempts."""

from __future__ import annotations

import pytest

import bide
from bide.jobs.app import App
from bide.model.limits import ERROR_TEXT_SIZE_MAX, ERRORS_KEPT_MAX
from bide.testing.clock import ManualClock
from bide.worker.worker import WorkerSummary
from tests.worker.running import burst


@pytest.mark.parametrize("max_retries", [0, 1, 5])
def test_a_job_runs_once_more_than_its_retries(
    app: App, clock: ManualClock, max_retries: int
) -> None:
    attempts: list[int] = []

    @app.task(max_retries=max_retries)
    def task(ctx: bide.Context) -> None:
        attempts.append(ctx.attempt)
        raise ValueError(f"at {ctx.attempt}")

    handle = task.enqueue()
    for _ in range(max_retries + 3):
        burst(app)
        clock.advance(3_600)
    assert attempts == list(range(1, max_retries + 2))
    info = handle.get()
    assert info is not None
    assert info.state is bide.State.FAILED
    assert info.job.attempt == max_retries + 1


def test_a_job_that_was_kicked_has_its_attempts_anew(app: App, clock: ManualClock) -> None:
    attempts: list[int] = []

    @app.task(max_retries=1, retry_backoff=1)
    def task(ctx: bide.Context) -> None:
        attempts.append(ctx.attempt)
        raise ValueError("again")

    handle = task.enqueue()
    for _ in range(2):
        for _ in range(3):
            burst(app)
            clock.advance(1)
        handle.kick()
    assert attempts == [1, 2, 1, 2]
    handle.cancel()


def test_snoozes_between_failures_use_up_no_attempt(app: App, clock: ManualClock) -> None:
    attempts: list[int] = []

    @app.task(max_retries=2, retry_backoff=1, retry_jitter=0)
    def task(ctx: bide.Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) % 2:
            raise bide.Snooze(1)
        raise ValueError("again")

    handle = task.enqueue()
    for _ in range(10):
        burst(app)
        clock.advance(60)
    assert attempts == [1, 1, 2, 2, 3, 3]
    info = handle.get()
    assert info is not None
    assert info.state is bide.State.FAILED


def test_the_last_errors_are_kept_and_no_more(app: App, clock: ManualClock) -> None:
    count = ERRORS_KEPT_MAX + 3

    @app.task(max_retries=count - 1, retry_backoff=1, retry_backoff_max=1, retry_jitter=0)
    def task(ctx: bide.Context) -> None:
        raise ValueError("x" * ERROR_TEXT_SIZE_MAX + f" attempt {ctx.attempt}")

    start_ms = clock.now_ms()
    handle = task.enqueue()
    for _ in range(count):
        burst(app)
        clock.advance(1)
    info = handle.get()
    assert info is not None
    kept = info.job.errors
    last = range(count - ERRORS_KEPT_MAX + 1, count + 1)
    assert [error.attempt for error in kept] == list(last)
    assert [error.at_ms for error in kept] == [start_ms + (n - 1) * 1_000 for n in last]
    for error in kept:
        assert len(error.text) == ERROR_TEXT_SIZE_MAX
        assert error.text.rstrip().endswith(f"attempt {error.attempt}")


def test_backoff_doubles_up_to_its_limit(app: App, clock: ManualClock) -> None:
    delays: list[int] = []

    @app.task(max_retries=6, retry_backoff=10, retry_backoff_max=100, retry_jitter=0)
    def task() -> None:
        raise ValueError("again")

    handle = task.enqueue()
    for _ in range(6):
        assert burst(app) == WorkerSummary(retried=1)
        info = handle.get()
        assert info is not None
        delays.append(info.job.due_ms - clock.now_ms())
        clock.advance(delays[-1] / 1_000 - 0.001)
        assert burst(app) == WorkerSummary()  # not a millisecond early
        clock.advance(0.001)
    assert delays == [10_000, 20_000, 40_000, 80_000, 100_000, 100_000]
    assert burst(app) == WorkerSummary(failed=1)


def test_jitter_takes_off_no_more_than_its_share(app: App, clock: ManualClock) -> None:
    @app.task(retry_backoff=1_000, retry_jitter=0.25)
    def task() -> None:
        raise ValueError("again")

    handles = [task.enqueue() for _ in range(100)]
    assert burst(app) == WorkerSummary(retried=100)
    delays: set[int] = set()
    for handle in handles:
        info = handle.get()
        assert info is not None
        delays.add(info.job.due_ms - clock.now_ms())
    assert 750_000 <= min(delays) < max(delays) <= 1_000_000
    assert len(delays) > 50  # spread: they do not come back together


def test_a_task_without_backoff_is_run_again_at_once(app: App) -> None:
    attempts: list[int] = []

    @app.task(max_retries=3, retry_backoff=0)
    def task(ctx: bide.Context) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt < 4:
            raise ValueError("again")

    task.enqueue()
    assert burst(app) == WorkerSummary(retried=3, succeeded=1)
    assert attempts == [1, 2, 3, 4]


def test_a_key_is_held_through_the_retries_and_free_after_the_last(
    app: App, clock: ManualClock
) -> None:
    @app.task(max_retries=1, retry_backoff=1)
    def task() -> None:
        raise ValueError("again")

    keyed = task.using(key="order", on_conflict="skip")
    first = keyed.enqueue()
    burst(app)
    assert keyed.enqueue().outcome == "skipped"
    clock.advance(1)
    assert burst(app) == WorkerSummary(failed=1)
    second = keyed.enqueue()
    assert second.outcome == "put"
    assert second.id != first.id
    second.cancel()
