"""Queues that can be paused, and the channels of a topic.

A message waits as one job in its topic's own queue. Once due it is copied
to channels, at the next reserve from one of them or the next tick. When
that is does not matter, since who gets it is settled by times past: the
channels that were made at or before its due time (or before it was
published, should a clock have gone back). If there was none then, the
first one made later; those that one command makes count as one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from msgspec.structs import replace

from bide.errors import CorruptIndex
from bide.model import commands as c
from bide.model import facts as f
from bide.model.job import Job, JobId, Scheduled, Withdrawn
from bide.model.limits import SPREAD_COPIES_MAX, SPREAD_SIZE_MAX
from bide.model.purging import purge
from bide.model.queue import QueueRow, topic_of, topic_queue
from bide.model.view import View


def is_any_due(view: View, queues: Sequence[str], now_ms: int) -> bool:
    """Whether a reserve from *queues* would find a job, or a message to copy."""
    return any(view.due(name, now_ms, 1) for name in _sources(view, queues))


def next_due(view: View, queues: Sequence[str]) -> int | None:
    """When a reserve from *queues* next finds something; it may be past."""
    times = [due for name in _sources(view, queues) if (due := view.next_due(name)) is not None]
    return min(times, default=None)


def served(view: View, queues: Sequence[str]) -> list[str]:
    """Those of *queues* that jobs may be reserved from."""
    rows = [(name, view.queue(name)) for name in queues]
    return [name for name, row in rows if row is None or row.is_served]


def topics_of(view: View, queues: Sequence[str]) -> list[str]:
    """The topics whose messages are copied to *queues*, each once, sorted."""
    return sorted(
        {topic for name in queues if (topic := topic_of(name)) is not None and view.queue(name)}
    )


def _sources(view: View, queues: Sequence[str]) -> list[str]:
    """Where jobs for *queues* come from: those that are served, and their topics."""
    names = served(view, queues)
    return names + [topic_queue(topic) for topic in topics_of(view, names)]


def spread(topic: str, view: View, now_ms: int) -> Generator[f.Fact, None, int]:
    """Copy due messages to the channels, in order of service, up to the limits of a step.

    Returns:
        How many left the topic. 0 also if there is no channel to take them.
    """
    rows = [row for row in view.channels(topic) if row.dropped_ms is None]
    if not rows:
        return 0
    queue = topic_queue(topic)
    gone: list[Withdrawn] = []
    unreadable: list[Withdrawn] = []
    copies: list[Job] = []
    next_id = view.next_job_id()
    size = 0
    for priority, due_ms, job_id in view.due(queue, now_ms, SPREAD_COPIES_MAX):
        if len(copies) + len(rows) > max(SPREAD_COPIES_MAX, len(rows)) or size > SPREAD_SIZE_MAX:
            break
        place = Scheduled(priority, due_ms)
        try:
            message = view.job(job_id)
        except CorruptIndex:
            message = None
        if message is None:
            unreadable.append(Withdrawn(job_id, queue, None, place))
            continue
        gone.append(Withdrawn(job_id, queue, message.key, place))
        for row in _takers(message, rows):
            copies.append(_copy(message, row, JobId(next_id + len(copies)), now_ms))
            size += len(message.args)
    if unreadable:
        yield f.JobsQuarantined(tuple(unreadable), now_ms)
    if gone:
        yield f.JobsCompleted(tuple(gone))
        yield f.JobsPut(tuple(copies))
    return len(gone) + len(unreadable)


def _takers(message: Job, rows: Sequence[QueueRow]) -> list[QueueRow]:
    """The channels that get the message: never none."""
    there = [r for r in rows if r.made_ms <= message.due_ms or r.made_id <= message.id]
    first = min((row.made_id, row.made_ms) for row in rows)
    return there or [row for row in rows if (row.made_id, row.made_ms) == first]


def _copy(message: Job, row: QueueRow, job_id: JobId, now_ms: int) -> Job:
    return Job(
        id=job_id,
        queue=row.name,
        task=row.name,
        args=message.args,
        due_ms=message.due_ms,
        priority=message.priority,
        key=None,
        attempt=0,
        max_retries=row.max_retries,
        timeout_ms=row.timeout_ms,
        put_ms=now_ms,
    )


def pause(command: c.Pause, view: View, now_ms: int) -> Generator[f.Fact, None, bool]:
    row = view.queue(command.queue)
    if row is None:
        if topic_of(command.queue) is not None:
            return False
        row = QueueRow(name=command.queue, made_ms=now_ms)
    if command.is_paused != (row.paused_ms is not None):
        paused_ms = now_ms if command.is_paused else None
        yield f.QueueChanged(replace(row, paused_ms=paused_ms))
    return True


def make_channels(
    command: c.MakeChannels, view: View, now_ms: int
) -> Generator[f.Fact, None, bool]:
    rows = {row.name: row for one in command.channels for row in view.channels(one.topic)}
    made_id = view.next_job_id()
    is_changed = False
    waited_for: dict[str, None] = {}
    for one in command.channels:
        row = rows.get(one.queue)
        made = {"name": one.queue, "made_ms": now_ms, "made_id": made_id}
        terms = {"max_retries": one.max_retries, "timeout_ms": one.timeout_ms}
        if row is None:
            new = QueueRow(**made, **terms)  # type: ignore[arg-type]
            waited_for[one.topic] = None
        elif row.dropped_ms is not None:  # made anew: it keeps what was not purged yet
            new = replace(row, **made, **terms, dropped_ms=None)
        else:
            new = replace(row, **terms)
        if new != row:
            rows[one.queue] = new
            is_changed = True
            yield f.QueueChanged(new)
    for topic in waited_for:  # after all of them; a channel made later then has another `made_id`
        yield from spread(topic, view, now_ms)
    return is_changed


def drop_channel(
    command: c.DropChannel, view: View, now_ms: int
) -> Generator[f.Fact, None, c.Purged | None]:
    row = view.queue(command.queue)
    topic = topic_of(command.queue)
    if row is None or topic is None:
        return None
    if row.dropped_ms is None:
        if command.is_begun:  # somebody has made it again
            return c.Purged(0, 0, None)
        yield from spread(topic, view, now_ms)
        if view.due(topic_queue(topic), now_ms, 1):
            waiting, _, failed = view.live(command.queue)
            return c.Purged(0, waiting + failed, ())
        yield f.QueueChanged(replace(row, dropped_ms=now_ms, paused_ms=None))
    purged = yield from purge(c.Purge(command.queue, command.limit), view)
    if not any(view.live(command.queue)):
        yield f.QueueRemoved(command.queue)
    return purged
