"""Jobs that a worker can't make sense of: they hurt no other job."""

from __future__ import annotations

from typing import cast

import pytest

import bide
from bide.backends.embedded import Embedded
from bide.format.row import encode_u64
from bide.jobs.app import App
from bide.model.job import NewJob
from bide.testing.clock import ManualClock
from bide.worker.worker import WorkerSummary
from tests.worker.conftest import MakeApp
from tests.worker.running import Watched, burst, last_error, state

SNOOZES_MAX = 100


def put_raw(app: App, task: str, args: bytes = b"\x80", max_retries: int = 0) -> bide.Handle:
    """Put a job as no task of the app would."""
    new = NewJob(
        queue="default", task=task, args=args, due_ms=app.clock.now_ms(), max_retries=max_retries
    )
    return bide.Handle(app, app.backend.put([new])[0].id, "put")


def add_sound_task(app: App) -> bide.Task[[int], None]:
    """A task with which nothing is wrong."""

    @app.task
    def sound(number: int) -> None: ...

    return sound


# ---------------------------------------------------------------- tasks that are elsewhere


def test_a_job_of_an_unknown_task_waits_and_counts_no_attempt(app: App, clock: ManualClock) -> None:
    sound = add_sound_task(app)
    sound.enqueue(1)
    handle = put_raw(app, "elsewhere")
    sound.enqueue(2)
    assert burst(app) == WorkerSummary(succeeded=2, snoozed=1)
    info = handle.get()
    assert info is not None
    assert info.state is bide.State.SCHEDULED
    assert (info.job.attempt, info.job.snoozes, info.job.errors) == (0, 1, ())
    assert info.job.due_ms == clock.now_ms() + 10_000
    handle.cancel()


def test_the_worker_that_has_the_task_runs_it(
    make_app: MakeApp, url: str, clock: ManualClock
) -> None:
    old, _ = make_app(url, clock)
    new, _ = make_app(url, clock)
    add_sound_task(old)
    ran: list[tuple[int, int]] = []

    @new.task(name="added")
    def added(ctx: bide.Context, number: int) -> None:
        ran.append((ctx.attempt, number))

    added.enqueue(42)
    assert burst(old) == WorkerSummary(snoozed=1)
    assert burst(new) == WorkerSummary()  # it waits
    clock.advance(10)
    assert burst(new) == WorkerSummary(succeeded=1)
    assert ran == [(1, 42)]


def test_a_job_whose_task_nobody_has_fails_after_about_a_day_and_says_what_to_do(
    app: App, clock: ManualClock
) -> None:
    add_sound_task(app)
    handle = put_raw(app, "elsewhere", max_retries=5)
    start_ms = clock.now_ms()
    for _ in range(SNOOZES_MAX):
        assert burst(app, threads=1) == WorkerSummary(snoozed=1)
        info = handle.get()
        assert info is not None
        delay_ms = info.job.due_ms - clock.now_ms()
        assert 10_000 <= delay_ms <= 900_000  # one that comes late is found soon
        clock.advance(delay_ms / 1_000)
    assert 20 <= (clock.now_ms() - start_ms) / 3_600_000 <= 30
    assert burst(app, threads=1) == WorkerSummary(failed=1)
    assert state(handle) is bide.State.FAILED
    error = last_error(handle)
    for part in ("UnknownTask", "'elsewhere'", "'default'", "deploy", "kick"):
        assert part in error

    app.task(name="elsewhere")(lambda: None)  # as the error says
    handle.kick()
    assert burst(app) == WorkerSummary(succeeded=1)


def test_a_job_that_failed_as_unknown_waits_anew_once_it_is_kicked(
    app: App, clock: ManualClock
) -> None:
    add_sound_task(app)
    handle = put_raw(app, "elsewhere")
    for _ in range(SNOOZES_MAX + 1):
        burst(app, threads=1)
        clock.advance(900)
    handle.kick()
    assert burst(app) == WorkerSummary(snoozed=1)  # to one that still has not got it
    handle.cancel()


def test_snoozes_that_a_task_asked_for_do_not_use_up_the_patience_with_workers_without_it(
    make_app: MakeApp, url: str, clock: ManualClock
) -> None:
    old, _ = make_app(url, clock)
    new, _ = make_app(url, clock)
    add_sound_task(old)

    @new.task(name="poll")
    def poll() -> object:
        return bide.Snooze(60)

    handle = poll.enqueue()
    for _ in range(SNOOZES_MAX + 1):
        assert burst(new, threads=1) == WorkerSummary(snoozed=1)
        clock.advance(60)
    assert burst(old) == WorkerSummary(snoozed=1)
    handle.cancel()


# ---------------------------------------------------------------- arguments that fit no more


def test_arguments_of_an_older_signature_fail_their_job_alone(app: App) -> None:
    sound = add_sound_task(app)

    @app.task(name="changed")
    def changed(order: int, currency: str) -> None: ...

    first = sound.enqueue(1)
    handle = put_raw(app, "changed", b"\x81\xa5order\x2a")
    last = sound.enqueue(2)
    assert burst(app, threads=1) == WorkerSummary(succeeded=2, failed=1)
    assert (state(first), state(last)) == (None, None)
    assert state(handle) is bide.State.FAILED
    error = last_error(handle)
    assert "InvalidArguments" in error
    assert "missing required field `currency`" in error
    assert "changed(order: 'int', currency: 'str')" in error


def test_arguments_are_decoded_at_each_attempt_so_a_better_deploy_mends_them(
    make_app: MakeApp, url: str, clock: ManualClock
) -> None:
    ran: list[object] = []
    wrong, _ = make_app(url, clock)
    right, _ = make_app(url, clock)

    @wrong.task(name="task", retry_backoff=1)
    def narrow(order: int) -> None: ...

    @right.task(name="task")
    def wide(order: int | str) -> None:
        ran.append(order)

    wide.enqueue("A-42")
    assert burst(wrong) == WorkerSummary(retried=1)
    clock.advance(1)
    assert burst(right) == WorkerSummary(succeeded=1)
    assert ran == ["A-42"]


GARBAGE = {
    "nothing": b"",
    "a byte that MessagePack never uses": b"\xc1",
    "a number": b"\x2a",
    "a list": b"\x91\x01",
    "cut short": b"\x81\xa6number",
    "more behind": b"\x81\xa6number\x01\x00",
    "text that is no UTF-8": b"\x81\xa6number\xa2\xff\xfe",
    "a name that is no UTF-8": b"\x81\xa2\xff\xfe\x01",
    "a map of four billion": b"\xdf\xff\xff\xff\xff",
    "bytes of four gigabytes": b"\x81\xa6number\xc6\xff\xff\xff\xff",
    "an endless nesting": b"\x81\xa5other" + b"\x91" * 500_000,
    "an extension": b"\xd4\x01\x00",
}


@pytest.mark.parametrize("args", GARBAGE.values(), ids=GARBAGE)
def test_bytes_that_are_no_arguments_fail_their_job_alone(app: App, args: bytes) -> None:
    sound = add_sound_task(app)
    before = [sound.enqueue(number) for number in range(3)]
    handle = put_raw(app, sound.name, args)
    behind = [sound.enqueue(number) for number in range(3)]
    assert burst(app, threads=1) == WorkerSummary(succeeded=6, failed=1)
    assert [state(other) for other in before + behind] == [None] * 6
    assert state(handle) is bide.State.FAILED
    assert last_error(handle)


# ---------------------------------------------------------------- rows that can't be read


def damage_row(app: App, job_id: int, row: bytes) -> None:
    """Write *row* in place of the job's own."""
    watched = cast("Watched", app.backend)
    store = cast("Embedded", watched._backend)._shared_store
    with store._lock:
        environment = store._open().environment
        with environment.begin(write=True) as txn:
            txn.put(encode_u64(job_id), row, db=environment.tables["jobs"])


ROWS = {"nothing": b"", "no MessagePack": b"\xc1", "another shape": b"\x93\x01\x02\x03"}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_damaged_row_is_set_aside_and_the_rest_of_its_batch_runs(app: App, row: bytes) -> None:
    sound = add_sound_task(app)
    before = [sound.enqueue(number) for number in range(3)]
    damaged = sound.enqueue(3)
    behind = [sound.enqueue(number) for number in range(3)]
    damage_row(app, damaged.id, row)
    assert burst(app, threads=1) == WorkerSummary(succeeded=6)
    assert [state(other) for other in before + behind] == [None] * 6
    assert app.jobs(bide.State.FAILED).unreadable == (damaged.id,)
    assert app.stats().queues[0].failed == 1


def test_a_row_damaged_while_its_job_runs_hurts_no_settlement_beside_it(app: App) -> None:
    sound = add_sound_task(app)

    @app.task(max_retries=3)
    def unlucky(ctx: bide.Context) -> None:
        damage_row(app, ctx.job_id, b"\xc1")
        raise ValueError("so its row has to be written anew")

    others = [sound.enqueue(number) for number in range(3)]
    handle = unlucky.enqueue()
    others += [sound.enqueue(number) for number in range(3)]
    burst(app, threads=1)
    assert [state(other) for other in others] == [None] * 6
    assert app.jobs(bide.State.FAILED).unreadable == (handle.id,)
