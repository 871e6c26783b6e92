"""Checks of settlements: what each outcome does, fences, and exact counts of attempts."""

from __future__ import annotations

from bide.errors import LeaseLost
from bide.model.commands import (
    Completed,
    Dropped,
    Exhausted,
    Outcome,
    Retried,
    Returned,
    Settlement,
    Snoozed,
)
from bide.model.job import JobId, JobRef, Lease, OwnerId, State
from bide.model.limits import ERROR_TEXT_SIZE_MAX, ERRORS_KEPT_MAX
from bide.testing.trial import Trial, ids


def _outcomes(trial: Trial) -> tuple[Outcome, ...]:
    later = trial.clock.now_ms() + 1_000
    return (
        Completed(),
        Dropped(),
        Exhausted("no"),
        Returned(),
        Snoozed(later),
        Retried(later, "no"),
    )


def each_outcome_leads_where_it_says(trial: Trial) -> None:
    worker = trial.attend()
    expected = (None, None, State.FAILED, State.READY, State.SCHEDULED, State.SCHEDULED)
    for outcome, state in zip(_outcomes(trial), expected, strict=True):
        trial.put(priority=1)
        lease = trial.reserve_one(worker)
        trial.end(lease, outcome)
        assert trial.state(lease.job.id) is state, f"{outcome} led to {trial.state(lease.job.id)}"
        trial.cancel(lease.job.id)


def retry_comes_when_asked(trial: Trial) -> None:
    job_id = trial.put()
    worker = trial.attend()
    due_ms = trial.clock.now_ms() + 60_000
    trial.end(trial.reserve_one(worker), Retried(due_ms, "no"))
    assert trial.info(job_id).job.due_ms == due_ms
    trial.clock.set_ms(due_ms - 1)
    assert trial.reserve(worker) == ()
    trial.clock.advance(0.001)
    assert trial.reserve_one(worker).attempt == 2


def runs_are_max_retries_and_one(trial: Trial) -> None:
    worker = trial.attend()
    for max_retries in (0, 1, 5):
        job_id = trial.put(max_retries=max_retries)
        attempts: list[int] = []
        while leases := trial.reserve(worker):
            (lease,) = leases
            attempts.append(lease.attempt)
            trial.end(lease, Retried(trial.clock.now_ms(), f"failure {lease.attempt}"))
        assert attempts == list(range(1, max_retries + 2))
        info = trial.info(job_id)
        assert info.state is State.FAILED
        assert info.job.attempt == max_retries + 1
        assert info.job.failed_ms == trial.clock.now_ms()
        assert [error.attempt for error in info.job.errors] == attempts
        assert info.job.errors[-1].text == f"failure {attempts[-1]}"


def exhausted_fails_with_retries_left(trial: Trial) -> None:
    job_id = trial.put(max_retries=5)
    worker = trial.attend()
    trial.end(trial.reserve_one(worker), Exhausted("hopeless"))
    job = trial.info(job_id).job
    assert (job.attempt, job.errors[-1].text) == (1, "hopeless")
    assert trial.list_ids(State.FAILED) == [job_id]
    trial.clock.advance(10_000)
    assert trial.reserve(worker) == ()


def snoozes_and_returns_do_not_count(trial: Trial) -> None:
    job_id = trial.put(max_retries=1)
    worker = trial.attend()
    for snoozes in range(1, 4):
        due_ms = trial.clock.now_ms() + 10
        trial.end(trial.reserve_one(worker), Snoozed(due_ms))
        assert trial.reserve(worker) == (), "a snoozed job came early"
        trial.clock.set_ms(due_ms)
        lease = trial.reserve_one(worker)
        assert (lease.attempt, lease.job.snoozes) == (1, snoozes)
        trial.end(lease, Returned())
    trial.end(trial.reserve_one(worker), Retried(trial.clock.now_ms(), "first"))
    trial.end(trial.reserve_one(worker), Returned())
    lease = trial.reserve_one(worker)
    assert lease.attempt == 2
    trial.end(lease, Retried(trial.clock.now_ms(), "second"))
    assert trial.state(job_id) is State.FAILED
    assert [error.text for error in trial.info(job_id).job.errors] == ["first", "second"]


def returned_jobs_keep_their_place(trial: Trial) -> None:
    given = trial.put_all([trial.job(priority=1), trial.job(delay_ms=-9), trial.job()])
    worker = trial.attend()
    for lease in reversed(trial.reserve(worker)):
        trial.end(lease, Returned())
    assert ids(trial.reserve(worker)) == given


def history_is_bounded(trial: Trial) -> None:
    job_id = trial.put(max_retries=ERRORS_KEPT_MAX + 5)
    worker = trial.attend()
    for _ in range(ERRORS_KEPT_MAX + 3):
        lease = trial.reserve_one(worker)
        text = "x" * ERROR_TEXT_SIZE_MAX + f"end {lease.attempt}"
        trial.end(lease, Retried(trial.clock.now_ms(), text))
    errors = trial.info(job_id).job.errors
    assert [error.attempt for error in errors] == list(range(4, ERRORS_KEPT_MAX + 4))
    for error in errors:
        assert error.at_ms == trial.clock.now_ms()
        assert error.text.endswith(f"xend {error.attempt}")
        assert len(error.text) == ERROR_TEXT_SIZE_MAX


def _assert_all_refused(trial: Trial, lease: Lease, why: str) -> None:
    before = trial.backend.stats(), trial.backend.get(JobRef(id=lease.job.id))
    for outcome in _outcomes(trial):
        assert trial.refuses(lease, outcome), f"{outcome} counted {why}"
    after = trial.backend.stats(), trial.backend.get(JobRef(id=lease.job.id))
    assert after == before, f"a refused settlement changed something {why}"


def settling_twice_is_refused(trial: Trial) -> None:
    worker = trial.attend()
    for outcome in _outcomes(trial):
        trial.put(priority=1)
        lease = trial.reserve_one(worker)
        trial.end(lease, outcome)
        _assert_all_refused(trial, lease, f"after {outcome}")
        trial.cancel(lease.job.id)


def settling_twice_in_one_call_counts_once(trial: Trial) -> None:
    trial.put()
    worker = trial.attend()
    lease = trial.reserve_one(worker)
    settlement = Settlement(lease.job.id, lease.attempt, Completed())
    refused = trial.backend.reserve(worker.owner, ("q",), 0, [settlement, settlement]).refused
    assert refused[0] is None
    assert isinstance(refused[1], LeaseLost)
    assert trial.stats().succeeded_total == 1


def settling_after_a_cancel_is_refused(trial: Trial) -> None:
    job_id = trial.put()
    worker = trial.attend()
    lease = trial.reserve_one(worker)
    assert trial.cancel(job_id) is None
    _assert_all_refused(trial, lease, "after a cancel")
    assert trial.state(job_id) is None


def settling_another_attempt_is_refused(trial: Trial) -> None:
    trial.put()
    worker = trial.attend()
    first = trial.reserve_one(worker)
    trial.end(first, Retried(trial.clock.now_ms(), "no"))
    second = trial.reserve_one(worker)
    _assert_all_refused(trial, first, "for an attempt that had ended")
    for attempt in (0, 3):
        _assert_all_refused(trial, Lease(worker.owner, second.job, attempt), "for a wrong attempt")
    trial.end(second, Completed())


def settling_for_another_owner_is_refused(trial: Trial) -> None:
    trial.put()
    holder, other = trial.attend(), trial.attend()
    lease = trial.reserve_one(holder)
    _assert_all_refused(trial, Lease(other.owner, lease.job, 1), "for a job of another owner")
    _assert_all_refused(trial, Lease(OwnerId(12_345), lease.job, 1), "for an unknown owner")
    trial.end(lease, Returned())
    again = trial.reserve_one(other)
    assert again.attempt == lease.attempt, "a return counted as an attempt"
    _assert_all_refused(trial, lease, "after the job went to another owner")
    trial.end(again, Completed())


def settling_what_was_never_leased_is_refused(trial: Trial) -> None:
    waiting = trial.put()
    worker = trial.attend()
    lease = Lease(worker.owner, trial.info(waiting).job, 1)
    _assert_all_refused(trial, lease, "for a waiting job")
    unknown = Settlement(JobId(10**9), 1, Completed())
    (refused,) = trial.backend.reserve(worker.owner, ("q",), 0, [unknown]).refused
    assert isinstance(refused, LeaseLost)


def settled_work_can_be_synced(trial: Trial) -> None:
    trial.backend.sync()
    trial.put()
    trial.end(trial.reserve_one(trial.attend()), Completed())
    trial.backend.sync()
    trial.backend.sync()
    assert trial.stats().succeeded_total == 1


def puts_can_be_synced_later(trial: Trial) -> None:
    for mode in (None, "always", "interval", "never"):
        trial.backend.put([trial.job()], sync=mode, wait=False)
        trial.backend.sync(mode)
    assert trial.stats().put_total == 4


def refused_settlement_does_not_hold_up_others(trial: Trial) -> None:
    trial.put_all([trial.job()] * 3)
    worker = trial.attend()
    leases = trial.reserve(worker)
    assert trial.cancel(leases[1].job.id) is None
    settlements = [Settlement(lease.job.id, lease.attempt, Completed()) for lease in leases]
    refused = trial.backend.reserve(worker.owner, ("q",), 0, settlements).refused
    assert [error is None for error in refused] == [True, False, True]
    assert isinstance(refused[1], LeaseLost)
    assert trial.stats().succeeded_total == 2
    assert trial.stats().running == 0


CHECKS = (
    each_outcome_leads_where_it_says,
    retry_comes_when_asked,
    runs_are_max_retries_and_one,
    exhausted_fails_with_retries_left,
    snoozes_and_returns_do_not_count,
    returned_jobs_keep_their_place,
    history_is_bounded,
    settling_twice_is_refused,
    settling_twice_in_one_call_counts_once,
    settling_after_a_cancel_is_refused,
    settling_another_attempt_is_refused,
    settling_for_another_owner_is_refused,
    settling_what_was_never_leased_is_refused,
    settled_work_can_be_synced,
    puts_can_be_synced_later,
    refused_settlement_does_not_hold_up_others,
)
