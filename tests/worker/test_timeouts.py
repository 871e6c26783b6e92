"""Runs that take longer than they may."""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

import bide
from bide.jobs.app import App
from bide.testing.clock import ManualClock
from bide.worker.worker import WorkerSummary
from tests.worker.conftest import MakeApp
from tests.worker.running import PATIENCE_S, Running, burst, spin_until, wait


def errors_of(handle: bide.Handle) -> list[str]:
    info = handle.get()
    assert info is not None
    return [error.text for error in info.job.errors]


@pytest.mark.parametrize("timeout", [0.05, 0.2])
def test_a_busy_loop_ends(make_app: MakeApp, any_url: str, timeout: float) -> None:
    app, _ = make_app(any_url)
    lasted_s: list[float] = []

    @app.task(timeout=timeout, max_retries=0)
    def busy() -> None:
        start_s = time.monotonic()
        try:
            spin_until(lambda: False)
        finally:
            lasted_s.append(time.monotonic() - start_s)

    handle = busy.enqueue()
    assert burst(app, threads=1) == WorkerSummary(failed=1)
    assert lasted_s[0] >= timeout
    (error,) = errors_of(handle)
    assert f"TaskTimeout: it ran longer than {timeout:g} s" in error


def test_a_task_that_catches_every_exception_ends(make_app: MakeApp) -> None:
    app, _ = make_app()

    @app.task(timeout=0.05, max_retries=0)
    def stubborn() -> None:
        while True:
            try:
                spin_until(lambda: False)
            except Exception:  # noqa: BLE001  what the test is about
                continue

    stubborn.enqueue()
    assert burst(app, threads=1) == WorkerSummary(failed=1)


def test_a_task_may_clean_up_and_a_result_that_it_still_gives_counts(make_app: MakeApp) -> None:
    app, _ = make_app()

    @app.task(timeout=0.05, max_retries=0)
    def careful() -> str:
        try:
            spin_until(lambda: False)
        except bide.TaskTimeout:
            return "what there was time for"
        return "all"

    careful.enqueue()
    assert burst(app) == WorkerSummary(succeeded=1)


def test_a_coroutine_that_never_awaits_ends(make_app: MakeApp) -> None:
    app, _ = make_app()

    @app.task(timeout=0.05, max_retries=0)
    async def busy() -> None:
        spin_until(lambda: False)

    busy.enqueue()
    assert burst(app, threads=1) == WorkerSummary(failed=1)


def test_a_coroutine_that_awaits_ends(make_app: MakeApp) -> None:
    app, _ = make_app()
    ended = threading.Event()
    releases: list[Callable[[], object]] = []

    @app.task(timeout=0.05, max_retries=0)
    async def patient() -> None:
        release = asyncio.Event()
        loop = asyncio.get_running_loop()
        releases.append(lambda: loop.call_soon_threadsafe(release.set))
        try:
            await release.wait()
        finally:
            ended.set()

    patient.enqueue()
    assert burst(app, threads=1) == WorkerSummary(failed=1)
    was_ended = ended.wait(2)
    if not was_ended:
        releases[0]()
    assert was_ended, "it was written off, and its thread and event loop wait for ever"


class Blockers:
    """Ways to be where no exception gets in, until released."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.reader, self.writer = os.pipe()

    def lock(self) -> None:
        self.release.wait(PATIENCE_S)

    def system_call(self) -> None:
        select.select([self.reader], [], [], PATIENCE_S)

    def catch_all(self) -> None:
        while not self.release.is_set():
            try:
                spin_until(self.release.is_set)
            except BaseException:  # noqa: BLE001  what the test is about
                continue

    def end(self) -> None:
        self.release.set()
        os.write(self.writer, b"!")


@pytest.fixture
def blockers() -> Iterator[Blockers]:
    blockers = Blockers()
    yield blockers
    blockers.end()
    os.close(blockers.reader)
    os.close(blockers.writer)


@pytest.mark.parametrize("way", ["lock", "system_call", "catch_all"])
def test_a_thread_that_does_not_end_is_replaced_and_its_late_end_is_nothing(
    make_app: MakeApp,
    any_url: str,
    monkeypatch: pytest.MonkeyPatch,
    blockers: Blockers,
    way: str,
) -> None:
    monkeypatch.setattr("bide.worker.threads.GRACE_S", 0.1)
    app, watched = make_app(any_url)
    started, ended, others = threading.Event(), threading.Event(), threading.Event()

    @app.task(timeout=0.05, max_retries=0)
    def stuck() -> None:
        started.set()
        try:
            getattr(blockers, way)()
        finally:
            ended.set()

    @app.task
    def other() -> None:
        others.set()

    handle = stuck.enqueue()
    with Running(app, threads=1) as running:
        wait(started)
        other.enqueue()
        wait(others)  # on the only slot, which is free again
        assert not ended.is_set()
        blockers.end()
        wait(ended)
        others.clear()
        other.enqueue()
        wait(others)
        watched.wait_until(lambda: len(watched.settled) == 3)
        running.stop()
        assert running.end() == WorkerSummary(failed=1, succeeded=2)
    assert [int(s.id) for s in watched.settled].count(handle.id) == 1
    assert errors_of(handle) == ["TaskTimeout: it ran longer than 0.05 s"]
    queue = app.stats().queues[0]
    assert (queue.failed_total, queue.succeeded_total) == (1, 2)


def test_a_timed_out_attempt_counts_and_is_run_again(make_app: MakeApp) -> None:
    app, _ = make_app()
    attempts: list[int] = []

    @app.task(timeout=0.05, max_retries=2, retry_backoff=0)
    def slow(ctx: bide.Context) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            spin_until(lambda: False)

    slow.enqueue()
    assert burst(app) == WorkerSummary(retried=2, succeeded=1)
    assert attempts == [1, 2, 3]


def test_limits_go_by_the_clock_and_none_is_no_limit(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    started = threading.Barrier(3)
    release = threading.Event()

    @app.task(max_retries=0)
    def task() -> None:
        started.wait(PATIENCE_S)
        spin_until(release.is_set)

    limited = task.using(timeout=3_600).enqueue()
    unlimited = task.using(timeout=None).enqueue()
    with Running(app) as running:
        started.wait(PATIENCE_S)
        clock.advance(3_599.9)
        looks = sum(watched.looks.values())
        watched.wait_until(lambda: sum(watched.looks.values()) > looks + 2)
        assert watched.settled == []
        clock.advance(0.2)
        watched.wait_until(lambda: [s.id for s in watched.settled] == [limited.id])
        clock.advance(300 * 86_400)
        looks = sum(watched.looks.values())
        watched.wait_until(lambda: sum(watched.looks.values()) > looks + 2)
        release.set()
        watched.wait_until(lambda: len(watched.settled) == 2)
        running.stop()
        assert running.end() == WorkerSummary(failed=1, succeeded=1)
    assert unlimited.get() is None


def test_a_limit_of_the_call_goes_before_that_of_the_task(make_app: MakeApp) -> None:
    app, _ = make_app()

    @app.task(timeout=None, max_retries=0)
    def busy() -> None:
        spin_until(lambda: False)

    busy.using(timeout=0.05).enqueue()
    assert burst(app) == WorkerSummary(failed=1)


def spend(duration_s: float) -> None:
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        pass


def run_at_the_limit(app: App, limit_s: float, count: int) -> dict[str, Counter[int]]:
    """Run jobs that take as long as they may, among others without a limit."""
    entered: Counter[int] = Counter()
    calm: Counter[int] = Counter()

    @app.task(timeout=limit_s, max_retries=0)
    def exact(number: int) -> None:
        entered[number] += 1
        spend(limit_s)

    @app.task(timeout=None, max_retries=0)
    def unhurried(number: int) -> None:
        sum(range(2_000))
        calm[number] += 1

    for number in range(count):
        exact.enqueue(number)
        unhurried.enqueue(number)
    return {"entered": entered, "calm": calm}


@pytest.mark.parametrize("limit_s", [0.001, 0.003])
def test_a_limit_reached_as_the_task_returns_settles_once_and_hits_no_other_job(
    make_app: MakeApp, any_url: str, limit_s: float
) -> None:
    app, watched = make_app(any_url)
    count = 250
    runs = run_at_the_limit(app, limit_s, count)
    summary = burst(app, threads=4)
    assert summary.succeeded + summary.failed == 2 * count
    assert summary.succeeded >= count
    assert set(Counter(s.id for s in watched.settled).values()) == {1}
    assert len(watched.settled) == 2 * count
    assert runs["calm"] == Counter(range(count))  # no interrupt went astray
    assert set(runs["entered"].values()) == {1}
    queue = app.stats().queues[0]
    assert (queue.succeeded_total, queue.failed_total) == (summary.succeeded, summary.failed)
    failed = app.jobs(bide.State.FAILED, limit=1_000).jobs
    assert {info.job.task.rpartition(".")[2] for info in failed} <= {"exact"}
