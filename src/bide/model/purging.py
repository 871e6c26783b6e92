"""Emptying a queue, in steps of which none is long."""

from __future__ import annotations

from collections.abc import Generator

from bide.errors import CorruptIndex
from bide.model import commands as c
from bide.model import facts as f
from bide.model.job import Failed, Job, JobId, Scheduled, Withdrawn
from bide.model.limits import TIME_MS_MAX
from bide.model.view import View


def purge(command: c.Purge, view: View) -> Generator[f.Fact, None, c.Purged]:
    """One step: the waiting jobs first, in order of service, then the failed ones."""
    assert command.limit > 0, "a step looks at a job at least"
    room = command.limit
    after = command.after or None
    gone: list[Withdrawn] = []
    if after is None or len(after) == _WAITING:
        behind = None if after is None else (after[0], after[1], after[2])
        until_ms = TIME_MS_MAX + 1 if command.until is None else command.until[0] + 1
        rows = view.waiting(command.queue, 0, until_ms, room, behind)
        for priority, due_ms, job_id in rows:
            if _is_meant(command, (due_ms, job_id)):
                key = _key(view, job_id)
                place = Scheduled(priority, due_ms)
                gone.append(Withdrawn(job_id, command.queue, key, place))
        room -= len(rows)
        after = rows[-1] if not room else None
    if room:
        behind_failed = None if after is None else (after[0], after[1])
        failed = view.failed(command.queue, room, behind_failed)
        for failed_ms, job_id in failed:
            if _is_failure_meant(command, view, job_id):
                key = _key(view, job_id)
                gone.append(Withdrawn(job_id, command.queue, key, Failed(failed_ms)))
        after = failed[-1] if len(failed) == room else None
    if gone:
        yield f.JobsCancelled(tuple(gone))
    waiting, _, failed_count = view.live(command.queue)
    return c.Purged(len(gone), waiting + failed_count, after)


_WAITING = 3
"""Numbers that the place of a waiting job is told by; of a failed one, two."""


def _is_meant(command: c.Purge, place: tuple[int, int]) -> bool:
    return (command.until is None or place < command.until) and (
        command.below_id is None or place[1] < command.below_id
    )


def _is_failure_meant(command: c.Purge, view: View, job_id: JobId) -> bool:
    if command.until is None:
        return _is_meant(command, (0, job_id))
    job = _readable(view, job_id)  # its due time stands nowhere else
    return job is not None and _is_meant(command, (job.due_ms, job_id))


def _key(view: View, job_id: JobId) -> str | None:
    """The job's key. One that can't be read keeps its key row, which then leads nowhere."""
    job = _readable(view, job_id)
    return None if job is None else job.key


def _readable(view: View, job_id: JobId) -> Job | None:
    try:
        return view.job(job_id)
    except CorruptIndex:
        return None
