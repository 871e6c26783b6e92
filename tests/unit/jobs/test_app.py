"""The App: finding and changing jobs, opening and closing, two on one directory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import bide
from bide.connect import connect
from bide.errors import (
    InvalidDelay,
    InvalidName,
    InvalidOption,
    InvalidUrl,
    JobNotFound,
    NotAStore,
    StoreClosed,
    WrongState,
)
from bide.jobs import app as jobs_app
from bide.model.commands import Exhausted, Settlement
from bide.model.job import State
from bide.testing import ManualClock
from tests.unit.jobs.apps import Recorder, make_app, note


def fail_one(app: bide.App | jobs_app.App) -> None:
    """Lease the only due job, and let it fail for good."""
    worker = app.backend.attend(("default",))
    (lease,) = app.backend.reserve(worker.owner, ("default",), 1).leases
    failed = Settlement(lease.job.id, lease.attempt, Exhausted("no"))
    assert app.backend.reserve(worker.owner, ("default",), 0, [failed]).refused == (None,)
    worker.leave()


# ---------------------------------------------------------------- finding and changing


def test_cancel_tells_whether_there_was_a_job() -> None:
    with make_app() as app:
        handle = app.task(note).using(key="a", queue="mail").enqueue(1)
        assert app.cancel(key="a") is False, "it is in another queue"
        assert app.cancel(key="a", queue="mail") is True
        assert app.cancel(handle.id) is False
        assert handle.cancel() is False
        assert handle.get() is None


def test_handle_methods_are_the_apps() -> None:
    clock = ManualClock()
    with make_app(clock) as app:
        handle = app.task(note).using(delay=60).enqueue(1)
        handle.move(delay=timedelta(seconds=5), priority=9)
        info = handle.get()
        assert info is not None
        assert (info.job.due_ms, info.job.priority) == (clock.now_ms() + 5_000, 9)
        handle.move(run_at=datetime(2000, 1, 1, tzinfo=UTC))
        info = handle.get()
        assert info is not None
        assert info.job.due_ms == clock.now_ms(), "a moment that has passed is now"
        handle.move(delay=60)
        handle.kick()
        info = handle.get()
        assert info is not None
        assert info.state is State.READY
        assert handle.cancel() is True
        with pytest.raises(JobNotFound):
            handle.kick()
        with pytest.raises(JobNotFound):
            handle.move(priority=1)


def test_move_wants_something_to_change() -> None:
    with make_app() as app:
        handle = app.task(note).enqueue(1)
        with pytest.raises(InvalidOption, match="needs"):
            handle.move()
        with pytest.raises(InvalidOption, match="both"):
            handle.move(delay=1, run_at=datetime(2027, 1, 1, tzinfo=UTC))
        with pytest.raises(InvalidDelay):
            handle.move(delay=-1)
        with pytest.raises(InvalidOption):
            handle.move(priority=101)
        info = handle.get()
        assert info is not None
        assert info.state is State.READY


def test_a_failed_job_can_be_kicked_and_not_moved() -> None:
    with make_app() as app:
        handle = app.task(note).enqueue(1)
        fail_one(app)
        assert [info.job.id for info in app.jobs(State.FAILED).jobs] == [handle.id]
        with pytest.raises(WrongState):
            handle.move(priority=1)
        handle.kick()
        info = handle.get()
        assert info is not None
        assert (info.state, info.job.attempt) == (State.READY, 0)


BAD_NAMES: list[tuple[dict[str, Any], type[Exception]]] = [
    ({}, InvalidOption),
    ({"job_id": 1, "key": "a"}, InvalidOption),
    ({"job_id": 0}, InvalidOption),
    ({"job_id": -1}, InvalidOption),
    ({"job_id": True}, InvalidOption),
    ({"job_id": "1"}, InvalidOption),
    ({"job_id": 1.0}, InvalidOption),
    ({"job_id": 1 << 63}, InvalidOption),
    ({"key": ""}, InvalidName),
    ({"key": "x" * 256}, InvalidName),
    ({"key": "a", "queue": "no spaces"}, InvalidName),
]


@pytest.mark.parametrize("where, kind", BAD_NAMES, ids=str)
def test_a_job_is_named_by_id_or_by_key(where: dict[str, Any], kind: type[Exception]) -> None:
    with make_app() as app:
        calls: list[Callable[..., Any]] = [app.get, app.cancel, app.kick]
        for call in calls:
            with pytest.raises(kind):
                call(**where)
        with pytest.raises(kind):
            app.move(priority=1, **where)


def test_jobs_come_in_pages() -> None:
    with make_app() as app:
        task = app.task(note)
        for n in range(5):
            task.enqueue(n)
        page = app.jobs(State.READY, limit=2)
        found = [info.job.id for info in page.jobs]
        while page.next is not None:
            page = app.jobs(State.READY, limit=2, after=page.next)
            found += [info.job.id for info in page.jobs]
        assert found == [1, 2, 3, 4, 5]
        assert app.jobs(State.READY, queue="other").jobs == ()


def test_a_state_may_be_named_by_its_word() -> None:
    with make_app() as app:
        app.task(note).enqueue(1)
        app.task(name="later")(note).using(delay=5).enqueue(1)
        word: Any = "ready"
        assert [info.job.id for info in app.jobs(word).jobs] == [1]


@pytest.mark.parametrize(
    "options",
    [
        {"state": "done"},
        {"state": None},
        {"limit": 0},
        {"limit": -1},
        {"limit": 1_001},
        {"limit": 1.5},
        {"limit": None},
        {"after": "junk"},
        {"after": ""},
        {"after": "{}"},
        {"after": '["ready","default",[1,2]]'},
        {"after": '["failed","default",[1,2]]'},
        {"after": '["ready","default",[1000,1,1]]'},
        {"after": '["ready","default",[0,-1,1]]'},
        {"after": '["ready","default",[0,1,18446744073709551615]]'},
        {"after": 5},
    ],
    ids=str,
)
def test_refused_listings(options: dict[str, Any]) -> None:
    with make_app() as app:
        app.task(note).enqueue(1)
        with pytest.raises(InvalidOption):
            app.jobs(**({"state": State.READY} | options))


# ---------------------------------------------------------------- opening and closing


def test_the_store_is_opened_on_first_use() -> None:
    recorder = Recorder()
    app = recorder.app()
    app.task(note)
    assert recorder.opened == []
    app.stats()
    app.stats()
    assert len(recorder.opened) == 1
    app.close()


def test_an_app_that_was_never_used_makes_no_store(tmp_path: Path) -> None:
    with bide.App(f"file://{tmp_path}/jobs"):
        pass
    assert list(tmp_path.iterdir()) == []
    with bide.App():
        pass


def test_threads_open_one_store_between_them() -> None:
    recorder = Recorder()
    app = recorder.app()
    task = app.task(note)
    together = threading.Barrier(8)

    def put() -> None:
        together.wait(60)
        task.enqueue(1)

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recorder.opened) == 1
    assert app.stats().queues[0].waiting == 8
    app.close()


@pytest.mark.parametrize("is_used", [True, False])
def test_a_closed_app_says_so(is_used: bool) -> None:
    app = make_app()
    task = app.task(note)
    if is_used:
        task.enqueue(1)
    app.close()
    app.close()
    calls: list[Callable[[], Any]] = [
        lambda: task.enqueue(2),
        lambda: app.enqueue_many([task.request(2)]),
        lambda: asyncio.run(task.aenqueue(2)),
        lambda: app.get(1),
        lambda: app.cancel(1),
        lambda: app.kick(1),
        lambda: app.move(1, priority=1),
        lambda: app.jobs(State.READY),
        app.stats,
    ]
    for call in calls:
        with pytest.raises(StoreClosed):
            call()


def test_an_app_without_a_store_says_what_to_write() -> None:
    app = bide.App()
    with pytest.raises(InvalidUrl, match=r'App\("file:///'):
        app.stats()
    app.bind("memory:")
    assert app.stats().queues == ()
    with pytest.raises(InvalidOption, match="bind"):
        app.bind("memory:")
    app.close()


def test_bind_may_want_a_store_that_is_there(tmp_path: Path) -> None:
    app = bide.App()
    app.bind(f"file://{tmp_path}/jobs", create=False)
    with pytest.raises(NotAStore):
        app.stats()
    assert list(tmp_path.iterdir()) == []
    app.close()


@pytest.mark.parametrize("url", [5, b"memory:", Path("/tmp")])
def test_a_url_is_a_str(url: Any) -> None:
    with pytest.raises(InvalidUrl):
        bide.App(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "jobs",
        "/var/jobs",
        "memory",
        "memory:/x",
        "file:",
        "http://x",
        "file://host/x",
        "memory:?sync=often",
        "memory:?other=1",
        "memory:#x",
        "redis://localhost",
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl):
        connect(url, ManualClock())


def test_two_apps_on_one_directory_share_its_jobs(tmp_path: Path) -> None:
    clock = ManualClock()
    url = f"file://{tmp_path}/jobs"
    one, other = (bide.App(url, clock=clock, sync=sync) for sync in ("never", "always"))
    handle = one.task(note).enqueue(1)
    assert other.get(handle.id) is not None
    assert other.task(note).enqueue(2).id == handle.id + 1
    one.close()
    with pytest.raises(StoreClosed):
        one.stats()
    assert other.stats().queues[0].waiting == 2, "the other is still open"
    third = bide.App(f"file://{tmp_path}/./jobs", clock=clock)
    assert third.cancel(handle.id) is True
    other.close()
    assert third.stats().queues[0].waiting == 1
    third.close()
    with bide.App(url, clock=clock) as again:
        assert again.stats().queues[0].waiting == 1


def test_two_apps_in_memory_share_nothing() -> None:
    with make_app() as one, make_app() as other:
        one.task(note).enqueue(1)
        assert other.stats().queues == ()
