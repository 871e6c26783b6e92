"""Preparing, committing and rolling back through an App."""

from __future__ import annotations

from typing import Any

import pytest

import bide
from bide.errors import (
    BatchTooLarge,
    DuplicateTask,
    InvalidDelay,
    InvalidName,
    InvalidOption,
    JobNotFound,
    KeyTaken,
    WrongState,
)
from bide.jobs.transaction import prepared_of
from bide.testing import ManualClock
from tests.unit.jobs.apps import Recorder, make_app, note


def waiting(app: bide.App) -> list[int]:
    pages = [app.jobs(state).jobs for state in (bide.State.READY, bide.State.SCHEDULED)]
    return [info.job.id for jobs in pages for info in jobs]


def test_commit_puts_all_and_is_idempotent() -> None:
    clock = ManualClock()
    with make_app(clock) as app:
        task = app.task(note)
        requests = (task.using(delay=60).request(1), task.using(queue="mail").request(2))
        with app.prepare(*requests) as prepared:
            assert waiting(app) == []
            clock.advance(10)
            handles = prepared.commit()
        assert [handle.outcome for handle in handles] == ["put", "put"]
        infos = [handle.get() for handle in handles]
        assert [info and info.job.queue for info in infos] == ["default", "mail"]
        assert infos[0] is not None
        assert infos[0].job.due_ms == clock.now_ms() + 50_000, "delays count from the prepare"
        assert [handle.id for handle in prepared.commit()] == [handle.id for handle in handles]
        assert len(waiting(app)) == 2
        with pytest.raises(WrongState):
            prepared.rollback()


def test_an_exception_rolls_back() -> None:
    with make_app() as app:
        with pytest.raises(ZeroDivisionError), app.prepare(app.task(note).request(1)) as prepared:
            raise ZeroDivisionError
        assert app.get(prepared.id) is None
        with pytest.raises(WrongState) as caught:
            prepared.commit()
        assert caught.value.job_id == prepared.id
        prepared.rollback()  # once more


def test_an_exception_after_the_commit_changes_nothing() -> None:
    with make_app() as app:
        prepared = app.prepare(app.task(note).request(1))
        prepared.commit()
        with pytest.raises(ZeroDivisionError), prepared:
            raise ZeroDivisionError
        assert len(waiting(app)) == 1


def test_an_exception_is_not_hidden_by_a_rollback_that_fails() -> None:
    app = make_app()
    prepared = app.prepare(app.task(note).request(1))
    app.close()
    with pytest.raises(ZeroDivisionError), prepared:
        raise ZeroDivisionError


def test_a_block_without_a_decision_leaves_it_undecided() -> None:
    with make_app() as app:
        with app.prepare(app.task(note).request(1)) as prepared:
            pass
        info = app.get(prepared.id)
        assert info is not None
        assert info.state is bide.State.PREPARED
        assert len(prepared.commit()) == 1


def test_what_was_decided_elsewhere_is_told() -> None:
    with make_app() as app:
        prepared = app.prepare(app.task(note).request(1))
        assert app.cancel(prepared.id)
        with pytest.raises(JobNotFound):
            prepared.commit()
        with pytest.raises(JobNotFound):
            prepared.rollback()


def test_a_held_key_leaves_it_undecided() -> None:
    with make_app() as app:
        keyed = app.task(note).using(key="k")
        holder = keyed.enqueue(1)
        prepared = app.prepare(keyed.request(2))
        with pytest.raises(KeyTaken):
            prepared.commit()
        holder.cancel()
        (handle,) = prepared.commit()
        assert app.cancel(key="k")
        assert handle.get() is None


def test_the_checker_is_told_what_it_is_about() -> None:
    with make_app() as app:
        prepared = app.prepare(app.task(note).request(7), label="order 7 \u2603", check_after=5)
        info = app.get(prepared.id)
        assert info is not None
        assert info.job.due_ms == app.clock.now_ms() + 5_000
        told = prepared_of(info.job)
        assert (told.label, told.id) == ("order 7 \u2603", prepared.id)
        assert [job.arguments for job in told.jobs] == [{"number": 7}]


@pytest.mark.parametrize("label", [None, 7, b"x", "x" * 1_001, "\ud800"])
def test_labels_that_cannot_be_stored_are_refused(label: Any) -> None:
    with make_app() as app, pytest.raises(InvalidOption):
        app.prepare(app.task(note).request(1), label=label)


@pytest.mark.parametrize("check_after", [-1, float("nan"), "soon"])
def test_times_that_are_none_are_refused(check_after: Any) -> None:
    with make_app() as app, pytest.raises(InvalidDelay):
        app.prepare(app.task(note).request(1), check_after=check_after)


@pytest.mark.parametrize("call", ["prepare", "enqueue_atomic"])
def test_what_is_put_together_is_checked(call: str) -> None:
    with make_app() as app:
        request = app.task(note).request(1)
        with pytest.raises(InvalidOption, match=call):
            getattr(app, call)()
        with pytest.raises(InvalidOption, match=call):
            getattr(app, call)(request, 7)
        with pytest.raises(InvalidOption, match="sync"):
            getattr(app, call)(request, sync="sometimes")
        with pytest.raises(BatchTooLarge):
            getattr(app, call)(*[request] * 10_001)
        assert app.stats().queues == ()


def test_an_atomic_put_is_one_commit() -> None:
    recorder = Recorder()
    with recorder.app() as app:
        task = app.task(note)
        requests = [task.using(queue=f"q{number % 3}").request(number) for number in range(5_000)]
        handles = app.enqueue_atomic(*requests, sync="never")
        assert recorder.puts == [(5_000, "never")]
        assert len(handles) == 5_000


def test_an_atomic_put_is_all_or_none() -> None:
    with make_app() as app:
        keyed = app.task(note).using(key="k")
        with pytest.raises(KeyTaken):
            app.enqueue_atomic(app.tasks[keyed.name].request(1), keyed.request(2), keyed.request(3))
        assert waiting(app) == []


def test_there_is_one_checker() -> None:
    with make_app() as app:
        check = app.checker(lambda _prepared: True)
        assert app.check is check
        with pytest.raises(DuplicateTask):
            app.checker(lambda _prepared: False)
        with pytest.raises(InvalidOption):
            make_app().checker(None)  # type: ignore[arg-type]


def test_the_name_of_bides_own_task_is_refused() -> None:
    with make_app() as app, pytest.raises(InvalidName):
        app.task(name="bide.prepared")(note)
