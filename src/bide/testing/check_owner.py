"""Checks of workers: attending, waiting, leaving and dying; and of closing the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from bide.errors import LeaseLost, StoreClosed
from bide.model.commands import (
    Change,
    Completed,
    Exhausted,
    Outcome,
    Retried,
    Returned,
    Settlement,
    Snoozed,
)
from bide.model.job import JobId, JobRef, Lease, State
from bide.testing.trial import Trial, ids, raising

LEASES = 1_500
"""More than a backend takes back in one step."""

LONG_S = 600.0


def workers_are_known_while_they_attend(trial: Trial) -> None:
    assert trial.backend.stats().owners == ()
    one = trial.attend("a", "b")
    other = trial.attend("c")
    owners = {owner.id: owner for owner in trial.backend.stats().owners}
    assert set(owners) == {one.owner, other.owner}
    assert owners[one.owner].queues == ("a", "b")
    assert owners[one.owner].started_ms == trial.clock.now_ms()
    assert owners[one.owner].token != owners[other.owner].token
    one.leave()
    assert [owner.id for owner in trial.backend.stats().owners] == [other.owner]


def owner_ids_are_never_given_again(trial: Trial) -> None:
    seen = set()
    for _ in range(3):
        worker = trial.backend.attend(("q",))
        seen.add(worker.owner)
        worker.leave()
    assert len(seen) == 3


def leaving_gives_back_what_is_held(trial: Trial) -> None:
    given = trial.put_all([trial.job(max_retries=0)] * 3)
    worker, other = trial.attend(), trial.attend()
    leases = trial.reserve(worker)
    worker.clear(worker.start(leases[0]))
    worker.leave()
    assert trial.stats().ready == 3
    again = trial.reserve(other)
    assert ids(again) == given
    assert [lease.attempt for lease in again] == [1, 1, 1]
    assert all(trial.refuses(lease, Completed()) for lease in leases)


def leaving_counts_runs_that_were_not_settled(trial: Trial) -> None:
    last = trial.put(max_retries=0, priority=1)
    again = trial.put(max_retries=1)
    worker, other = trial.attend(), trial.attend()
    for lease in trial.reserve(worker):
        worker.start(lease)
    worker.leave()
    assert trial.state(last) is State.FAILED
    assert [(lease.job.id, lease.attempt) for lease in trial.reserve(other)] == [(again, 2)]


def leaving_twice_is_harmless(trial: Trial) -> None:
    worker = trial.attend()
    worker.leave()
    worker.leave()
    assert trial.backend.stats().owners == ()


def left_worker_gets_nothing(trial: Trial) -> None:
    worker = trial.attend()
    worker.leave()
    trial.put()
    with raising(LeaseLost):
        trial.reserve(worker)


def living_workers_keep_their_jobs(trial: Trial) -> None:
    trial.put()
    worker = trial.attend()
    lease = trial.reserve_one(worker)
    worker.start(lease)
    for _ in range(3):
        trial.clock.advance(timedelta(days=365))
        trial.backend.tick(["q"])
    assert trial.backend.lost([lease]) == frozenset()
    trial.end(lease, Completed())


def waking_ends_a_wait(trial: Trial) -> None:
    worker = trial.attend()
    worker.wake()
    worker.wait(None, LONG_S)  # woken before it began
    worker.wait(trial.clock.now_ms(), LONG_S)  # a time that has come
    waiting = threading.Thread(target=worker.wait, args=(None, LONG_S), daemon=True)
    waiting.start()
    worker.wake()
    waiting.join(LONG_S)
    assert not waiting.is_alive()


def dead_workers_jobs_run_again(trial: Trial) -> None:
    given = trial.put_all([trial.job()] * 3)
    worker, other = trial.attend(), trial.attend()
    leases = trial.reserve(worker)
    for lease in leases:
        worker.start(lease)
    trial.kill(worker)
    trial.backend.tick(["q"])
    assert [owner.id for owner in trial.backend.stats().owners] == [other.owner]
    again = trial.reserve(other)
    assert ids(again) == given
    assert all(trial.refuses(lease, Completed()) for lease in leases)
    for lease in again:
        trial.end(lease, Completed())
    assert trial.stats().succeeded_total == 3


def only_started_runs_count_when_a_worker_dies(trial: Trial) -> None:
    given = trial.put_all([trial.job(max_retries=1)] * 4)
    worker, other = trial.attend(), trial.attend()
    held, started, cleared, settled = trial.reserve(worker)
    worker.start(started)
    worker.clear(worker.start(cleared))
    slot = worker.start(settled)
    trial.end(settled, Retried(trial.clock.now_ms(), "its own"))
    worker.clear(slot)
    trial.kill(worker)
    trial.backend.tick(["q"])
    attempts = {lease.job.id: lease.attempt for lease in trial.reserve(other)}
    assert attempts == dict(zip(given, (1, 2, 1, 2), strict=True))
    assert trial.info(held.job.id).job.errors == ()
    (error,) = trial.info(started.job.id).job.errors
    assert error.attempt == 1
    assert "died" in error.text
    assert [error.text for error in trial.info(settled.job.id).job.errors] == ["its own"]


def job_that_kills_its_workers_fails_in_the_end(trial: Trial) -> None:
    job_id = trial.put(max_retries=2, key="a")
    runs = 0
    while trial.state(job_id) is State.READY:
        worker = trial.attend()
        worker.start(trial.reserve_one(worker))
        runs += 1
        trial.kill(worker)
        trial.backend.tick(["q"])
    assert runs == 3
    info = trial.info(job_id)
    assert (info.state, info.job.attempt, len(info.job.errors)) == (State.FAILED, 3, 3)
    assert trial.by_key("a") is None
    assert trial.backend.stats().owners == ()


def death_of_one_leaves_the_others_theirs(trial: Trial) -> None:
    trial.put_all([trial.job()] * 2)
    worker, other = trial.attend(), trial.attend()
    lost, kept = trial.reserve_one(worker), trial.reserve_one(other)
    trial.kill(worker)
    trial.backend.tick(["q"])
    assert trial.backend.lost([lost, kept]) == {lost.job.id}
    trial.end(kept, Completed())


def death_with_many_leases(trial: Trial) -> None:
    given = trial.put_all([trial.job()] * LEASES)
    worker, other = trial.attend(), trial.attend()
    leases = trial.reserve(worker)
    for lease in leases[::2]:
        worker.start(lease)
    trial.kill(worker)
    trial.backend.tick(["q"])
    again = trial.reserve(other)
    assert ids(again) == given
    assert [lease.attempt for lease in again] == [2, 1] * (LEASES // 2)
    assert trial.stats().running == LEASES


def cancelled_run_of_a_dead_worker_stays_cancelled(trial: Trial) -> None:
    job_id = trial.put()
    worker = trial.attend()
    worker.start(trial.reserve_one(worker))
    assert trial.cancel(job_id) is None
    trial.kill(worker)
    trial.backend.tick(["q"])
    trial.backend.tick(["q"])
    assert trial.state(job_id) is None
    assert trial.stats().cancelled_total == 1


def dead_worker_leaves_a_successor_its_key(trial: Trial) -> None:
    old = trial.put(key="a")
    worker = trial.attend()
    worker.start(trial.reserve_one(worker))
    new = trial.put(key="a", on_conflict="replace", delay_ms=1_000)
    trial.kill(worker)
    trial.backend.tick(["q"])
    assert (trial.state(old), trial.info(old).job.key) == (State.READY, None)
    assert trial.by_key("a") == new


def finished_run_of_a_dead_worker_stays_finished(trial: Trial) -> None:
    """It died between the settlement and the note on its board that this was stored."""
    done, failed, again, snoozed = trial.put_all([trial.job(max_retries=3)] * 4)
    worker, other = trial.attend(), trial.attend()
    outcomes: tuple[Outcome, ...] = (
        Completed(),
        Exhausted("its own"),
        Retried(0, "its own"),
        Snoozed(0),
    )
    for lease, outcome in zip(trial.reserve(worker), outcomes, strict=True):
        worker.start(lease)
        trial.end(lease, outcome)
    trial.kill(worker)
    trial.backend.tick(["q"])
    assert trial.state(done) is None
    assert [error.text for error in trial.info(failed).job.errors] == ["its own"]
    attempts = {lease.job.id: lease.attempt for lease in trial.reserve(other)}
    assert attempts == {again: 2, snoozed: 1}
    assert trial.info(again).job.attempt == 1
    stats = trial.stats()
    assert (stats.succeeded_total, stats.failed_total) == (1, 1)


def run_that_was_only_held_again_does_not_count(trial: Trial) -> None:
    """The board still names the job's earlier run when the worker, holding it anew, dies."""
    job_id = trial.put(max_retries=1)
    worker, other = trial.attend(), trial.attend()
    first = trial.reserve_one(worker)
    worker.start(first)
    trial.end(first, Retried(0, "its own"))
    assert trial.reserve_one(worker).attempt == 2
    trial.kill(worker)
    trial.backend.tick(["q"])
    assert trial.state(job_id) is State.READY
    assert trial.reserve_one(other).attempt == 2


def restarted_worker_is_another(trial: Trial) -> None:
    """A worker of the same host and pid comes up before anyone has seen that the first is dead."""
    job_id = trial.put(max_retries=1)
    first = trial.attend()
    lease = trial.reserve_one(first)
    first.start(lease)
    trial.kill(first)
    second = trial.attend()
    assert second.owner != first.owner
    assert trial.reserve(second) == ()
    settlement = Settlement(job_id, lease.attempt, Completed())
    (refused,) = trial.backend.reserve(second.owner, ("q",), 0, [settlement]).refused
    assert isinstance(refused, LeaseLost)
    trial.backend.tick(["q"])
    assert [owner.id for owner in trial.backend.stats().owners] == [second.owner]
    assert trial.reserve_one(second).attempt == 2
    assert trial.refuses(lease, Completed())


def attempts_are_counted_alike_however_they_end(trial: Trial) -> None:
    """Failures, deaths and shutdowns count; what was held, returned or snoozed does not."""
    job_id = trial.put(max_retries=2)
    other = trial.attend()

    def die(*, started: bool) -> None:
        worker = trial.attend()
        lease = trial.reserve_one(worker)
        if started:
            worker.start(lease)
        trial.kill(worker)
        trial.backend.tick(["q"])

    def leave(*, started: bool) -> None:
        worker = trial.attend()
        lease = trial.reserve_one(worker)
        if started:
            worker.start(lease)
        worker.leave()

    def attempt() -> int:
        lease = trial.reserve_one(other)
        trial.end(lease, Returned())
        return lease.attempt

    die(started=False)
    leave(started=False)
    trial.end(trial.reserve_one(other), Snoozed(0))
    assert attempt() == 1
    die(started=True)
    assert attempt() == 2
    leave(started=False)
    die(started=False)
    leave(started=True)
    assert attempt() == 3
    trial.end(trial.reserve_one(other), Snoozed(0))
    die(started=False)
    assert attempt() == 3
    trial.end(trial.reserve_one(other), Retried(0, "the last one"))
    info = trial.info(job_id)
    assert (info.state, info.job.attempt) == (State.FAILED, 3)
    assert [error.attempt for error in info.job.errors] == [1, 2, 3]
    assert trial.reserve(other) == ()


def dead_workers_job_frees_its_key_when_it_ends(trial: Trial) -> None:
    job_id = trial.put(key="a", max_retries=1)
    worker, other = trial.attend(), trial.attend()
    worker.start(trial.reserve_one(worker))
    trial.kill(worker)
    trial.backend.tick(["q"])
    assert trial.by_key("a") == job_id, "it lives, and so does its key"
    trial.end(trial.reserve_one(other), Completed())
    assert trial.by_key("a") is None
    assert trial.put(key="a") > job_id


def closing_twice_is_harmless(trial: Trial) -> None:
    trial.put()
    trial.backend.close()
    trial.backend.close()


def closed_store_says_so(trial: Trial) -> None:
    job_id = trial.put()
    worker = trial.attend()
    lease = trial.reserve_one(worker)
    trial.leave_all()
    backend = trial.backend
    backend.close()
    ref = JobRef(id=job_id)
    done = Settlement(job_id, 1, Completed())
    calls: list[Callable[[], object]] = [
        lambda: backend.put([trial.job()]),
        lambda: backend.attend(("q",)),
        lambda: backend.reserve(worker.owner, ("q",), 1),
        lambda: backend.reserve(worker.owner, ("q",), 0, [done]),
        lambda: backend.lost([Lease(worker.owner, lease.job, 1)]),
        lambda: backend.cancel([ref]),
        lambda: backend.move([Change(ref, priority=1)]),
        lambda: backend.kick([ref]),
        lambda: backend.get(JobRef(id=JobId(1))),
        lambda: backend.list(queue=None, state=State.READY, limit=1),
        backend.stats,
        backend.sync,
        lambda: backend.tick(["q"]),
    ]
    for call in calls:
        with raising(StoreClosed):
            call()


CHECKS = (
    workers_are_known_while_they_attend,
    owner_ids_are_never_given_again,
    leaving_gives_back_what_is_held,
    leaving_counts_runs_that_were_not_settled,
    leaving_twice_is_harmless,
    left_worker_gets_nothing,
    living_workers_keep_their_jobs,
    waking_ends_a_wait,
    closing_twice_is_harmless,
    closed_store_says_so,
)

DEATH_CHECKS = (
    dead_workers_jobs_run_again,
    only_started_runs_count_when_a_worker_dies,
    job_that_kills_its_workers_fails_in_the_end,
    death_of_one_leaves_the_others_theirs,
    death_with_many_leases,
    cancelled_run_of_a_dead_worker_stays_cancelled,
    dead_worker_leaves_a_successor_its_key,
    finished_run_of_a_dead_worker_stays_finished,
    run_that_was_only_held_again_does_not_count,
    restarted_worker_is_another,
    attempts_are_counted_alike_however_they_end,
    dead_workers_job_frees_its_key_when_it_ends,
)
