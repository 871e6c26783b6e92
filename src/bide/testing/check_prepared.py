"""Checks of transactions: jobs that are put together once it is decided, or never."""

from __future__ import annotations

from typing import Any

from bide.errors import JobNotFound, KeyTaken, WrongState
from bide.format.group import Group, decode_group, encode_group
from bide.model.commands import Decided, Exhausted, Outcome, Retried, Returned, Snoozed
from bide.model.job import JobId, Lease, NewJob, State
from bide.model.queue import PREPARED_TASK, ChannelTerms
from bide.testing.trial import Trial, ids, raising


def _prepare(trial: Trial, *jobs: NewJob, check_ms: int = 60_000) -> JobId:
    group = encode_group(Group("label", jobs or (trial.job(args=b"1"),)))
    queue = f":{jobs[0].queue if jobs else 'q'}"
    return trial.put(queue=queue, task=PREPARED_TASK, args=group, delay_ms=check_ms, max_retries=1)


def _ask(trial: Trial, worker: Any) -> Lease:
    return trial.reserve_one(worker, ":q")


def _decided(lease: Lease, *, is_commit: bool) -> Decided:
    return Decided(is_commit, decode_group(lease.job.args).jobs)


def undecided_jobs_are_not_there(trial: Trial) -> None:
    job_id = _prepare(trial, trial.job(key="a"))
    worker = trial.attend()
    for _ in range(2):
        assert trial.state(job_id) is State.PREPARED
        assert trial.reserve(worker) == ()
        assert trial.by_key("a") is None
        assert trial.backend.tick(["q"]) is None
        trial.clock.advance(10**6)
    assert trial.list_ids(State.PREPARED) == trial.list_ids(State.PREPARED, queue="q") == [job_id]
    assert trial.list_ids(State.READY) == trial.list_ids(State.SCHEDULED) == []
    stats = trial.stats()
    assert (stats.prepared, stats.waiting, stats.put_total) == (1, 0, 0)


def commit_puts_all_in_order(trial: Trial) -> None:
    jobs = (
        trial.job(args=b"1", delay_ms=5),
        trial.job(args=b"2", queue="other", key="k"),
        trial.job(args=b"3", priority=7),
    )
    job_id = _prepare(trial, *jobs)
    trial.clock.advance(1)
    results = trial.backend.decide(job_id, is_commit=True)
    assert [result.outcome for result in results] == ["put"] * 3
    infos = [trial.info(result.id).job for result in results]
    assert [job.args for job in infos] == [b"1", b"2", b"3"]
    assert [job.due_ms for job in infos] == [new.due_ms for new in jobs]
    assert trial.by_key("k", "other") == results[1].id
    assert trial.state(job_id) is None
    assert ids(trial.reserve(trial.attend())) == [results[2].id, results[0].id]
    with raising(JobNotFound):
        trial.backend.decide(job_id, is_commit=True)
    with raising(JobNotFound):
        trial.backend.decide(job_id, is_commit=False)


def rollback_puts_nothing(trial: Trial) -> None:
    job_id = _prepare(trial)
    assert trial.backend.decide(job_id, is_commit=False) == ()
    assert trial.state(job_id) is None
    assert trial.reserve(trial.attend()) == ()
    with raising(JobNotFound) as caught:
        trial.backend.decide(job_id, is_commit=True)
    assert caught[0].job_id == job_id


def only_a_transaction_can_be_decided(trial: Trial) -> None:
    job_id = trial.put()
    for is_commit in (True, False):
        with raising(WrongState):
            trial.backend.decide(job_id, is_commit=is_commit)
    assert trial.state(job_id) is State.READY


def transaction_whose_key_is_held_stays_undecided(trial: Trial) -> None:
    holder = trial.put(key="a", queue="other")
    job_id = _prepare(trial, trial.job(), trial.job(key="a", queue="other"))
    with raising(KeyTaken):
        trial.backend.decide(job_id, is_commit=True)
    assert trial.state(job_id) is State.PREPARED
    assert trial.backend.stats().queues[-1].put_total == 0, "none of them was put"
    trial.cancel(holder)
    assert len(trial.backend.decide(job_id, is_commit=True)) == 2


def commit_follows_on_conflict(trial: Trial) -> None:
    holder = trial.put(key="a")
    skips = _prepare(trial, trial.job(key="a", on_conflict="skip"))
    replaces = _prepare(trial, trial.job(key="a", on_conflict="replace"))
    (result,) = trial.backend.decide(skips, is_commit=True)
    assert (result.id, result.outcome) == (holder, "skipped")
    (result,) = trial.backend.decide(replaces, is_commit=True)
    assert (result.outcome, trial.by_key("a")) == ("replaced", result.id)


def checker_is_asked_by_one_worker_at_its_time(trial: Trial) -> None:
    job_id = _prepare(trial, check_ms=1_000)
    one, other = trial.attend(), trial.attend()
    assert trial.backend.tick([":q", "q"]) == trial.clock.now_ms() + 1_000
    assert trial.reserve(one, ":q") == ()
    trial.clock.advance(1)
    lease = _ask(trial, one)
    assert lease.job.id == job_id
    assert trial.reserve(other, ":q") == ()
    assert trial.state(job_id) is State.RUNNING
    assert trial.stats().prepared == 1
    trial.end(lease, _decided(lease, is_commit=True))
    assert [lease.job.args for lease in trial.reserve(other)] == [b"1"]
    assert trial.state(job_id) is None
    assert trial.refuses(lease, _decided(lease, is_commit=True)), "decided once"


def checker_can_roll_back(trial: Trial) -> None:
    job_id = _prepare(trial, check_ms=0)
    lease = _ask(trial, trial.attend())
    trial.end(lease, _decided(lease, is_commit=False))
    assert trial.state(job_id) is None
    assert trial.reserve(trial.attend()) == ()


def checker_never_fails_for_good(trial: Trial) -> None:
    job_id = _prepare(trial, check_ms=0)
    worker = trial.attend()
    failed = Retried(0, "no")
    outcomes: list[Outcome] = [failed, failed, failed, Exhausted("no"), Snoozed(0), Returned()]
    for outcome in outcomes:
        trial.end(_ask(trial, worker), outcome)
        assert trial.state(job_id) is State.PREPARED
        trial.clock.advance(10**6)
    assert trial.stats().failed == 0
    assert trial.backend.decide(job_id, is_commit=True)


def checker_whose_worker_left_is_not_asked_at_once(trial: Trial) -> None:
    job_id = _prepare(trial, check_ms=0)
    for _ in range(3):  # more often than the job has retries
        worker = trial.backend.attend(["q"])
        worker.start(_ask(trial, worker))
        worker.leave()
        assert trial.state(job_id) is State.PREPARED
        assert trial.info(job_id).job.due_ms > trial.clock.now_ms()
        trial.clock.advance(10**6)


def decision_counts_while_the_checker_is_asked(trial: Trial) -> None:
    job_id = _prepare(trial, check_ms=0)
    lease = _ask(trial, trial.attend())
    assert len(trial.backend.decide(job_id, is_commit=True)) == 1
    assert trial.backend.lost([lease]) == {job_id}
    assert trial.refuses(lease, _decided(lease, is_commit=False))
    assert trial.stats().waiting == 1


def checker_that_meets_a_held_key_is_asked_again(trial: Trial) -> None:
    holder = trial.put(key="a", delay_ms=10**9)
    job_id = _prepare(trial, trial.job(key="a"), check_ms=0)
    worker = trial.attend()
    lease = _ask(trial, worker)
    assert isinstance(trial.settle(lease, _decided(lease, is_commit=True)), KeyTaken)
    assert trial.state(job_id) is State.PREPARED
    assert trial.info(job_id).job.due_ms > trial.clock.now_ms(), "not at once"
    assert "KeyTaken" in trial.info(job_id).job.errors[-1].text
    trial.cancel(holder)
    trial.clock.advance(10**6)
    lease = _ask(trial, worker)
    trial.end(lease, _decided(lease, is_commit=True))
    assert trial.by_key("a") is not None


def purge_leaves_transactions_alone(trial: Trial) -> None:
    job_id = _prepare(trial)
    trial.put()
    assert trial.backend.purge("q").gone == 1
    assert trial.state(job_id) is State.PREPARED
    assert trial.cancel(job_id) is None, "by its id it can be withdrawn"
    with raising(JobNotFound):
        trial.backend.decide(job_id, is_commit=True)


def transaction_may_publish(trial: Trial) -> None:
    trial.backend.make_channels(
        [ChannelTerms(topic="orders", channel="a", max_retries=0, timeout_ms=0)]
    )
    message = trial.job(queue="orders:", task="orders:", args=b"m")
    job_id = _prepare(trial, message, trial.job(args=b"1"))
    worker = trial.attend()
    assert trial.reserve(worker, "orders:a", "q") == ()
    trial.backend.decide(job_id, is_commit=True)
    leases = trial.reserve(worker, "orders:a", "q")
    assert [lease.job.args for lease in leases] == [b"m", b"1"]


CHECKS = (
    undecided_jobs_are_not_there,
    commit_puts_all_in_order,
    rollback_puts_nothing,
    only_a_transaction_can_be_decided,
    transaction_whose_key_is_held_stays_undecided,
    commit_follows_on_conflict,
    checker_is_asked_by_one_worker_at_its_time,
    checker_can_roll_back,
    checker_never_fails_for_good,
    checker_whose_worker_left_is_not_asked_at_once,
    decision_counts_while_the_checker_is_asked,
    checker_that_meets_a_held_key_is_asked_again,
    purge_leaves_transactions_alone,
    transaction_may_publish,
)
