"""Checks of `Backend.reserve`: who is served, in what order, and never early."""

from __future__ import annotations

import random
from datetime import timedelta

from bide.errors import LeaseLost
from bide.model.commands import Completed, Retried, Settlement
from bide.model.job import JobId, OwnerId, State
from bide.model.limits import PRIORITY_MAX, PRIORITY_MIN
from bide.testing.trial import Trial, ids, raising


def _shuffled(trial: Trial) -> list[JobId]:
    """Put jobs of mixed priorities and due times, all past; their ids in order of service."""
    dice = random.Random(7)
    jobs = [
        trial.job(delay_ms=-dice.randrange(20), priority=dice.randint(-3, 3)) for _ in range(200)
    ]
    given = trial.put_all(jobs)
    ranked = sorted(
        (-job.priority, job.due_ms, job_id) for job, job_id in zip(jobs, given, strict=True)
    )
    return [job_id for _, _, job_id in ranked]


def priority_then_due_then_id(trial: Trial) -> None:
    expected = _shuffled(trial)
    assert trial.list_ids(State.READY, queue="q") == expected
    assert ids(trial.reserve(trial.attend())) == expected


def order_holds_over_many_reserves(trial: Trial) -> None:
    expected = _shuffled(trial)
    one, other = trial.attend(), trial.attend()
    served: list[JobId] = []
    while leases := trial.reserve(one, limit=7) + trial.reserve(other, limit=1):
        served += ids(leases)
    assert served == expected


def every_priority_has_its_rank(trial: Trial) -> None:
    priorities = list(range(PRIORITY_MIN, PRIORITY_MAX + 1))
    given = trial.put_all([trial.job(priority=priority) for priority in priorities])
    assert ids(trial.reserve(trial.attend())) == given[::-1]


def queues_are_served_strictly_in_order(trial: Trial) -> None:
    a = trial.put_all([trial.job(queue="a", priority=9)] * 2)
    b = trial.put_all([trial.job(queue="b")] * 2)
    worker = trial.attend("b", "a")
    assert ids(trial.reserve(worker, "b", "a", limit=3)) == [*b, a[0]]
    assert ids(trial.reserve(worker, "b", "a", limit=3)) == [a[1]]


def only_named_queues_are_served(trial: Trial) -> None:
    names = ["test", "test2", "tes", "test-", "Test", "t" * 64, "t" * 63]
    given = {name: trial.put(queue=name) for name in names}
    worker = trial.attend(*names)
    assert trial.reserve(worker, "never-used") == ()
    for name in names:
        assert ids(trial.reserve(worker, name)) == [given[name]]


def limit_is_kept(trial: Trial) -> None:
    given = trial.put_all([trial.job()] * 5)
    worker = trial.attend()
    assert trial.reserve(worker, limit=0) == ()
    assert ids(trial.reserve(worker, limit=1)) == given[:1]
    assert ids(trial.reserve(worker, limit=2)) == given[1:3]
    assert ids(trial.reserve(worker, limit=100)) == given[3:]
    assert trial.reserve(worker, limit=100) == ()


def nothing_runs_early(trial: Trial) -> None:
    given = trial.put_all([trial.job(delay_ms=delay) for delay in (3, 1, 2)])
    worker = trial.attend()
    assert trial.reserve(worker) == ()
    for expected in (given[1], given[2], given[0]):
        assert trial.list_ids(State.READY) == []
        trial.clock.advance(0.001)
        assert ids(trial.reserve(worker)) == [expected]


def clock_set_back_makes_nothing_early(trial: Trial) -> None:
    job_id = trial.put(delay_ms=1_000)
    worker = trial.attend()
    now_ms = trial.clock.now_ms()
    trial.clock.set_ms(now_ms - 3_600_000)
    trial.clock.advance(3_600)
    assert trial.reserve(worker) == ()
    trial.clock.advance(1)
    assert ids(trial.reserve(worker)) == [job_id]


def near_job_does_not_wait_behind_far_ones(trial: Trial) -> None:
    far = [trial.job(delay_ms=86_400_000 + n, priority=n % 3) for n in range(1_000)]
    trial.put_all(far)
    near = trial.put(priority=-1)
    soon = trial.put(priority=-2, delay_ms=1)
    worker = trial.attend()
    assert ids(trial.reserve(worker)) == [near]
    assert trial.backend.tick(["q"]) == trial.info(soon).job.due_ms
    trial.clock.advance(0.001)
    assert ids(trial.reserve(worker)) == [soon]
    assert trial.stats().ready == 0
    assert len(trial.list_ids(State.SCHEDULED)) == len(far)


def overdue_jobs_run_earliest_first(trial: Trial) -> None:
    given = trial.put_all([trial.job(delay_ms=1_000 * n) for n in (50, 3, 99, 1, 2)])
    trial.clock.advance(timedelta(days=30))
    by_due = [given[index] for index in (3, 4, 1, 0, 2)]
    assert trial.list_ids(State.READY) == by_due
    worker = trial.attend()
    assert [trial.reserve_one(worker).job.id for _ in given] == by_due


def many_due_in_the_same_moment(trial: Trial) -> None:
    given = trial.put_all([trial.job(delay_ms=1_000)] * 2_000)
    one, other = trial.attend(), trial.attend()
    assert trial.reserve(one) == ()
    trial.clock.advance(1)
    served: list[JobId] = []
    while leases := trial.reserve(one, limit=300) + trial.reserve(other, limit=300):
        served += ids(leases)
    assert served == given


def lease_is_exclusive(trial: Trial) -> None:
    trial.put_all([trial.job()] * 4)
    one, other = trial.attend(), trial.attend()
    held = ids(trial.reserve(one, limit=2))
    others = ids(trial.reserve(other))
    assert sorted(held + others) == sorted(set(held + others))
    assert len(held + others) == 4
    trial.clock.advance(timedelta(days=365))  # longer than any lease or timeout
    trial.backend.tick(["q"])
    assert trial.reserve(one) + trial.reserve(other) == ()


def leases_say_who_and_which_run(trial: Trial) -> None:
    trial.put()
    worker = trial.attend()
    lease = trial.reserve_one(worker)
    assert (lease.owner, lease.attempt) == (worker.owner, 1)


def settling_and_reserving_in_one_call(trial: Trial) -> None:
    first, second = trial.put_all([trial.job(priority=1), trial.job()])
    worker = trial.attend()
    lease = trial.reserve_one(worker)
    again = Settlement(first, lease.attempt, Retried(trial.clock.now_ms(), "once more"))
    reserved = trial.backend.reserve(worker.owner, ("q",), 2, [again])
    assert reserved.refused == (None,)
    assert [(lease.job.id, lease.attempt) for lease in reserved.leases] == [(first, 2), (second, 1)]
    done = [Settlement(lease.job.id, lease.attempt, Completed()) for lease in reserved.leases]
    assert trial.backend.reserve(worker.owner, ("q",), 2, done).refused == (None, None)
    assert trial.stats().succeeded_total == 2


def job_settled_into_being_due_can_be_reserved_at_once(trial: Trial) -> None:
    job_id = trial.put()
    worker = trial.attend()
    lease = trial.reserve_one(worker)
    again = Settlement(job_id, lease.attempt, Retried(trial.clock.now_ms(), "once more"))
    reserved = trial.backend.reserve(worker.owner, ("q",), 1, [again])
    assert [(lease.job.id, lease.attempt) for lease in reserved.leases] == [(job_id, 2)]


def unknown_owner_gets_nothing(trial: Trial) -> None:
    job_id = trial.put()
    stranger = OwnerId(987_654_321)
    with raising(LeaseLost):
        trial.backend.reserve(stranger, ("q",), 1)
    assert trial.state(job_id) is State.READY


CHECKS = (
    priority_then_due_then_id,
    order_holds_over_many_reserves,
    every_priority_has_its_rank,
    queues_are_served_strictly_in_order,
    only_named_queues_are_served,
    limit_is_kept,
    nothing_runs_early,
    clock_set_back_makes_nothing_early,
    near_job_does_not_wait_behind_far_ones,
    overdue_jobs_run_earliest_first,
    many_due_in_the_same_moment,
    lease_is_exclusive,
    leases_say_who_and_which_run,
    settling_and_reserving_in_one_call,
    job_settled_into_being_due_can_be_reserved_at_once,
    unknown_owner_gets_nothing,
)
