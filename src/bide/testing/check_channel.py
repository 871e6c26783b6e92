"""Checks of topics: who gets a message, when, and what becomes of a channel."""

from __future__ import annotations

from bide.errors import KeyTaken, UnknownQueue
from bide.model.commands import Completed, Exhausted, Retried
from bide.model.job import JobId, State
from bide.model.limits import SPREAD_COPIES_MAX
from bide.model.queue import ChannelTerms
from bide.testing.trial import Trial, ids, raising

A, B = "orders:a", "orders:b"


def _make(trial: Trial, channel: str = "a", topic: str = "orders", **terms: int) -> bool:
    return trial.backend.make_channels([_terms(channel, topic, **terms)])


def _terms(
    channel: str, topic: str = "orders", *, max_retries: int = 3, timeout_ms: int = 7_000
) -> ChannelTerms:
    return ChannelTerms(
        topic=topic, channel=channel, max_retries=max_retries, timeout_ms=timeout_ms
    )


def _publish(trial: Trial, args: bytes = b"m", **options: object) -> JobId:
    return trial.put(queue="orders:", task="orders:", args=args, **options)


def _received(trial: Trial, queue: str) -> list[bytes]:
    """What a worker of *queue* gets now; it is completed."""
    worker = trial.attend(queue)
    leases = trial.reserve(worker, queue)
    for lease in leases:
        trial.end(lease, Completed())
    return [lease.job.args for lease in leases]


def _drop(trial: Trial, channel: str = "a") -> int:
    step = trial.backend.drop_channel("orders", channel)
    gone = step.gone
    while step.after is not None:
        step = trial.backend.drop_channel("orders", channel, is_begun=step.after != ())
        gone += step.gone
    return gone


def _names(trial: Trial) -> list[str]:
    return [f"{info.topic}:{info.channel}" for info in trial.backend.channels()]


def message_is_copied_to_each_channel(trial: Trial) -> None:
    assert _make(trial, "a")
    assert _make(trial, "b", max_retries=0, timeout_ms=0)
    message = _publish(trial, priority=4, key="k")
    assert trial.state(message) is State.READY
    one, other = trial.attend(A), trial.attend(B)
    (first,), (second,) = trial.reserve(one, A), trial.reserve(other, B)
    assert len({message, first.job.id, second.job.id}) == 3
    for lease, queue, terms in ((first, A, (3, 7_000)), (second, B, (0, 0))):
        job = lease.job
        assert (job.queue, job.task, job.args, job.key) == (queue, queue, b"m", None)
        assert (job.due_ms, job.priority) == (trial.clock.now_ms(), 4)
        assert (job.max_retries, job.timeout_ms) == terms
    assert trial.state(message) is None
    assert trial.by_key("k", "orders:") is None
    assert trial.reserve(one, A) == ()


def channels_do_not_see_one_another(trial: Trial) -> None:
    _make(trial, "a"), _make(trial, "b")
    _publish(trial)
    worker = trial.attend(A)
    trial.end(trial.reserve_one(worker, A), Retried(trial.clock.now_ms() + 1_000, "no"))
    assert _received(trial, B) == [b"m"]
    assert _received(trial, B) == []
    trial.clock.advance(1)
    again = trial.reserve_one(worker, A)
    assert again.attempt == 2
    trial.end(again, Exhausted("no"))
    assert (trial.stats(A).failed, trial.stats(B).failed) == (1, 0)


def names_that_start_alike_are_not_mixed(trial: Trial) -> None:
    _make(trial, "a"), _make(trial, "aa"), _make(trial, "a", topic="order")
    _publish(trial)
    assert _received(trial, "order:a") == []
    assert _received(trial, "orders:aa") == [b"m"]
    assert _received(trial, A) == [b"m"]


def message_waits_for_its_time(trial: Trial) -> None:
    _make(trial)
    message = _publish(trial, delay_ms=500)
    due_ms = trial.clock.now_ms() + 500
    worker = trial.attend(A)
    assert trial.backend.tick([A]) == due_ms
    assert trial.reserve(worker, A) == ()
    trial.clock.advance(0.499)
    assert trial.backend.tick([A]) == due_ms
    assert trial.reserve(worker, A) == ()
    assert trial.state(message) is State.SCHEDULED
    trial.clock.advance(0.001)
    assert ids(trial.reserve(worker, A)) != [message]
    assert trial.state(message) is None


def message_can_be_moved_and_cancelled(trial: Trial) -> None:
    _make(trial)
    moved, gone = _publish(trial, b"1", delay_ms=10**6), _publish(trial, b"2")
    assert trial.cancel(gone) is None
    assert trial.move(moved, due_ms=trial.clock.now_ms()) is None
    assert _received(trial, A) == [b"1"]


def key_of_a_message_holds_until_its_time(trial: Trial) -> None:
    _make(trial)
    _publish(trial, key="k", delay_ms=5)
    with raising(KeyTaken):
        _publish(trial, key="k")
    trial.clock.advance(0.005)
    assert trial.backend.tick([A]) == trial.clock.now_ms()
    _publish(trial, key="k")


def channels_made_by_the_due_time_get_it(trial: Trial) -> None:
    _make(trial, "a")
    _publish(trial, delay_ms=1_000)
    trial.clock.advance(1)
    _make(trial, "b")  # at the very moment
    trial.clock.advance(0.001)
    _make(trial, "late")
    assert _received(trial, "orders:late") == []
    assert _received(trial, A) == [b"m"]
    assert _received(trial, B) == [b"m"]


def late_copying_changes_nothing(trial: Trial) -> None:
    _make(trial, "a")
    _publish(trial)
    trial.clock.advance(100)
    _make(trial, "b")
    assert _received(trial, B) == []
    assert _received(trial, A) == [b"m"]


def message_without_a_channel_waits_for_the_first(trial: Trial) -> None:
    message = _publish(trial)
    trial.clock.advance(100)
    assert trial.backend.tick([A]) is None, "nobody can take it"
    assert trial.state(message) is State.READY
    _make(trial, "b")
    trial.clock.advance(1)
    _make(trial, "a")
    assert _received(trial, A) == []
    assert _received(trial, B) == [b"m"]


def channels_made_together_are_first_together(trial: Trial) -> None:
    _publish(trial)
    trial.clock.advance(100)
    assert trial.backend.make_channels([_terms("a"), _terms("b")])
    _make(trial, "c")
    assert _received(trial, "orders:c") == []
    assert (_received(trial, A), _received(trial, B)) == ([b"m"], [b"m"])


def clock_set_back_loses_no_copy(trial: Trial) -> None:
    _make(trial, "a")
    trial.put()
    _make(trial, "b")
    trial.clock.set_ms(trial.clock.now_ms() - 3_600_000)
    _publish(trial)
    assert (_received(trial, A), _received(trial, B)) == ([b"m"], [b"m"])


def copies_are_in_order_of_service(trial: Trial) -> None:
    _make(trial)
    _publish(trial, b"2"), _publish(trial, b"3"), _publish(trial, b"1", priority=1)
    assert _received(trial, A) == [b"1", b"2", b"3"]


def many_messages_are_copied_in_steps(trial: Trial) -> None:
    _make(trial, "a"), _make(trial, "b"), _make(trial, "c")
    count = SPREAD_COPIES_MAX
    trial.put_all([trial.job(queue="orders:", task="orders:")] * count)
    worker = trial.attend(A)
    first = len(trial.reserve(worker, A))
    assert first == SPREAD_COPIES_MAX // 3, "one step, whole messages"
    while trial.stats("orders:").waiting:
        trial.backend.tick([])
    assert [trial.stats(queue).put_total for queue in (A, B, "orders:c")] == [count] * 3


def tick_copies_for_channels_that_nobody_serves(trial: Trial) -> None:
    _make(trial)
    _publish(trial)
    assert trial.backend.tick(["q"]) is None
    assert (trial.stats(A).waiting, trial.stats("orders:").waiting) == (1, 0)
    assert trial.stats("orders:").succeeded_total == 1


def paused_channel_gets_copies_and_gives_none(trial: Trial) -> None:
    _make(trial, "a"), _make(trial, "b")
    trial.backend.pause(A)
    later = _publish(trial, delay_ms=1_000)
    assert trial.backend.tick([A]) is None, "nothing of its topic is next for it"
    assert trial.backend.tick([A, B]) == trial.clock.now_ms() + 1_000
    trial.cancel(later)
    _publish(trial)
    assert trial.backend.tick([A]) is None
    worker = trial.attend(A)
    assert trial.reserve(worker, A) == ()
    assert _received(trial, B) == [b"m"]
    paused = {info.channel: info.paused for info in trial.backend.channels()}
    assert paused == {"a": True, "b": False}
    trial.backend.resume(A)
    assert _received(trial, A) == [b"m"]


def terms_hold_for_copies_to_come(trial: Trial) -> None:
    assert _make(trial)
    assert not _make(trial), "as it was"
    made_ms = trial.backend.channels()[0].made_ms
    _publish(trial)
    trial.backend.tick([])
    trial.clock.advance(1)
    assert _make(trial, max_retries=9, timeout_ms=1)
    (info,) = trial.backend.channels()
    assert (info.max_retries, info.timeout_ms, info.made_ms) == (9, 1, made_ms)
    _publish(trial)
    worker = trial.attend(A)
    jobs = [lease.job for lease in trial.reserve(worker, A)]
    assert [(job.max_retries, job.timeout_ms) for job in jobs] == [(3, 7_000), (9, 1)]


def channels_are_listed_with_what_is_in_them(trial: Trial) -> None:
    assert trial.backend.channels() == ()
    _make(trial, "b"), _make(trial, "a"), _make(trial, "x", topic="order")
    _publish(trial), _publish(trial)
    worker = trial.attend(A)
    trial.end(trial.reserve_one(worker, A), Exhausted("no"))
    trial.reserve_one(worker, A)
    assert _names(trial) == ["order:x", A, B]
    numbers = [(info.waiting, info.running, info.failed) for info in trial.backend.channels()]
    assert numbers == [(0, 0, 0), (0, 1, 1), (2, 0, 0)]


def dropped_channel_goes_with_its_jobs(trial: Trial) -> None:
    _make(trial, "a"), _make(trial, "b")
    worker = trial.attend(A)
    _publish(trial)
    trial.end(trial.reserve_one(worker, A), Exhausted("no"))
    _publish(trial, b"2")  # not copied yet
    assert _drop(trial) == 2
    assert _names(trial) == [B]
    assert [stats.queue for stats in trial.backend.stats().queues] == ["orders:", B]
    _publish(trial, b"3")
    assert trial.backend.tick([A]) is None
    assert trial.reserve(worker, A) == ()
    assert _received(trial, B) == [b"m", b"2", b"3"]
    with raising(UnknownQueue):
        _drop(trial)


def dropped_channel_lets_its_running_jobs_end(trial: Trial) -> None:
    _make(trial)
    worker = trial.attend(A)
    _publish(trial, b"1"), _publish(trial, b"2"), _publish(trial, b"3")
    done, again = trial.reserve(worker, A, limit=2)
    assert _drop(trial) == 1
    (info,) = trial.backend.channels()
    assert (info.dropped, info.running) == (True, 2)
    trial.end(again, Retried(trial.clock.now_ms(), "no"))
    assert trial.reserve(worker, A) == (), "nothing of it is started any more"
    trial.backend.tick([A])
    assert trial.state(again.job.id) is None
    assert _names(trial) == [A]
    trial.end(done, Completed())
    trial.backend.tick([A])
    assert _names(trial) == []


def last_channel_dropped_takes_what_was_due(trial: Trial) -> None:
    _make(trial)
    due, later = _publish(trial, b"1"), _publish(trial, b"2", delay_ms=10)
    assert _drop(trial) == 1
    assert (trial.state(due), trial.state(later)) == (None, State.SCHEDULED)
    trial.clock.advance(1)
    _make(trial, "b")
    assert _received(trial, B) == [b"2"]


def channel_made_again_starts_anew(trial: Trial) -> None:
    _make(trial)
    worker = trial.attend(A)
    _publish(trial)
    running = trial.reserve_one(worker, A)
    _drop(trial)
    trial.clock.advance(1)
    assert _make(trial)
    (info,) = trial.backend.channels()
    assert (info.dropped, info.made_ms) == (False, trial.clock.now_ms())
    trial.end(running, Completed())
    trial.backend.tick([A])
    _publish(trial, b"2")
    assert _received(trial, A) == [b"2"]


CHECKS = (
    message_is_copied_to_each_channel,
    channels_do_not_see_one_another,
    names_that_start_alike_are_not_mixed,
    message_waits_for_its_time,
    message_can_be_moved_and_cancelled,
    key_of_a_message_holds_until_its_time,
    channels_made_by_the_due_time_get_it,
    late_copying_changes_nothing,
    message_without_a_channel_waits_for_the_first,
    channels_made_together_are_first_together,
    clock_set_back_loses_no_copy,
    copies_are_in_order_of_service,
    many_messages_are_copied_in_steps,
    tick_copies_for_channels_that_nobody_serves,
    paused_channel_gets_copies_and_gives_none,
    terms_hold_for_copies_to_come,
    channels_are_listed_with_what_is_in_them,
    dropped_channel_goes_with_its_jobs,
    dropped_channel_lets_its_running_jobs_end,
    last_channel_dropped_takes_what_was_due,
    channel_made_again_starts_anew,
)
