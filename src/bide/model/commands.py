"""What the store can be asked to change, and what it answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from bide.errors import BideError
from bide.model.job import JobId, JobRef, Lease, NewJob, OwnerId


class Put(msgspec.Struct, frozen=True):
    """Add jobs, all or none. Answer: `PutResult` for each, in order."""

    jobs: tuple[NewJob, ...]


class PutResult(msgspec.Struct, frozen=True):
    """What became of one `NewJob`."""

    id: JobId
    """The new job; for "skipped", the job that held the key."""
    outcome: Literal["put", "skipped", "replaced"]


class Register(msgspec.Struct, frozen=True):
    """Make a worker process known. Answer: its `OwnerId`, never used before."""

    token: str
    host: str
    pid: int
    queues: tuple[str, ...]


class Reserve(msgspec.Struct, frozen=True):
    """Lease due jobs, from the first queue that has some on. Answer: tuple of `Lease`."""

    owner: OwnerId
    queues: tuple[str, ...]
    limit: int


class Completed(msgspec.Struct, frozen=True):
    """The attempt succeeded."""


class Retried(msgspec.Struct, frozen=True):
    """The attempt failed; run again at *due_ms* if any attempt is left."""

    due_ms: int
    error: str


class Snoozed(msgspec.Struct, frozen=True):
    """Run again at *due_ms*; this was no attempt."""

    due_ms: int
    is_miss: bool = False
    """Its worker does not have its task."""


class Returned(msgspec.Struct, frozen=True):
    """It was never started: back to its place; this was no attempt."""


class Exhausted(msgspec.Struct, frozen=True):
    """The attempt failed, and no other shall follow."""

    error: str


class Dropped(msgspec.Struct, frozen=True):
    """The job asked to be cancelled."""


Outcome = Completed | Retried | Snoozed | Returned | Exhausted | Dropped


class Settlement(msgspec.Struct, frozen=True):
    """How one lease ends. (owner, id, attempt) is its fence."""

    id: JobId
    attempt: int
    outcome: Outcome


class Settle(msgspec.Struct, frozen=True):
    """End leases of one owner, each by itself. Answer: None or `LeaseLost` for each, in order."""

    owner: OwnerId
    settlements: tuple[Settlement, ...]


class Cancel(msgspec.Struct, frozen=True):
    """Withdraw jobs, each by itself. Answer: None or `JobNotFound` for each."""

    refs: tuple[JobRef, ...]


class Change(msgspec.Struct, frozen=True):
    """Where one waiting job shall wait instead; None leaves as it is."""

    ref: JobRef
    due_ms: int | None = None
    priority: int | None = None


class Move(msgspec.Struct, frozen=True):
    """Change due times or priorities, each by itself. Answer: None or a `JobError` for each."""

    changes: tuple[Change, ...]


class Kick(msgspec.Struct, frozen=True):
    """Make jobs due now, failed ones too, each by itself. Answer: None or a `JobError` for each."""

    refs: tuple[JobRef, ...]


class Expire(msgspec.Struct, frozen=True):
    """Take back up to *limit* leases of an owner that is gone; forget it with the last one.

    *started* are the (id, attempt) that it had begun: those runs count as
    attempts, what it only held does not. Answer: the number of leases left.
    """

    owner: OwnerId
    started: frozenset[tuple[int, int]]
    reason: str
    limit: int


Command = Put | Register | Reserve | Settle | Cancel | Move | Kick | Expire
Answer = tuple[PutResult, ...] | tuple[Lease, ...] | tuple[BideError | None, ...] | OwnerId | int
