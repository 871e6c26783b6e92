"""Checks of cancel, move and kick in each state, and of when a key is free."""

from __future__ import annotations

from collections.abc import Callable

from bide.errors import BatchTooLarge, JobNotFound, KeyTaken, WrongState
from bide.model.commands import Change, Completed, Dropped, Exhausted, Retried, Returned, Snoozed
from bide.model.job import JobId, JobRef, State
from bide.model.limits import BATCH_COUNT_MAX
from bide.testing.trial import Trial, ids, raising

NOBODY = JobId(10**9)


def _in_each_state(trial: Trial) -> dict[State, JobId]:
    """One job in each state, and a worker that holds the running one."""
    worker = trial.attend()
    failed = trial.put(priority=9)
    trial.end(trial.reserve_one(worker), Exhausted("no"))
    running = trial.put(priority=9)
    trial.reserve_one(worker)
    return {
        State.SCHEDULED: trial.put(delay_ms=60_000),
        State.READY: trial.put(),
        State.RUNNING: running,
        State.FAILED: failed,
    }


def cancel_works_in_every_state(trial: Trial) -> None:
    jobs = _in_each_state(trial)
    for count, (state, job_id) in enumerate(jobs.items(), start=1):
        assert trial.state(job_id) is state
        assert trial.cancel(job_id) is None
        assert trial.state(job_id) is None
        assert trial.list_ids(state) == []
        assert trial.stats().cancelled_total == count
        assert isinstance(trial.cancel(job_id), JobNotFound)
    stats = trial.stats()
    assert (stats.waiting, stats.ready, stats.running, stats.failed) == (0, 0, 0, 0)
    trial.clock.advance(100)
    assert trial.reserve(trial.attend()) == ()


def cancel_answers_for_each_by_itself(trial: Trial) -> None:
    job_id = trial.put(key="a")
    by_id, by_key = JobRef(id=job_id), JobRef(queue="q", key="a")
    nobody, no_key = JobRef(id=NOBODY), JobRef(queue="q", key="b")
    answers = trial.backend.cancel([nobody, by_key, by_id, no_key, by_key])
    assert [answer is None for answer in answers] == [False, True, False, False, False]
    assert all(isinstance(answer, JobNotFound) for answer in answers if answer is not None)
    assert trial.stats().cancelled_total == 1
    assert trial.backend.cancel([]) == ()


def cancelled_run_is_lost(trial: Trial) -> None:
    trial.put_all([trial.job()] * 3)
    worker = trial.attend()
    leases = trial.reserve(worker)
    assert trial.backend.lost(leases) == frozenset()
    assert trial.backend.lost([]) == frozenset()
    cancelled, returned, running = leases
    assert trial.cancel(cancelled.job.id) is None
    trial.end(returned, Returned())
    assert trial.backend.lost(leases) == {cancelled.job.id, returned.job.id}
    assert trial.backend.lost([running]) == frozenset()


def lease_that_another_holds_is_lost(trial: Trial) -> None:
    trial.put()
    one, other = trial.attend(), trial.attend()
    first = trial.reserve_one(one)
    trial.end(first, Retried(trial.clock.now_ms(), "no"))
    second = trial.reserve_one(one)
    assert trial.backend.lost([first]) == {first.job.id}, "an earlier attempt's lease is over"
    trial.end(second, Returned())
    trial.reserve_one(other)
    assert trial.backend.lost([second]) == {second.job.id}


def move_changes_due_and_priority(trial: Trial) -> None:
    first, second, third = trial.put_all([trial.job()] * 3)
    now_ms = trial.clock.now_ms()
    assert trial.move(third, priority=5) is None
    assert trial.move(first, due_ms=now_ms + 1_000) is None
    assert trial.list_ids(State.READY) == [third, second]
    assert trial.list_ids(State.SCHEDULED) == [first]
    job = trial.info(first).job
    assert (job.due_ms, job.priority) == (now_ms + 1_000, 0)
    assert trial.move(first, due_ms=now_ms - 1, priority=0) is None
    worker = trial.attend()
    assert ids(trial.reserve(worker)) == [third, first, second]


def moved_job_is_not_early(trial: Trial) -> None:
    job_id = trial.put(delay_ms=10)
    assert trial.move(job_id, due_ms=trial.clock.now_ms() + 1_000) is None
    worker = trial.attend()
    assert trial.backend.tick(["q"]) == trial.clock.now_ms() + 1_000
    trial.clock.advance(0.999)
    assert trial.reserve(worker) == ()
    trial.clock.advance(0.001)
    assert ids(trial.reserve(worker)) == [job_id]


def moving_nowhere_changes_nothing(trial: Trial) -> None:
    job_id = trial.put(key="a")
    before = trial.info(job_id), trial.stats()
    same = Change(JobRef(id=job_id), trial.clock.now_ms(), 0)
    assert trial.backend.move([Change(JobRef(id=job_id)), same]) == (None, None)
    assert (trial.info(job_id), trial.stats()) == before


def moving_one_job_twice_in_a_call(trial: Trial) -> None:
    job_id = trial.put(key="a")
    by_id, by_key = JobRef(id=job_id), JobRef(queue="q", key="a")
    changes = [Change(by_id, priority=3), Change(by_key, due_ms=trial.clock.now_ms() + 5)]
    assert trial.backend.move(changes) == (None, None)
    job = trial.info(job_id).job
    assert (job.priority, job.due_ms) == (3, trial.clock.now_ms() + 5)
    assert trial.by_key("a") == job_id
    assert trial.stats().waiting == 1


def move_is_for_waiting_jobs_only(trial: Trial) -> None:
    jobs = _in_each_state(trial)
    for state, job_id in jobs.items():
        before = trial.info(job_id)
        answer = trial.move(job_id, priority=7)
        if state in {State.RUNNING, State.FAILED}:
            assert isinstance(answer, WrongState)
            assert answer.job_id == job_id
            assert trial.info(job_id) == before
        else:
            assert answer is None
            assert trial.info(job_id).job.priority == 7
    assert isinstance(trial.move(NOBODY, priority=1), JobNotFound)


def kick_makes_a_waiting_job_due(trial: Trial) -> None:
    far, ready = trial.put(delay_ms=10**9), trial.put(delay_ms=-5)
    assert trial.kick(far) is None
    assert trial.info(far).job.due_ms == trial.clock.now_ms()
    before = trial.info(ready)
    assert trial.kick(ready) is None
    assert trial.info(ready) == before, "one that is due keeps its place"
    assert ids(trial.reserve(trial.attend())) == [ready, far]


def kick_is_refused_while_running(trial: Trial) -> None:
    running = _in_each_state(trial)[State.RUNNING]
    answer = trial.kick(running)
    assert isinstance(answer, WrongState)
    assert answer.job_id == running
    assert trial.state(running) is State.RUNNING
    assert isinstance(trial.kick(NOBODY), JobNotFound)


def kicked_failure_starts_anew(trial: Trial) -> None:
    job_id = trial.put(max_retries=1)
    worker = trial.attend()
    for _ in range(2):
        trial.end(trial.reserve_one(worker), Retried(trial.clock.now_ms(), "no"))
    assert trial.state(job_id) is State.FAILED
    trial.clock.advance(60)
    assert trial.kick(job_id) is None
    job = trial.info(job_id).job
    assert (job.attempt, job.failed_ms, job.due_ms) == (0, None, trial.clock.now_ms())
    assert [error.attempt for error in job.errors] == [1, 2], "what went wrong is still known"
    stats = trial.stats()
    assert (stats.failed, stats.waiting, stats.failed_total) == (0, 1, 1)
    attempts: list[int] = []
    while leases := trial.reserve(worker):
        attempts.append(leases[0].attempt)
        trial.end(leases[0], Retried(trial.clock.now_ms(), "no"))
    assert attempts == [1, 2]
    assert trial.stats().failed_total == 2


def kick_answers_for_each_by_itself(trial: Trial) -> None:
    jobs = _in_each_state(trial)
    refs = [JobRef(id=job_id) for job_id in (NOBODY, *jobs.values())]
    answers = trial.backend.kick(refs)
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == ["JobNotFound", "NoneType", "NoneType", "WrongState", "NoneType"]
    assert trial.stats().ready == 3


def key_is_held_while_the_job_lives(trial: Trial) -> None:
    worker = trial.attend()
    job_id = trial.put(key="a", delay_ms=1_000)

    def is_held() -> bool:
        with raising(KeyTaken) as caught:
            trial.put(key="a")
        assert caught[0].job_id == job_id
        return trial.by_key("a") == job_id

    assert is_held()
    trial.clock.advance(1)
    assert is_held()
    for outcome in (Returned(), Snoozed(0), Retried(0, "no")):
        lease = trial.reserve_one(worker)
        assert is_held()
        trial.end(lease, outcome)
        assert is_held()
    assert trial.move(job_id, priority=3) is None
    assert is_held()
    assert trial.kick(job_id) is None
    assert is_held()


def key_is_free_after_every_end(trial: Trial) -> None:
    worker = trial.attend()

    def cancel() -> None:
        assert trial.cancel(trial.put(key="a")) is None

    def cancel_running() -> None:
        job_id = trial.put(key="a")
        trial.reserve_one(worker)
        assert trial.cancel(job_id) is None

    def complete() -> None:
        trial.put(key="a")
        trial.end(trial.reserve_one(worker), Completed())

    def drop() -> None:
        trial.put(key="a")
        trial.end(trial.reserve_one(worker), Dropped())

    def exhaust() -> None:
        trial.put(key="a")
        trial.end(trial.reserve_one(worker), Exhausted("no"))

    def fail() -> None:
        trial.put(key="a", max_retries=0)
        trial.end(trial.reserve_one(worker), Retried(0, "no"))

    ends: list[Callable[[], None]] = [cancel, cancel_running, complete, drop, exhaust, fail]
    for end in ends:
        end()
        assert trial.by_key("a") is None, f"still held after {end.__name__}"
    assert trial.stats().failed == 2


def _failed_with_key(trial: Trial) -> JobId:
    job_id = trial.put(key="a")
    trial.end(trial.reserve_one(trial.attend()), Exhausted("no"))
    return job_id


def kicked_failure_takes_its_key_again(trial: Trial) -> None:
    job_id = _failed_with_key(trial)
    assert trial.kick(job_id) is None
    assert trial.by_key("a") == job_id
    assert trial.info(job_id).job.key == "a"


def kicked_failure_leaves_a_successor_its_key(trial: Trial) -> None:
    job_id = _failed_with_key(trial)
    successor = trial.put(key="a", delay_ms=1_000)
    assert trial.kick(job_id) is None
    assert trial.info(job_id).job.key is None
    assert trial.by_key("a") == successor
    trial.end(trial.reserve_one(trial.attend()), Completed())
    assert trial.by_key("a") == successor


def cancelled_failure_leaves_a_successor_its_key(trial: Trial) -> None:
    job_id = _failed_with_key(trial)
    successor = trial.put(key="a")
    assert trial.cancel(job_id) is None
    assert trial.by_key("a") == successor


def batches_of_changes_have_a_limit(trial: Trial) -> None:
    job_id = trial.put()
    ref = JobRef(id=job_id)
    refs = [ref] * (BATCH_COUNT_MAX + 1)
    with raising(BatchTooLarge):
        trial.backend.cancel(refs)
    with raising(BatchTooLarge):
        trial.backend.kick(refs)
    with raising(BatchTooLarge):
        trial.backend.move([Change(ref, priority=1)] * len(refs))
    assert trial.info(job_id).job.priority == 0


CHECKS = (
    cancel_works_in_every_state,
    cancel_answers_for_each_by_itself,
    cancelled_run_is_lost,
    lease_that_another_holds_is_lost,
    move_changes_due_and_priority,
    moved_job_is_not_early,
    moving_nowhere_changes_nothing,
    moving_one_job_twice_in_a_call,
    move_is_for_waiting_jobs_only,
    kick_makes_a_waiting_job_due,
    kick_is_refused_while_running,
    kicked_failure_starts_anew,
    kick_answers_for_each_by_itself,
    key_is_held_while_the_job_lives,
    key_is_free_after_every_end,
    kicked_failure_takes_its_key_again,
    kicked_failure_leaves_a_successor_its_key,
    cancelled_failure_leaves_a_successor_its_key,
    batches_of_changes_have_a_limit,
)
