"""What has been consumed, told to a replica that receives only puts.

It then drops what was done with: of each queue all jobs before the oldest
one that is left, by due time and then id. A job that runs is left. One
that was put off counts by its new due time on the one side and by its
first one on the other, so it goes from the replica with those around it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bide.model.commands import Command, Purge, Purged
from bide.model.job import JobId
from bide.model.limits import LEASES_MAX, PURGE_STEP
from bide.storage.index import IndexView

Submit = Callable[[Command], object]
"""Carries one command out, and gives its answer."""


class ConsumedQueue(msgspec.Struct, frozen=True):
    """How far one queue was consumed."""

    queue: str
    oldest: tuple[int, JobId] | None
    """(due_ms, id) of the first job that waits or runs; None: there is none."""
    count: int
    """Jobs that wait or run."""


class Consumed(msgspec.Struct, frozen=True):
    """How far a store was consumed, at one moment."""

    next_id: JobId
    """What came with this id or a higher one came later, and is not spoken of here."""
    queues: tuple[ConsumedQueue, ...]


def export_consumed(view: IndexView) -> Consumed:
    """How far each queue is consumed, now."""
    running: dict[str, list[tuple[int, JobId]]] = {}
    for owner in view.owners():
        for row in view.leases(owner.id, LEASES_MAX):
            running.setdefault(row.queue, []).append((row.due_ms, row.id))
    queues: list[ConsumedQueue] = []
    for name in sorted(view.queues()):
        keys = running.get(name, [])
        waiting = view.oldest(name)
        if waiting is not None:
            keys.append(waiting)
        count = sum(view.live(name)[:2])
        queues.append(ConsumedQueue(name, min(keys, default=None), count))
    return Consumed(view.next_job_id(), tuple(queues))


def apply_consumed(submit: Submit, consumed: Consumed, *, limit: int = PURGE_STEP) -> int:
    """Drop from a replica what was consumed; returns how many jobs went.

    Doing it again is harmless.

    Args:
        submit: The replica's; called for each step.
        limit: Jobs that one step looks at.
    """
    return sum(_gone(submit, one, consumed.next_id, limit) for one in consumed.queues)


def _gone(submit: Submit, one: ConsumedQueue, next_id: JobId, limit: int) -> int:
    gone = 0
    after: tuple[int, ...] | None = None
    while True:
        purged = submit(Purge(one.queue, limit, one.oldest, next_id, after))
        assert isinstance(purged, Purged)
        gone += purged.gone
        after = purged.after
        if after is None:
            return gone
