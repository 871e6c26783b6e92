"""Putting through an App: outcomes, many at once, and from async code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any

import pytest

import bide
from bide.errors import (
    InvalidOption,
    KeyTaken,
)
from bide.jobs.task import Request
from bide.model.job import State
from tests.unit.jobs.apps import Recorder, make_app, note

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
        assert recorder.synced == [None, "never", "always", "always", None]


def test_enqueue_many_is_as_durable_as_its_most_careful_request() -> None:
    recorder = Recorder()
    with recorder.app() as app:
        task = app.task(note)
        careful, hasty = task.using(sync="always"), task.using(sync="never")
        app.enqueue_many([hasty.request(1), careful.request(2)])
        app.enqueue_many([hasty.request(1), hasty.request(2)])
        app.enqueue_many([hasty.request(1), task.request(2)])
        assert [sync for _, sync in recorder.puts] == ["always", "never", None]
        assert recorder.synced == ["always", "never", None]


def test_enqueue_many_waits_once_for_all_its_commits_and_also_if_it_fails() -> None:
    recorder = Recorder()
    with recorder.app() as app:
        task = app.task(note)
        careful = [task.using(sync="always").request(n) for n in range(2_000)]
        hasty = [task.using(sync="never").request(n) for n in range(1_000)]
        app.enqueue_many(careful + hasty)
        assert [sync for _, sync in recorder.puts] == ["always", "always", "never"]
        assert recorder.synced == ["always"]

        def bad() -> Iterator[Request]:
            yield from hasty
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            app.enqueue_many(bad())
        assert recorder.synced == ["always", "never"]


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
