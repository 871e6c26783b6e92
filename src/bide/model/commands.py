"""What the store can be asked to change, and what it answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from bide.errors import BideError
from bide.model.job import JobId, JobRef, Lease, NewJob, OwnerId
from bide.model.queue import ChannelTerms


class Put(msgspec.Struct, frozen=True, gc=False):
    """Add jobs, all or none. Answer: `PutResult` for each, in order."""

    jobs: tuple[NewJob, ...]


class PutResult(msgspec.Struct, frozen=True, gc=False):
    """What became of one `NewJob`."""

    id: JobId
    """The new job; for "skipped", the job that held the key."""
    outcome: Literal["put", "skipped", "replaced"]


class Register(msgspec.Struct, frozen=True, gc=False):
    """Make a worker process known. Answer: its `OwnerId`, never used before."""

    token: str
    host: str
    pid: int
    queues: tuple[str, ...]


class Reserve(msgspec.Struct, frozen=True, gc=False):
    """Lease due jobs, from the first queue that has some on. Answer: tuple of `Lease`."""

    owner: OwnerId
    queues: tuple[str, ...]
    limit: int


class Completed(msgspec.Struct, frozen=True, gc=False):
    """The attempt succeeded."""


class Retried(msgspec.Struct, frozen=True, gc=False):
    """The attempt failed; run again at *due_ms* if any attempt is left."""

    due_ms: int
    error: str


class Snoozed(msgspec.Struct, frozen=True, gc=False):
    """Run again at *due_ms*; this was no attempt."""

    due_ms: int
    is_miss: bool = False
    """Its worker does not have its task."""


class Returned(msgspec.Struct, frozen=True, gc=False):
    """It was never started: back to its place; this was no attempt."""


class Exhausted(msgspec.Struct, frozen=True, gc=False):
    """The attempt failed, and no other shall follow."""

    error: str


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """The job asked to be cancelled."""


class Decided(msgspec.Struct, frozen=True, gc=False):
    """The checker has decided a transaction; see `Decide`."""

    is_commit: bool
    jobs: tuple[NewJob, ...]


Outcome = Completed | Retried | Snoozed | Returned | Exhausted | Dropped | Decided


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """How one lease ends. (owner, id, attempt) is its fence."""

    id: JobId
    attempt: int
    outcome: Outcome


class Settle(msgspec.Struct, frozen=True, gc=False):
    """End leases of one owner, each by itself.

    Answer: None or `LeaseLost` for each, in order; `KeyTaken` for a decision
    that has to wait.
    """

    owner: OwnerId
    settlements: tuple[Settlement, ...]


class Cancel(msgspec.Struct, frozen=True, gc=False):
    """Withdraw jobs, each by itself. Answer: None or `JobNotFound` for each."""

    refs: tuple[JobRef, ...]


class Change(msgspec.Struct, frozen=True, gc=False):
    """Where one waiting job shall wait instead; None leaves as it is."""

    ref: JobRef
    due_ms: int | None = None
    priority: int | None = None


class Move(msgspec.Struct, frozen=True, gc=False):
    """Change due times or priorities, each by itself. Answer: None or a `JobError` for each."""

    changes: tuple[Change, ...]


class Kick(msgspec.Struct, frozen=True, gc=False):
    """Make jobs due now, failed ones too, each by itself. Answer: None or a `JobError` for each."""

    refs: tuple[JobRef, ...]


class Expire(msgspec.Struct, frozen=True, gc=False):
    """Take back up to *limit* leases of an owner that is gone; forget it with the last one.

    *started* are the (id, attempt) that it had begun: those runs count as
    attempts, what it only held does not. Answer: the number of leases left.
    """

    owner: OwnerId
    started: frozenset[tuple[int, int]]
    reason: str
    limit: int


class Pause(msgspec.Struct, frozen=True, gc=False):
    """Stop or go on reserving from a queue. Answer: False if it is a channel that is not there."""

    queue: str
    is_paused: bool


class Purge(msgspec.Struct, frozen=True, gc=False):
    """Withdraw a queue's waiting and failed jobs, of which up to *limit* are looked at.

    Answer: `Purged`. Nothing is read of a job but its key, so one that
    can't be read is no obstacle.
    """

    queue: str
    limit: int
    until: tuple[int, int] | None = None
    """Only jobs before this (due_ms, id), by due time and then id, whatever their priority."""
    below_id: int | None = None
    """Only jobs with a lower id."""
    after: tuple[int, ...] | None = None
    """Where the step before came to."""


class Purged(msgspec.Struct, frozen=True, gc=False):
    """What one step of `Purge` or `DropChannel` has done."""

    gone: int
    left: int
    """Waiting and failed jobs still in the queue."""
    after: tuple[int, ...] | None
    """For the next step; None: this was the last."""


class MakeChannels(msgspec.Struct, frozen=True, gc=False):
    """Have channels, with these terms for their copies. Answer: whether anything changed."""

    channels: tuple[ChannelTerms, ...]


class DropChannel(msgspec.Struct, frozen=True, gc=False):
    """End a channel, a step of up to *limit* jobs at a time.

    Answer: `Purged`; None if there is no such channel, or no more.

    First what is due in the topic is copied, so that it does not matter
    when that was done; then the channel gets no more, and its jobs go.
    """

    queue: str
    limit: int
    is_begun: bool
    """Whether this only goes on with what an earlier step began."""


class Spread(msgspec.Struct, frozen=True, gc=False):
    """Copy some of a topic's due messages to its channels. Answer: how many left the topic."""

    topic: str


class Decide(msgspec.Struct, frozen=True, gc=False):
    """Put the jobs of a transaction, or none. Answer: a `PutResult` for each, in order.

    *jobs* are what its own job carries: that never changes, so whoever asks
    reads it before.
    """

    id: JobId
    is_commit: bool
    jobs: tuple[NewJob, ...]


Command = (
    Put
    | Register
    | Reserve
    | Settle
    | Cancel
    | Move
    | Kick
    | Expire
    | Pause
    | Purge
    | MakeChannels
    | DropChannel
    | Spread
    | Decide
)
Answer = (
    tuple[PutResult, ...]
    | tuple[Lease, ...]
    | tuple[BideError | None, ...]
    | OwnerId
    | int
    | bool
    | Purged
    | None
)
