"""What people ask of a store: where a job is, which jobs are where, how many."""

from __future__ import annotations

import msgspec

from bide.backends.port import READY_COUNT_MAX, ChannelInfo, JobInfo, Page, QueueStats, Stats
from bide.errors import CorruptIndex, InvalidOption
from bide.model.job import Job, JobId, State
from bide.model.limits import LEASES_MAX, PRIORITY_MAX, PRIORITY_MIN, TIME_MS_MAX
from bide.model.queue import PREPARED_PREFIX, channel_of, is_prepared, prepared_queue, topic_of
from bide.storage.index import Counts, IndexView

_Position = tuple[int, ...]
"""A place in one queue's list: the numbers that its table is sorted by."""


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last job of a page."""

    state: State
    queue: str
    position: _Position


def info(job: Job, view: IndexView, now_ms: int) -> JobInfo:
    """The job, and where it is at *now_ms*."""
    if job.failed_ms is not None:
        return JobInfo(job, State.FAILED)
    if view.is_waiting(job):
        if is_prepared(job.queue):
            return JobInfo(job, State.PREPARED)
        return JobInfo(job, State.READY if job.due_ms <= now_ms else State.SCHEDULED)
    owner = view.owner_of(job.id)
    return JobInfo(job, State.RUNNING, None if owner is None else view.owner(owner))


def page(
    view: IndexView,
    now_ms: int,
    *,
    queue: str | None,
    state: State,
    limit: int,
    after: str | None,
) -> Page:
    """Up to *limit* jobs in *state*, queue by queue; see `Backend.list`."""
    cursor = None if after is None else _decode_cursor(after, state)
    jobs: list[JobInfo] = []
    unreadable: list[int] = []
    for name in _names(view, queue, state):
        start: _Position | None = None
        if cursor is not None:
            if name < cursor.queue:
                continue
            start = cursor.position if name == cursor.queue else None
        room = limit - len(jobs) - len(unreadable)
        for position, job_id in _positions(view, name, state, now_ms, start=start, limit=room):
            job = _readable(view, job_id)
            if job is None:
                unreadable.append(job_id)
            else:
                jobs.append(info(job, view, now_ms))
            cursor = _Cursor(state, name, position)
        if len(jobs) + len(unreadable) == limit:
            return Page(tuple(jobs), msgspec.json.encode(cursor).decode(), tuple(unreadable))
    return Page(tuple(jobs), None, tuple(unreadable))


def _names(view: IndexView, queue: str | None, state: State) -> list[str]:
    """The queues to look in. What waits where transactions do is prepared, and nothing else is."""
    if queue is not None:
        return [prepared_queue(queue) if state is State.PREPARED else queue]
    names = sorted(view.queues())
    if state in (State.PREPARED, State.READY, State.SCHEDULED):
        return [name for name in names if is_prepared(name) == (state is State.PREPARED)]
    return names


def channels(view: IndexView) -> tuple[ChannelInfo, ...]:
    """Every channel, by topic and name."""
    found: list[ChannelInfo] = []
    for row in view.queue_rows():
        topic = topic_of(row.name)
        if topic is not None:
            waiting, running, failed = view.live(row.name)
            found.append(
                ChannelInfo(
                    topic=topic,
                    channel=channel_of(row.name),
                    waiting=waiting,
                    running=running,
                    failed=failed,
                    paused=row.paused_ms is not None,
                    dropped=row.dropped_ms is not None,
                    max_retries=row.max_retries,
                    timeout_ms=row.timeout_ms,
                    made_ms=row.made_ms,
                )
            )
    return tuple(sorted(found, key=lambda one: (one.topic, one.channel)))


def stats(view: IndexView, now_ms: int) -> Stats:
    """The store's numbers."""
    return Stats(
        now_ms=now_ms,
        queues=tuple(_queue_stats(view, name, now_ms) for name in sorted(_shown(view))),
        owners=tuple(view.owners()),
    )


def _shown(view: IndexView) -> set[str]:
    """The queues that held a job, that only transactions wait for, or that have a row."""
    held = {name.removeprefix(PREPARED_PREFIX) for name in view.queues()}
    return held | {row.name for row in view.queue_rows()}


def _queue_stats(view: IndexView, queue: str, now_ms: int) -> QueueStats:
    row = view.queue(queue)
    undecided, asked, _ = view.live(prepared_queue(queue))
    return QueueStats(
        queue=queue,
        ready=len(view.due(queue, now_ms, READY_COUNT_MAX)),
        next_due_ms=view.next_due(queue),
        paused=row is not None and row.paused_ms is not None,
        prepared=undecided + asked,
        **msgspec.structs.asdict(view.counts(queue) or Counts()),
    )


def _positions(
    view: IndexView,
    queue: str,
    state: State,
    now_ms: int,
    *,
    start: _Position | None,
    limit: int,
) -> list[tuple[_Position, JobId]]:
    """Up to *limit* of one queue's jobs behind *start*: the position and id of each."""
    match state:
        case State.READY | State.SCHEDULED | State.PREPARED:
            since = now_ms + 1 if state is State.SCHEDULED else 0
            until = now_ms + 1 if state is State.READY else TIME_MS_MAX
            after = None if start is None else (start[0], start[1], start[2])
            return [(row, row[2]) for row in view.waiting(queue, since, until, limit, after)]
        case State.FAILED:
            failed_after = None if start is None else (start[0], start[1])
            return [(row, row[1]) for row in view.failed(queue, limit, failed_after)]
        case State.RUNNING:
            running: list[tuple[_Position, JobId]] = [
                ((owner.id, row.id), row.id)
                for owner in view.owners()
                for row in view.leases(owner.id, LEASES_MAX)
                if row.queue == queue and (start is None or (owner.id, row.id) > start)
            ]
            return running[:limit]


def _readable(view: IndexView, job_id: JobId) -> Job | None:
    try:
        return view.job(job_id)
    except CorruptIndex:
        return None


def _decode_cursor(after: str, state: State) -> _Cursor:
    try:
        cursor = msgspec.json.decode(after, type=_Cursor)
    except (msgspec.DecodeError, TypeError, UnicodeEncodeError):
        cursor = None
    if cursor is None or cursor.state is not state or not _is_position(cursor.position, state):
        raise InvalidOption(f"after {after!r}: use the `next` of a page of the same state")
    return cursor


def _is_position(position: _Position, state: State) -> bool:
    numbers = position
    if state in (State.READY, State.SCHEDULED, State.PREPARED):
        if not (position and PRIORITY_MIN <= position[0] <= PRIORITY_MAX):
            return False
        numbers = position[1:]
    return len(numbers) == 2 and all(0 <= number < 1 << 63 for number in numbers)
