"""Checks of what can be seen: get, list, stats, and tick's answer."""

from __future__ import annotations

from bide.model.commands import (
    Completed,
    Dropped,
    Exhausted,
    Outcome,
    Retried,
    Returned,
    Snoozed,
)
from bide.model.job import JobId, JobRef, State
from bide.testing.trial import Trial

PAGE_SIZES = (1, 2, 3, 7, 1_000)


def get_shows_each_state(trial: Trial) -> None:
    worker = trial.attend()
    job_id = trial.put(key="a", delay_ms=5)
    assert trial.info(job_id).state is State.SCHEDULED
    trial.clock.advance(0.005)
    assert trial.info(job_id).state is State.READY
    lease = trial.reserve_one(worker)
    info = trial.backend.get(JobRef(queue="q", key="a"))
    assert info is not None
    assert info.state is State.RUNNING
    assert info.owner is not None
    assert info.owner.id == worker.owner
    trial.end(lease, Exhausted("no"))
    info = trial.info(job_id)
    assert (info.state, info.owner) == (State.FAILED, None)


def get_finds_nothing_where_nothing_is(trial: Trial) -> None:
    assert trial.backend.get(JobRef(id=JobId(1))) is None
    assert trial.backend.get(JobRef(queue="q", key="a")) is None


def _assert_pages(trial: Trial, state: State, expected: dict[str, list[JobId]]) -> None:
    """Whatever the size of a page, the pages hold each job once, in order."""
    together = [job_id for queue in sorted(expected) for job_id in expected[queue]]
    for size in PAGE_SIZES:
        assert trial.list_ids(state, limit=size) == together, f"{state} by {size}"
        for queue, one in expected.items():
            assert trial.list_ids(state, queue=queue, limit=size) == one
    assert trial.list_ids(state, queue="never-used") == []


def waiting_jobs_are_listed_in_order_of_service(trial: Trial) -> None:
    ready: dict[str, list[JobId]] = {}
    scheduled: dict[str, list[JobId]] = {}
    for queue in ("test2", "test", "a"):
        low, late, early, high, far = trial.put_all(
            [
                trial.job(queue=queue, priority=-1, delay_ms=-50),
                trial.job(queue=queue, delay_ms=0),
                trial.job(queue=queue, delay_ms=-1),
                trial.job(queue=queue, priority=1),
                trial.job(queue=queue, priority=1, delay_ms=1),
            ]
        )
        near, same, later = trial.put_all(
            [trial.job(queue=queue, delay_ms=delay) for delay in (1, 1, 2)]
        )
        ready[queue] = [high, early, late, low]
        scheduled[queue] = [far, near, same, later]
    _assert_pages(trial, State.READY, ready)
    _assert_pages(trial, State.SCHEDULED, scheduled)
    _assert_pages(trial, State.RUNNING, {"a": [], "test": [], "test2": []})
    _assert_pages(trial, State.FAILED, {"a": [], "test": [], "test2": []})


def running_jobs_are_listed_once(trial: Trial) -> None:
    workers = [trial.attend("a", "b") for _ in range(3)]
    running: dict[str, list[JobId]] = {"a": [], "b": []}
    for worker in workers:
        for queue in ("a", "b", "a", "a"):
            job_id = trial.put(queue=queue)
            assert trial.reserve_one(worker, queue).job.id == job_id
            running[queue].append(job_id)
    _assert_pages(trial, State.RUNNING, running)


def failed_jobs_are_listed_oldest_failure_first(trial: Trial) -> None:
    worker = trial.attend("a", "b")
    failed: dict[str, list[JobId]] = {"a": [], "b": []}
    for queue in ("a", "b"):
        trial.put_all([trial.job(queue=queue)] * 6)
        leases = trial.reserve(worker, queue)
        for index in (3, 0, 5):
            trial.end(leases[index], Exhausted("no"))
            failed[queue].append(leases[index].job.id)
            trial.clock.advance(0.001)
        for index in (1, 2, 4):  # in one moment: by id
            trial.end(leases[index], Exhausted("no"))
            failed[queue].append(leases[index].job.id)
    _assert_pages(trial, State.FAILED, failed)


def page_goes_on_where_it_was_though_jobs_come_and_go(trial: Trial) -> None:
    first, second, third = trial.put_all([trial.job()] * 3)
    page = trial.backend.list(queue="q", state=State.READY, limit=1)
    assert [info.job.id for info in page.jobs] == [first]
    trial.cancel(first)
    trial.put(priority=1)
    rest = trial.backend.list(queue="q", state=State.READY, limit=10, after=page.next)
    assert [info.job.id for info in rest.jobs] == [second, third]
    assert rest.next is None


def counters_tell_what_happened(trial: Trial) -> None:
    worker = trial.attend()
    later = trial.clock.now_ms() + 1_000
    outcomes: list[Outcome] = [
        Completed(),
        Completed(),
        Dropped(),
        Exhausted("no"),
        Returned(),
        Snoozed(later),
        Retried(later, "no"),
    ]
    for outcome in outcomes:
        trial.put(priority=1)
        trial.end(trial.reserve_one(worker), outcome)
    trial.put(max_retries=0, priority=2)
    trial.end(trial.reserve_one(worker), Retried(later, "no"))
    trial.put(priority=3)
    trial.reserve_one(worker)
    trial.cancel(trial.put(key="a"))
    trial.put(key="b")
    trial.outcomes([trial.job(key="b", on_conflict="skip")])
    trial.outcomes([trial.job(key="b", on_conflict="replace")])
    stats = trial.stats()
    assert (stats.waiting, stats.ready, stats.running, stats.failed) == (4, 2, 1, 2)
    assert (stats.put_total, stats.succeeded_total, stats.failed_total) == (12, 2, 2)
    assert (stats.cancelled_total, stats.rescheduled_total) == (3, 2)
    assert stats.put_total == (
        stats.succeeded_total + stats.cancelled_total + stats.waiting + stats.running + stats.failed
    )


def returned_run_counts_as_nothing(trial: Trial) -> None:
    worker = trial.attend()
    trial.put(key="a")
    lease = trial.reserve_one(worker)
    trial.put(key="a", on_conflict="replace", delay_ms=1_000)  # the returned one has lost its key
    trial.end(lease, Returned())
    stats = trial.stats()
    assert (stats.put_total, stats.waiting) == (2, 2)
    assert (stats.rescheduled_total, stats.failed_total, stats.cancelled_total) == (0, 0, 0)


def stats_know_each_queue(trial: Trial) -> None:
    assert trial.backend.stats().queues == ()
    now_ms = trial.clock.now_ms()
    trial.put(queue="b", delay_ms=50)
    trial.put(queue="b", delay_ms=20, priority=-5)
    trial.put(queue="a", delay_ms=-7)
    stats = trial.backend.stats()
    assert stats.now_ms == now_ms
    found = [(s.queue, s.waiting, s.ready, s.next_due_ms) for s in stats.queues]
    assert found == [("a", 1, 1, now_ms - 7), ("b", 2, 0, now_ms + 20)]
    trial.reserve_one(trial.attend(), "a")
    assert trial.stats("a").next_due_ms is None


def tick_tells_the_next_due_time(trial: Trial) -> None:
    tick, now_ms = trial.backend.tick, trial.clock.now_ms()
    assert tick(["q"]) is None
    assert tick([]) is None
    far = trial.put(delay_ms=1_000, priority=9)
    assert tick(["q"]) == now_ms + 1_000
    trial.put(delay_ms=500, priority=-9)
    trial.put(queue="other", delay_ms=20)
    assert tick(["q"]) == now_ms + 500
    assert tick(["q", "other"]) == now_ms + 20
    past = trial.put(delay_ms=-3)
    assert tick(["q", "other"]) == now_ms - 3
    worker = trial.attend()
    lease = trial.reserve_one(worker)
    assert lease.job.id == past
    assert tick(["q"]) == now_ms + 500
    trial.end(lease, Retried(now_ms + 7, "no"))
    assert tick(["q"]) == now_ms + 7
    trial.cancel(past)
    trial.move(far, due_ms=now_ms + 2)
    assert tick(["q"]) == now_ms + 2


CHECKS = (
    get_shows_each_state,
    get_finds_nothing_where_nothing_is,
    waiting_jobs_are_listed_in_order_of_service,
    running_jobs_are_listed_once,
    failed_jobs_are_listed_oldest_failure_first,
    page_goes_on_where_it_was_though_jobs_come_and_go,
    counters_tell_what_happened,
    returned_run_counts_as_nothing,
    stats_know_each_queue,
    tick_tells_the_next_due_time,
)
