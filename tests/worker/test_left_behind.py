"""What workers leave when they go: nothing."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

import bide
from bide.backends.embedded import Embedded
from bide.errors import StoreFailed
from bide.jobs.app import App
from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker, WorkerSummary
from tests.unit.storage.children import in_child
from tests.worker.conftest import MakeApp
from tests.worker.running import PATIENCE_S, Running, Watched, attempts, burst, state, wait

WORKERS = 10


def fail_always() -> StoreFailed:
    return StoreFailed("the disk refused", path="disk")


class Traces:
    """What is there of an app's workers: threads, descriptors, files and rows."""

    def __init__(self, app: App, url: str) -> None:
        self._embedded = cast("Embedded", cast("Watched", app.backend)._backend)
        self._embedded.attend(["default"]).leave()  # opens what is opened once
        self._owners = None if url == "memory:" else Path(url[7:].partition("?")[0]) / "owners"
        self._before = self._count()

    def check(self) -> None:
        """There is no more of them than there was."""
        for thread in threading.enumerate():
            if thread.name.startswith("bide-"):
                thread.join(PATIENCE_S / 10)
        threads, descriptors = self._count()
        assert threads <= self._before[0]
        assert descriptors <= self._before[1]
        with self._embedded._shared_store.view() as view:
            assert view.owners() == []
        if self._owners is not None:
            assert list(self._owners.iterdir()) == []
        seats = getattr(self._embedded._presence, "_seats", {}).values()
        assert [seat.token for seat in seats if not seat.left] == []

    def _count(self) -> tuple[int, int]:
        gc.collect()  # what other tests have left to be closed
        path = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
        names = [thread.name for thread in threading.enumerate()]
        return sum(name.startswith("bide-") for name in names), len(list(Path(path).iterdir()))


@pytest.fixture
def watched_app(make_app: MakeApp, any_url: str) -> tuple[App, Watched]:
    return make_app(any_url)


@pytest.fixture
def traces(watched_app: tuple[App, Watched], any_url: str) -> Traces:
    return Traces(watched_app[0], any_url)


def test_workers_that_come_and_go_leave_nothing(
    watched_app: tuple[App, Watched], traces: Traces
) -> None:
    app, watched = watched_app
    app.task(name="task")(lambda: None)
    for _ in range(WORKERS):
        app.tasks["task"].enqueue()
        assert burst(app, threads=4) == WorkerSummary(succeeded=1)
    for _ in range(WORKERS):
        with Running(app, threads=4):
            watched.wait_for_looks(1)
    assert len(watched.looks) >= WORKERS
    traces.check()


def test_workers_whose_runs_were_interrupted_leave_nothing(
    watched_app: tuple[App, Watched], traces: Traces
) -> None:
    app, _ = watched_app
    started, release = threading.Event(), threading.Event()

    @app.task(timeout=None)
    def spin() -> None:
        started.set()
        while not release.is_set():
            pass

    spin.enqueue()
    for _ in range(WORKERS):
        started.clear()
        with Running(app, threads=4) as running:
            wait(started)
            running.stop(now=True)
            assert running.end() == WorkerSummary(unsettled=1)
    traces.check()
    release.set()
    assert burst(app) == WorkerSummary(succeeded=1)


def test_threads_that_were_written_off_leave_once_they_end(
    watched_app: tuple[App, Watched], traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bide.worker.threads.GRACE_S", 0.01)
    app, watched = watched_app
    release = threading.Event()
    threads: list[threading.Thread] = []

    @app.task(timeout=0.01, max_retries=0)
    def stuck() -> None:
        threads.append(threading.current_thread())
        wait(release)

    for _ in range(5):
        stuck.enqueue()
    with Running(app, threads=2) as running:
        watched.wait_until(lambda: len(watched.settled) == 5)
        release.set()
        for thread in threads:
            thread.join(PATIENCE_S)  # while the worker goes on, with others in their place
            assert not thread.is_alive()
        running.stop()
        assert running.end() == WorkerSummary(failed=5)
    traces.check()


# ---------------------------------------------------------------- after a failure


def test_a_worker_that_can_not_begin_leaves_nothing(
    watched_app: tuple[App, Watched], traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, watched = watched_app
    app.task(name="task")(lambda: None)
    embedded = cast("Embedded", watched._backend)

    def refuse(*_: object, **__: object) -> None:
        raise fail_always()

    monkeypatch.setattr(embedded._shared_store, "submit", refuse)
    with pytest.raises(StoreFailed, match="the disk refused"):
        Worker(app).run()
    monkeypatch.undo()
    traces.check()


def test_a_worker_without_enough_threads_leaves_nothing(
    watched_app: tuple[App, Watched], any_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _ = watched_app
    app.task(name="task")(lambda: None)
    start = threading.Thread.start
    started: list[str] = []

    def start_some(thread: threading.Thread) -> None:
        started.append(thread.name)
        if len(started) == 4:
            raise RuntimeError("can't start new thread")
        start(thread)

    def run() -> None:
        traces = Traces(app, any_url)
        monkeypatch.setattr(threading.Thread, "start", start_some)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            Worker(app, WorkerOptions(threads=8)).run()
        traces.check()

    in_child(run)  # with which the threads that are left behind go


def break_reserve(watched: Watched) -> None:
    watched.refusal = fail_always()


def break_tick(watched: Watched) -> None:
    watched.tick_refusal = fail_always()


EACH_BREAK = pytest.mark.parametrize("break_", [break_reserve, break_tick])


@EACH_BREAK
def test_an_idle_worker_whose_store_fails_says_so_and_leaves_nothing(
    watched_app: tuple[App, Watched], traces: Traces, break_: Callable[[Watched], None]
) -> None:
    app, watched = watched_app
    handle = app.task(name="task")(lambda: None).using(delay=3_600).enqueue()
    for _ in range(WORKERS):
        with Running(app, threads=4) as running:
            watched.wait_for_looks(1)
            break_(watched)
            if break_ is break_reserve:
                handle.kick()
            with pytest.raises(StoreFailed, match="the disk refused"):
                running.end()
        watched.refusal = watched.tick_refusal = None
        handle.move(delay=3_600)
    traces.check()
    handle.cancel()


def test_a_worker_whose_store_fails_under_its_jobs_loses_none_of_them(
    watched_app: tuple[App, Watched], traces: Traces
) -> None:
    app, watched = watched_app
    attempts_seen: list[int] = []

    @app.task(retry_backoff=0)
    def task(ctx: bide.Context) -> None:
        attempts_seen.append(ctx.attempt)
        if len(attempts_seen) == 1:
            break_reserve(watched)

    handle = task.enqueue()
    with pytest.raises(StoreFailed, match="the disk refused"), Running(app, threads=1) as running:
        running.end()
    watched.refusal = None
    traces.check()
    assert (state(handle), attempts(handle)) == (bide.State.READY, 1)  # it had begun
    assert burst(app) == WorkerSummary(succeeded=1)
    assert attempts_seen == [1, 2]
