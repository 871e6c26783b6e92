"""The App: putting, finding, changing; one key among many; closed; two on one directory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import bide
from bide.backends.memory import open_memory
from bide.backends.port import Backend, Sync
from bide.clock import Clock
from bide.connect import connect
from bide.errors import (
    InvalidDelay,
    InvalidName,
    InvalidOption,
    InvalidUrl,
    JobNotFound,
    KeyTaken,
    NotAStore,
    StoreClosed,
    WrongState,
)
from bide.jobs import app as jobs_app
from bide.model.commands import Exhausted, PutResult, Settlement
from bide.model.job import NewJob, State
from bide.testing import ManualClock
from tests.unit.jobs.apps import make_app


def note(number: int) -> None: ...


class Recorder:
    """Opens memory backends whose puts are noted, and may be made to fail."""

    def __init__(self) -> None:
        self.puts: list[tuple[int, Sync | None]] = []
        self.opened: list[tuple[str, Sync | None, bool]] = []
        self.refusal: Exception | None = None
        self.gate: threading.Event | None = None
        self.entered = threading.Event()

    def __call__(
        self, url: str, clock: Clock, *, sync: Sync | None = None, create: bool = True
    ) -> Backend:
        self.opened.append((url, sync, create))
        backend = open_memory(clock)
        put = backend.put

        def noted(jobs: Sequence[NewJob], *, sync: Sync | None = None) -> tuple[PutResult, ...]:
            self.entered.set()
            if self.gate is not None:
                self.gate.wait(60)
            self.puts.append((len(jobs), sync))
            if self.refusal is not None:
                raise self.refusal
            return put(jobs, sync=sync)

        backend.put = noted  # type: ignore[method-assign]
        return backend

    def app(self, sync: Sync | None = None) -> jobs_app.App:
        return jobs_app.App("any:", opener=self, clock=ManualClock(), sync=sync)

    @property
    def sizes(self) -> list[int]:
        return [size for size, _ in self.puts]


def fail_one(app: bide.App | jobs_app.App) -> None:
    """Lease the only due job, and let it fail for good."""
    worker = app.backend.attend(("default",))
    (lease,) = app.backend.reserve(worker.owner, ("default",), 1).leases
    failed = Settlement(lease.job.id, lease.attempt, Exhausted("no"))
    assert app.backend.reserve(worker.owner, ("default",), 0, [failed]).refused == (None,)
    worker.leave()


# ---------------------------------------------------------------- outcomes of a put


def test_handles_tell_what_became_of_the_put() -> None:
    with make_app() as app:
        keyed = app.task(note).using(key="a")
        first = keyed.enqueue(1)
        skipped = keyed.using(on_conflict="skip").enqueue(2)
        assert (first.outcome, skipped.outcome) == ("put", "skipped")
        assert skipped.id == first.id
        with pytest.raises(KeyTaken) as caught:
            keyed.enqueue(3)
        assert caught.value.job_id == first.id
        replaced = keyed.using(on_conflict="replace").enqueue(4)
        assert replaced.outcome == "replaced"
        assert replaced.id > first.id
        assert first.get() is None
        assert repr(replaced) == f"<Handle of job {replaced.id} (replaced)>"


def test_delay_is_another_name_for_enqueue() -> None:
    with make_app() as app:
        info = app.task(note).delay(1).get()
        assert info is not None
        assert info.state is State.READY


# ---------------------------------------------------------------- many at once


def test_enqueue_many_commits_a_thousand_at_a_time() -> None:
    recorder = Recorder()
    with recorder.app() as app:
        task = app.task(note)
        handles = app.enqueue_many(task.request(n) for n in range(2_500))
        assert recorder.sizes == [1_000, 1_000, 500]
        assert [handle.id for handle in handles] == list(range(1, 2_501))
        assert app.stats().queues[0].waiting == 2_500


def test_enqueue_many_commits_by_bytes_too() -> None:
    recorder = Recorder()
    with recorder.app() as app:

        @app.task
        def take(body: bytes) -> None: ...

        app.enqueue_many(take.request(bytes(1_000_000)) for _ in range(20))
        assert recorder.sizes == [9, 9, 2]


def test_enqueue_many_takes_requests_as_it_needs_them() -> None:
    recorder = Recorder()
    with recorder.app() as app:
        task = app.task(note)
        taken: list[int] = []

        def requests() -> Any:
            for n in range(1_500):
                taken.append(len(recorder.puts))
                yield task.request(n)

        app.enqueue_many(requests())
        assert taken == [0] * 1_000 + [1] * 500


def test_enqueue_many_keeps_the_commits_before_a_refused_one() -> None:
    recorder = Recorder()
    with recorder.app() as app:
        task = app.task(note)
        requests = [task.request(n) for n in range(1_500)]
        requests += [task.using(key="a").request(n) for n in range(2)]
        with pytest.raises(KeyTaken):
            app.enqueue_many(requests)
        assert app.stats().queues[0].waiting == 1_000


def test_enqueue_many_of_nothing_puts_nothing() -> None:
    recorder = Recorder()
    with recorder.app() as app:
        assert app.enqueue_many([]) == []
        assert recorder.puts == []


def test_enqueue_many_mixes_tasks_and_options() -> None:
    with make_app() as app:
        one, other = app.task(note), app.task(name="other", queue="b")(note)
        handles = app.enqueue_many([one.request(1), other.using(priority=3).request(2)])
        jobs = [info.job for info in (handle.get() for handle in handles) if info is not None]
        assert [(job.task, job.queue, job.priority) for job in jobs] == [
            (one.name, "default", 0),
            ("other", "b", 3),
        ]


def test_enqueue_many_refuses_what_is_no_request() -> None:
    with make_app() as app, pytest.raises(InvalidOption, match="request"):
        app.enqueue_many([1])  # type: ignore[list-item]


def test_sync_is_handed_on() -> None:
    recorder = Recorder()
    with recorder.app(sync="interval") as app:
        task = app.task(note)
        task.enqueue(1)
        task.using(sync="never").enqueue(1)
        asyncio.run(task.using(sync="always").aenqueue(1))
        app.enqueue_many([task.request(1)], sync="always")
        app.enqueue_many([task.request(1)])
        assert recorder.opened == [("any:", "interval", True)]
        assert [sync for _, sync in recorder.puts] == [None, "never", "always", "always", None]


def test_enqueue_many_is_as_durable_as_its_most_careful_request() -> None:
    recorder = Recorder()
    with recorder.app() as app:
        task = app.task(note)
        careful, hasty = task.using(sync="always"), task.using(sync="never")
        app.enqueue_many([hasty.request(1), careful.request(2)])
        app.enqueue_many([hasty.request(1), hasty.request(2)])
        app.enqueue_many([hasty.request(1), task.request(2)])
        assert [sync for _, sync in recorder.puts] == ["always", "never", None]


def test_a_put_is_as_durable_as_its_request_beside_one_with_the_stores_default() -> None:
    recorder = Recorder()
    with recorder.app(sync="never") as app:
        task = app.task(note)
        app.enqueue_many([task.request(1), task.using(sync="always").request(2)])
        assert [sync for _, sync in recorder.puts] == ["always"]


@pytest.mark.parametrize("sync", ["sometimes", True, 1])
def test_a_sync_that_is_none_is_refused(sync: Any) -> None:
    with pytest.raises(InvalidOption, match="sync"):
        bide.App("memory:", sync=sync)
    with make_app() as app, pytest.raises(InvalidOption, match="sync"):
        app.enqueue_many([], sync=sync)


# ---------------------------------------------------------------- from async code


def gather(awaitables: Sequence[Awaitable[Any]]) -> list[Any]:
    async def main() -> list[Any]:
        return await asyncio.wait_for(asyncio.gather(*awaitables, return_exceptions=True), 60)

    return asyncio.run(main())


def test_puts_awaited_together_share_a_commit() -> None:
    recorder = Recorder()
    with recorder.app() as app:
        task = app.task(note)
        handles = gather([task.aenqueue(n) for n in range(500)])
        assert sorted(handle.id for handle in handles) == list(range(1, 501))
        assert len(recorder.puts) < 10
        assert sum(recorder.sizes) == 500


def test_one_refused_key_does_not_refuse_the_others() -> None:
    with make_app() as app:
        task = app.task(note)
        held = task.using(key="taken").enqueue(0)
        puts = [task.using(key="taken" if n == 7 else f"k{n}").aenqueue(n) for n in range(20)]
        handles = gather(puts)
        assert isinstance(handles[7], KeyTaken)
        assert handles[7].job_id == held.id
        others = [handle for n, handle in enumerate(handles) if n != 7]
        assert [handle.outcome for handle in others] == ["put"] * 19
        for n, handle in enumerate(handles):
            if n != 7:
                info = handle.get()
                assert info.job.key == f"k{n}", "each awaiter gets its own job"
        assert app.stats().queues[0].waiting == 20


def test_two_awaited_puts_of_one_key_are_one_job() -> None:
    with make_app() as app:
        keyed = app.task(note).using(key="a")
        first, second = gather([keyed.aenqueue(1), keyed.aenqueue(2)])
        assert first.outcome == "put"
        assert isinstance(second, KeyTaken)


def test_a_put_that_breaks_reaches_every_awaiter() -> None:
    recorder = Recorder()
    with recorder.app() as app:
        task = app.task(note)
        recorder.refusal = RuntimeError("our own mistake")
        puts = [task.using(sync=sync).aenqueue(1) for sync in (None, "never", "always", None)]
        answers = gather(puts)
        assert [str(answer) for answer in answers] == ["our own mistake"] * 4
        recorder.refusal = None
        (handle,) = gather([task.aenqueue(1)])
        assert handle.outcome == "put"


def test_an_awaiter_that_gives_up_does_not_take_the_others_with_it() -> None:
    recorder = Recorder()
    recorder.gate = threading.Event()
    gate = recorder.gate

    async def main(task: bide.Task[..., Any]) -> list[Any]:
        puts = [asyncio.create_task(task.aenqueue(n)) for n in range(3)]
        await asyncio.to_thread(recorder.entered.wait, 60)  # the first put is under way
        puts[1].cancel()
        gate.set()
        return await asyncio.wait_for(asyncio.gather(*puts, return_exceptions=True), 60)

    with recorder.app() as app:
        first, second, third = asyncio.run(main(app.task(note)))
        assert isinstance(second, asyncio.CancelledError)
        assert (first.outcome, third.outcome) == ("put", "put")


def test_wrong_arguments_are_refused_before_they_are_awaited_together() -> None:
    with make_app() as app:
        task = app.task(note)
        handles = gather([task.aenqueue("1"), task.aenqueue(1)])  # type: ignore[arg-type]
        assert isinstance(handles[0], bide.errors.InvalidArguments)
        assert handles[1].outcome == "put"


def test_each_loop_has_its_own_puts() -> None:
    with make_app() as app:
        task = app.task(note)
        ids = [gather([task.aenqueue(1)])[0].id for _ in range(3)]
        assert ids == [1, 2, 3]


def test_the_async_face_does_what_the_other_does() -> None:
    async def main(app: bide.App, job_id: int) -> list[Any]:
        found = await app.aget(job_id)
        await app.amove(job_id, priority=5)
        moved = await app.aget(key="a")
        await app.akick(job_id)
        kicked = await app.aget(job_id)
        return [found, moved, kicked, await app.acancel(job_id), await app.acancel(job_id)]

    with make_app() as app:
        handle = app.task(note).using(key="a", delay=60).enqueue(1)
        found, moved, kicked, first, second = asyncio.run(main(app, handle.id))
        assert found.state is State.SCHEDULED
        assert moved.job.priority == 5
        assert kicked.state is State.READY
        assert (first, second) == (True, False)


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
