"""Transactions: jobs that are put together once it is decided, or not at all.

Until then one job stands for them, in a queue of its own that nothing runs.
"""

from __future__ import annotations

from collections.abc import Generator

from bide.errors import JobNotFound, WrongState
from bide.model import commands as c
from bide.model import facts as f
from bide.model.job import NewJob, Withdrawn
from bide.model.putting import place_of, put_jobs, refuse_taken_keys
from bide.model.queue import is_prepared
from bide.model.view import View


def decide_prepared(
    command: c.Decide, view: View, now_ms: int
) -> Generator[f.Fact, None, tuple[c.PutResult, ...]]:
    """End an undecided transaction, also one that the checker is being asked about.

    Raises:
        JobNotFound: It was decided before, or there was none.
        WrongState: The job is no transaction.
        KeyTaken: The transaction stays undecided.
        CorruptIndex: Its job waits nowhere.
    """
    job = view.job(command.id)
    if job is None:
        raise JobNotFound(
            f"transaction {command.id}: there is none; it was committed or rolled back before",
            job_id=command.id,
        )
    if not is_prepared(job.queue):
        raise WrongState(f"job {command.id} is no transaction", job_id=command.id)
    place = place_of(job, view)
    if command.is_commit:
        refuse_taken_keys(command.jobs, view)
    gone = Withdrawn(job.id, job.queue, job.key, place)
    return (
        yield from end_prepared(gone, command.jobs if command.is_commit else None, view, now_ms)
    )


def end_prepared(
    gone: Withdrawn, jobs: tuple[NewJob, ...] | None, view: View, now_ms: int
) -> Generator[f.Fact, None, tuple[c.PutResult, ...]]:
    """Take out the job that stands for a transaction, and put *jobs*; None: rolled back."""
    if jobs is None:
        yield f.JobsCancelled((gone,))
        return ()
    yield f.JobsCompleted((gone,))
    return (yield from put_jobs(jobs, view, now_ms))
