"""Jobs as they come in: where their keys are free, and who makes way."""

from __future__ import annotations

from collections.abc import Generator

from bide.errors import CorruptIndex, KeyTaken
from bide.model import commands as c
from bide.model import facts as f
from bide.model.job import Failed, Job, JobId, Leased, NewJob, Place, Scheduled, Withdrawn
from bide.model.view import View


def put_jobs(
    news: tuple[NewJob, ...], view: View, now_ms: int
) -> Generator[f.Fact, None, tuple[c.PutResult, ...]]:
    """Add jobs, all or none.

    Raises:
        KeyTaken: Before the first fact.
    """
    refuse_taken_keys(news, view)
    results: list[c.PutResult] = []
    jobs: list[Job] = []
    keys: set[tuple[str, str]] = set()
    next_id = view.next_job_id()
    for new in news:
        replaced = False
        if new.key is not None:
            if (new.queue, new.key) in keys:
                yield f.JobsPut(tuple(jobs))  # the holder is in this very batch: make it visible
                jobs, keys = [], set()
            holder = _holder(new, view)
            if holder is not None:
                if new.on_conflict == "skip":
                    results.append(c.PutResult(holder.id, "skipped"))
                    continue
                replaced = True
                yield from _make_way(holder, view)
            keys.add((new.queue, new.key))
        job = Job(
            id=next_id,
            queue=new.queue,
            task=new.task,
            args=new.args,
            due_ms=new.due_ms,
            priority=new.priority,
            key=new.key,
            attempt=0,
            max_retries=new.max_retries,
            timeout_ms=new.timeout_ms,
            put_ms=now_ms,
        )
        next_id = JobId(next_id + 1)
        jobs.append(job)
        results.append(c.PutResult(job.id, "replaced" if replaced else "put"))
    if jobs:
        yield f.JobsPut(tuple(jobs))
    return tuple(results)


def refuse_taken_keys(jobs: tuple[NewJob, ...], view: View) -> None:
    """`KeyTaken`, if a job that does not yield names a key that is held."""
    keys: set[tuple[str, str]] = set()
    for new in jobs:
        if new.key is None:
            continue
        name = (new.queue, new.key)
        if new.on_conflict == "raise":
            holder = _holder(new, view)
            if holder is not None or name in keys:
                held_by = f"job {holder.id}" if holder else "an earlier job of this call"
                raise KeyTaken(
                    f"key {new.key!r} in queue {new.queue!r} is held by {held_by}; "
                    'cancel it, or put with on_conflict="skip" or "replace"',
                    job_id=holder.id if holder else None,
                    key=new.key,
                )
        keys.add(name)


def _holder(new: NewJob, view: View) -> Job | None:
    """Who holds the key of *new*. What can't be read can't run either: its key is free."""
    assert new.key is not None
    holder = view.holder(new.queue, new.key)
    try:
        return None if holder is None else view.job(holder)
    except CorruptIndex:
        return None


def _make_way(holder: Job, view: View) -> Generator[f.Fact, None, None]:
    """Withdraw the holder of a key for its successor.

    One that is running goes on to its end, without the key: ending work
    half done is for `Cancel`, and the successor is wanted because something
    changed after that run began.
    """
    try:
        place = place_of(holder, view)
    except CorruptIndex:
        return  # it is nowhere to be withdrawn from
    if not isinstance(place, Leased):
        yield f.JobsCancelled((Withdrawn(holder.id, holder.queue, holder.key, place),))


def place_of(job: Job, view: View) -> Place:
    """Where the job is; `CorruptIndex` if that is nowhere."""
    if job.failed_ms is not None:
        return Failed(job.failed_ms)
    if view.is_waiting(job):
        return Scheduled(job.priority, job.due_ms)
    owner = view.owner_of(job.id)
    if owner is None:
        raise CorruptIndex(f"job {job.id} waits nowhere, is held by no one and has not failed")
    return Leased(owner)
