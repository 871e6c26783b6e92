"""What the store says has happened: its log, read from the first record to the last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bide.format.commit import decode_commit
from bide.format.identity import FILE_NAME, decode_identity
from bide.model import facts as f
from bide.model.job import Leased, OwnerId, Withdrawn
from bide.storage.directory import Directory
from bide.storage.disk import OsDisk
from bide.storage.index import IndexView

Name = tuple[str, str]
"""A queue, and the key of a job in it."""


@dataclass(frozen=True, slots=True)
class Killed:
    """A worker that was killed, and when (by the replay's clock)."""

    pid: int
    at_ms: int


@dataclass(slots=True)
class History:
    """What became of each job, by its id."""

    names: dict[int, Name] = field(default_factory=dict)
    """Every job that was put."""
    completed: Counter[int] = field(default_factory=Counter)
    """How often each was completed."""
    cancelled: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)
    """Those that the killed worker held, reserved and not settled, when it was killed."""

    def left(self) -> dict[int, Name]:
        """The jobs that are still there: waiting, running or failed."""
        gone = self.completed.keys() | self.cancelled
        return {job_id: name for job_id, name in self.names.items() if job_id not in gone}


def read_facts(store: Path) -> Iterator[tuple[int, f.Fact]]:
    """The facts in the log of the store in directory *store*, each with when it was written.

    All that the index has seen: it knows where the log ends.
    """
    identity = decode_identity((store / FILE_NAME).read_bytes())
    parts = Directory(store, identity, OsDisk()).open_to_read()
    with parts.environment.begin(write=False) as txn:
        end = IndexView(txn, parts.environment.tables).position()
    parts.close()
    for record, _ in parts.log.read(until=end):
        for fact, _ in decode_commit(record.body):
            yield record.written_ms, fact


def tell(facts: Iterable[tuple[int, f.Fact]], killed: Killed | None) -> History:
    """The history that *facts* make, in the order of the log."""
    history = History()
    victim: OwnerId | None = None
    for written_ms, fact in facts:
        match fact:
            case f.JobsPut(jobs):
                history.names |= {job.id: (job.queue, job.key or "") for job in jobs}
            case f.JobsCompleted(gone):
                history.completed.update(job.id for job in gone)
            case f.JobsCancelled(gone):
                history.cancelled.update(job.id for job in gone)
            case f.OwnerRegistered(owner) if killed and owner.pid == killed.pid:
                victim = owner.id
            case _:
                pass
        if killed and victim is not None:
            history.held |= _taken(fact, victim)
            # What ends later was held at the kill: it was taken back from the dead.
            if written_ms < killed.at_ms:
                history.held -= _ended(fact, victim)
    return history


def _taken(fact: f.Fact, owner: OwnerId) -> set[int]:
    """The jobs that *fact* leases to *owner*."""
    if isinstance(fact, f.JobsReserved) and fact.owner == owner:
        return {row.id for row in fact.leases}
    return set()


def _ended(fact: f.Fact, owner: OwnerId) -> set[int]:
    """The jobs whose leases of *owner* end with *fact*."""
    match fact:
        case f.JobsCompleted(gone) | f.JobsCancelled(gone):
            return {job.id for job in gone if _was_held(job, owner)}
        case f.JobsReturned(holder, rows) if holder == owner:
            return {row.id for row in rows}
        case f.JobsRescheduled(jobs, holder) | f.JobsFailed(jobs, holder) if holder == owner:
            return {job.id for job in jobs}
        case _:
            return set()


def _was_held(job: Withdrawn, owner: OwnerId) -> bool:
    return isinstance(job.place, Leased) and job.place.owner == owner
