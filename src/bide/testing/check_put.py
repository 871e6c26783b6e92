"""Checks of `Backend.put`: ids, batches, keys, and what a job brings back."""

from __future__ import annotations

from bide.errors import BatchTooLarge, KeyTaken
from bide.model.commands import Completed, Dropped, Exhausted, Retried, Returned, Snoozed
from bide.model.job import JobRef, NewJob, State
from bide.model.limits import (
    BATCH_COUNT_MAX,
    BATCH_SIZE_MAX,
    BODY_SIZE_MAX,
    DELAY_MS_MAX,
    KEY_SIZE_MAX,
    PRIORITY_MAX,
    PRIORITY_MIN,
    RETRIES_MAX,
)
from bide.testing.trial import Trial, ids, raising

KEYS = (
    "k",
    " ",
    "\0",
    "\x7f",
    "a\nb",
    "\u00e9",
    "e\u0301",  # another key than the one before, though it looks the same
    "\u4efb\u52a1",
    "\U0001f680" * 63,
    "\uffff",
    "\U0010ffff",
    "x" * KEY_SIZE_MAX,
    "x" * (KEY_SIZE_MAX - 1),
    "\u00df" * (KEY_SIZE_MAX // 2),
)


def ids_ascend(trial: Trial) -> None:
    given = trial.put_all([trial.job(delay_ms=-n) for n in range(5)])
    given += [trial.put(queue="other"), trial.put(priority=9)]
    assert given == sorted(set(given))
    assert given[0] > 0


def ids_are_never_given_again(trial: Trial) -> None:
    first = trial.put()
    assert trial.cancel(first) is None
    assert trial.put() > first


def each_put_is_answered_in_order(trial: Trial) -> None:
    (held,) = trial.put_all([trial.job(key="a")])
    (one, put), (two, skipped), (three, replaced) = trial.outcomes(
        [
            trial.job(),
            trial.job(key="a", on_conflict="skip"),
            trial.job(key="a", on_conflict="replace"),
        ]
    )
    assert (put, skipped, replaced) == ("put", "skipped", "replaced")
    assert two == held
    assert one < three
    assert trial.state(held) is None


def nothing_to_put_is_no_fault(trial: Trial) -> None:
    assert trial.backend.put([]) == ()


def what_was_put_is_what_comes_back(trial: Trial) -> None:
    new = NewJob(
        queue="A-z_0.9",
        task="shop.mail:send",
        args=bytes(range(256)),
        due_ms=trial.clock.now_ms(),
        priority=PRIORITY_MIN,
        key="order-42",
        max_retries=RETRIES_MAX,
        timeout_ms=1,
    )
    (job_id,) = trial.put_all([new])
    worker = trial.attend(new.queue)
    job = trial.reserve_one(worker, new.queue).job
    assert (job.queue, job.task, job.args) == (new.queue, new.task, new.args)
    assert (job.due_ms, job.priority, job.key) == (new.due_ms, new.priority, new.key)
    assert (job.max_retries, job.timeout_ms) == (new.max_retries, new.timeout_ms)
    assert (job.id, job.put_ms, job.attempt) == (job_id, trial.clock.now_ms(), 0)
    assert (job.failed_ms, job.snoozes, job.errors) == (None, 0, ())
    assert trial.info(job_id).job == job


def bodies_of_every_size(trial: Trial) -> None:
    bodies = [b"", b"\0", b"x" * 4096, b"y" * BODY_SIZE_MAX]
    trial.put_all([trial.job(args=body) for body in bodies])
    leases = trial.reserve(trial.attend())
    assert [lease.job.args for lease in leases] == bodies


def extreme_priorities_and_delays(trial: Trial) -> None:
    low, far = trial.put_all(
        [trial.job(priority=PRIORITY_MIN), trial.job(delay_ms=DELAY_MS_MAX, priority=PRIORITY_MAX)]
    )
    worker = trial.attend()
    assert ids(trial.reserve(worker)) == [low]
    assert trial.list_ids(State.SCHEDULED) == [far]
    trial.clock.advance((DELAY_MS_MAX - 1) / 1000)
    assert trial.reserve(worker) == ()
    trial.clock.advance(0.001)
    assert ids(trial.reserve(worker)) == [far]


def each_sync_can_be_asked_for(trial: Trial) -> None:
    for sync in ("always", "interval", "never", None):
        (result,) = trial.backend.put([trial.job()], sync=sync)
        assert trial.state(result.id) is State.READY


def batches_up_to_the_limit(trial: Trial) -> None:
    job = trial.job()
    given = trial.put_all([job] * BATCH_COUNT_MAX)
    assert given == list(range(given[0], given[0] + BATCH_COUNT_MAX))
    assert trial.stats().waiting == BATCH_COUNT_MAX
    with raising(BatchTooLarge) as caught:
        trial.backend.put([job] * (BATCH_COUNT_MAX + 1))
    assert (caught[0].count, caught[0].count_max) == (BATCH_COUNT_MAX + 1, BATCH_COUNT_MAX)
    assert trial.stats().put_total == BATCH_COUNT_MAX


def too_many_bytes_are_refused(trial: Trial) -> None:
    body = bytes(BODY_SIZE_MAX)
    with raising(BatchTooLarge):
        trial.backend.put([trial.job(args=body)] * (BATCH_SIZE_MAX // BODY_SIZE_MAX + 1))
    assert trial.backend.stats().queues == ()


def refused_batch_stores_nothing(trial: Trial) -> None:
    held = trial.put(key="taken")
    before = trial.stats()
    with raising(KeyTaken) as caught:
        trial.backend.put(
            [
                trial.job(),
                trial.job(key="free"),
                trial.job(key="taken", on_conflict="replace"),
                trial.job(key="taken"),
                trial.job(),
            ]
        )
    assert (caught[0].key, caught[0].job_id) == ("taken", held)
    assert trial.stats() == before
    assert trial.list_ids(State.READY) == [held]
    assert trial.by_key("free") is None
    assert trial.put(key="free") > held


def conflicts_inside_one_batch(trial: Trial) -> None:
    with raising(KeyTaken):
        trial.backend.put([trial.job(key="a"), trial.job(key="a")])
    assert trial.by_key("a") is None
    first, skipped, replaced, last = trial.outcomes(
        [
            trial.job(key="a"),
            trial.job(key="a", on_conflict="skip"),
            trial.job(key="a", on_conflict="replace"),
            trial.job(key="a", on_conflict="replace"),
        ]
    )
    assert first[1] == "put"
    assert skipped == (first[0], "skipped")
    assert (replaced[1], last[1]) == ("replaced", "replaced")
    assert trial.by_key("a") == last[0]
    assert trial.list_ids(State.READY) == [last[0]]
    stats = trial.stats()
    assert (stats.put_total, stats.cancelled_total, stats.waiting) == (3, 2, 1)


def two_keys_in_one_batch_do_not_meet(trial: Trial) -> None:
    results = trial.outcomes(
        [
            trial.job(key="a", on_conflict="skip"),
            trial.job(key="b", on_conflict="skip"),
            trial.job(key="a", queue="q2", on_conflict="skip"),
            trial.job(on_conflict="skip"),
            trial.job(on_conflict="replace"),
        ]
    )
    assert [outcome for _, outcome in results] == ["put"] * 5
    assert len({job_id for job_id, _ in results}) == 5


def keys_belong_to_their_queue(trial: Trial) -> None:
    places = [("t", "est"), ("te", "st"), ("tes", "t"), ("test", "t"), ("test", "est")]
    held = {place: trial.put(queue=place[0], key=place[1]) for place in places}
    for (queue, key), job_id in held.items():
        assert trial.by_key(key, queue) == job_id
    assert trial.by_key("t", "t") is None


def keys_in_any_unicode(trial: Trial) -> None:
    held = {key: trial.put(key=key) for key in KEYS}
    assert len(set(held.values())) == len(KEYS)
    for key, job_id in held.items():
        assert trial.by_key(key) == job_id
        assert trial.outcomes([trial.job(key=key, on_conflict="skip")]) == [(job_id, "skipped")]
        assert trial.backend.cancel([JobRef(queue="q", key=key)]) == (None,)
        assert trial.by_key(key) is None


def replace_withdraws_a_waiting_holder(trial: Trial) -> None:
    old = trial.put(key="a", delay_ms=1_000)
    ((new, outcome),) = trial.outcomes([trial.job(key="a", on_conflict="replace")])
    assert outcome == "replaced"
    assert trial.state(old) is None
    assert trial.by_key("a") == new
    assert trial.stats().cancelled_total == 1
    trial.clock.advance(2)
    assert ids(trial.reserve(trial.attend())) == [new]


def running_holder_goes_on_without_its_key(trial: Trial) -> None:
    worker = trial.attend()
    later = trial.clock.now_ms() + 50
    for outcome in (
        Completed(),
        Dropped(),
        Exhausted("no"),
        Returned(),
        Snoozed(later),
        Retried(later, "no"),
    ):
        old = trial.put(key="a")
        lease = trial.reserve_one(worker)
        ((new, said),) = trial.outcomes(
            [trial.job(key="a", on_conflict="replace", delay_ms=1_000_000)]
        )
        assert said == "replaced"
        assert (trial.state(old), trial.by_key("a")) == (State.RUNNING, new)
        assert trial.backend.lost([lease]) == frozenset()
        trial.end(lease, outcome)
        assert trial.by_key("a") == new, f"the successor lost its key to {outcome}"
        survivor = trial.backend.get(JobRef(id=old))
        if survivor is not None:
            assert survivor.job.key is None
            assert trial.cancel(old) is None
        assert trial.by_key("a") == new
        assert trial.cancel(new) is None
        assert trial.by_key("a") is None


CHECKS = (
    ids_ascend,
    ids_are_never_given_again,
    each_put_is_answered_in_order,
    nothing_to_put_is_no_fault,
    what_was_put_is_what_comes_back,
    bodies_of_every_size,
    extreme_priorities_and_delays,
    each_sync_can_be_asked_for,
    batches_up_to_the_limit,
    too_many_bytes_are_refused,
    refused_batch_stores_nothing,
    conflicts_inside_one_batch,
    two_keys_in_one_batch_do_not_meet,
    keys_belong_to_their_queue,
    keys_in_any_unicode,
    replace_withdraws_a_waiting_holder,
    running_holder_goes_on_without_its_key,
)
