"""Checks of queues as a whole: pause and resume, purge."""

from __future__ import annotations

from bide.errors import UnknownQueue
from bide.model.commands import Completed, Exhausted, Retried
from bide.model.job import JobId, State
from bide.testing.trial import Trial, ids, raising


def paused_queue_is_not_reserved_from(trial: Trial) -> None:
    job_id = trial.put()
    other = trial.put(queue="other")
    worker = trial.attend()
    trial.backend.pause("q")
    assert ids(trial.reserve(worker, "q", "other")) == [other]
    assert trial.state(job_id) is State.READY
    trial.backend.pause("q")  # once more changes nothing
    assert trial.reserve(worker) == ()
    trial.backend.resume("q")
    assert ids(trial.reserve(worker)) == [job_id]


def paused_queue_is_not_next_due(trial: Trial) -> None:
    tick, now_ms = trial.backend.tick, trial.clock.now_ms()
    trial.put()
    trial.put(queue="other", delay_ms=70)
    trial.backend.pause("q")
    assert tick(["q"]) is None
    assert tick(["q", "other"]) == now_ms + 70
    trial.backend.resume("q")
    assert tick(["q", "other"]) == now_ms


def job_that_runs_goes_on_in_a_paused_queue(trial: Trial) -> None:
    trial.put_all([trial.job()] * 2)
    worker = trial.attend()
    done, again = trial.reserve(worker)
    trial.backend.pause("q")
    assert trial.backend.lost([done, again]) == frozenset()
    trial.end(done, Completed())
    trial.end(again, Retried(trial.clock.now_ms(), "no"))
    assert trial.reserve(worker) == ()
    trial.backend.resume("q")
    assert ids(trial.reserve(worker)) == [again.job.id]


def paused_queue_takes_puts_and_changes(trial: Trial) -> None:
    trial.backend.pause("q")
    job_id = trial.put(delay_ms=1_000, key="a")
    assert trial.move(job_id, priority=3) is None
    assert trial.kick(job_id) is None
    assert trial.state(job_id) is State.READY
    assert trial.cancel(job_id) is None


def stats_show_what_is_paused(trial: Trial) -> None:
    trial.put()
    trial.backend.pause("q")
    trial.backend.pause("never-used")
    assert (trial.stats("q").paused, trial.stats("never-used").paused) == (True, True)
    assert trial.stats("never-used").waiting == 0
    trial.backend.resume("q")
    assert (trial.stats("q").paused, trial.stats("never-used").paused) == (False, True)


def channel_that_is_not_there_cannot_be_paused(trial: Trial) -> None:
    with raising(UnknownQueue) as caught:
        trial.backend.pause("topic:channel")
    assert caught[0].queue == "topic:channel"
    with raising(UnknownQueue):
        trial.backend.resume("topic:channel")


def _purge(trial: Trial, **options: object) -> int:
    """Purge queue "q" to the end, in steps of two; how many went."""
    gone, after = 0, None
    while True:
        step = trial.backend.purge("q", limit=2, after=after, **options)  # type: ignore[arg-type]
        assert step.gone <= 2
        gone, after = gone + step.gone, step.after
        if after is None:
            return gone


def purge_takes_what_waits_and_what_has_failed(trial: Trial) -> None:
    worker = trial.attend()
    for _ in range(3):
        trial.put(priority=9)
        trial.end(trial.reserve_one(worker), Exhausted("no"))
    trial.put(priority=9, key="running")
    running = trial.reserve_one(worker)
    places = ((0, 0), (5, 10**9), (-5, -7), (0, 50), (0, 50))
    for number, (priority, delay_ms) in enumerate(places):
        trial.put(priority=priority, delay_ms=delay_ms, key=str(number))
    kept = trial.put(queue="q2", key="a")
    assert _purge(trial) == 8
    stats = trial.stats()
    assert (stats.waiting, stats.failed, stats.running, stats.cancelled_total) == (0, 0, 1, 8)
    assert trial.by_key("0") is None
    assert trial.by_key("running") == running.job.id
    assert trial.state(kept) is State.READY
    trial.end(running, Completed())
    assert _purge(trial) == 0
    assert trial.backend.purge("never-used").after is None


def purge_tells_what_is_left(trial: Trial) -> None:
    trial.put_all([trial.job()] * 5)
    step = trial.backend.purge("q", limit=3)
    assert (step.gone, step.left) == (3, 2)
    assert step.after is not None
    step = trial.backend.purge("q", limit=3, after=step.after)
    assert (step.gone, step.left, step.after) == (2, 0, None)


def purge_frees_keys(trial: Trial) -> None:
    trial.put(key="a")
    _purge(trial)
    assert trial.by_key("a") is None
    again = trial.put(key="a")
    assert trial.by_key("a") == again


def _six(trial: Trial) -> list[JobId]:
    """Jobs of mixed priorities, by due time and then id."""
    late, first, second, third, early, last = trial.put_all(
        [
            trial.job(delay_ms=delay_ms, priority=priority)
            for delay_ms, priority in ((40, 9), (20, -9), (20, 9), (20, 0), (10, -3), (50, 1))
        ]
    )
    return [early, first, second, third, late, last]


def purge_until_leaves_the_named_job(trial: Trial) -> None:
    order = _six(trial)
    now_ms = trial.clock.now_ms()
    assert _purge(trial, until=(now_ms + 20, order[2])) == 2
    assert [job_id for job_id in order if trial.state(job_id)] == order[2:]
    assert _purge(trial, until=(now_ms + 20, order[2])) == 0
    assert _purge(trial, until=(now_ms + 50, order[5])) == 3
    assert [job_id for job_id in order if trial.state(job_id)] == [order[5]]


def purge_until_looks_at_a_failed_job_by_its_due_time(trial: Trial) -> None:
    worker = trial.attend()
    now_ms = trial.clock.now_ms()
    early, late = trial.put(delay_ms=-20), trial.put(delay_ms=-10)
    for _ in range(2):
        trial.end(trial.reserve_one(worker), Exhausted("no"))
    assert _purge(trial, until=(now_ms - 10, late)) == 1
    assert (trial.state(early), trial.state(late)) == (None, State.FAILED)


def purge_below_an_id_leaves_what_came_later(trial: Trial) -> None:
    order = _six(trial)
    newer = trial.put(delay_ms=-1_000)  # due before all of them
    assert _purge(trial, below_id=newer) == 6
    assert [job_id for job_id in [*order, newer] if trial.state(job_id)] == [newer]
    assert _purge(trial, below_id=newer, until=(trial.clock.now_ms() + 99, 1)) == 0


CHECKS = (
    paused_queue_is_not_reserved_from,
    paused_queue_is_not_next_due,
    job_that_runs_goes_on_in_a_paused_queue,
    paused_queue_takes_puts_and_changes,
    stats_show_what_is_paused,
    channel_that_is_not_there_cannot_be_paused,
    purge_takes_what_waits_and_what_has_failed,
    purge_tells_what_is_left,
    purge_frees_keys,
    purge_until_leaves_the_named_job,
    purge_until_looks_at_a_failed_job_by_its_due_time,
    purge_below_an_id_leaves_what_came_later,
)
