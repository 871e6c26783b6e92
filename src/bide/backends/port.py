"""The seam: all that an App and a worker ask of whatever keeps the jobs.

Calls block, and take and give batches. `bide.testing.check_backend` is the
definition of right. Times are Unix ms by the backend's own `Clock`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from bide.clock import Clock
from bide.errors import BideError
from bide.model.commands import Change, Purged, PutResult, Settlement
from bide.model.job import Job, JobId, JobRef, Lease, NewJob, Owner, OwnerId, State
from bide.model.limits import PURGE_STEP
from bide.model.queue import ChannelTerms

Sync = Literal["always", "interval", "never"]
"""When a put is answered: once it is on the disk; at once, with a sync to follow
within 50 ms; or at once, to be written when the kernel will. A settlement goes
to the disk at once, within 50 ms, or when the kernel will; nobody waits for it."""


class JobInfo(msgspec.Struct, frozen=True):
    """A live job and where it is."""

    job: Job
    state: State
    owner: Owner | None = None
    """Who runs it, for a running job."""


class Page(msgspec.Struct, frozen=True):
    """A part of a listing."""

    jobs: tuple[JobInfo, ...]
    next: str | None
    """Where to go on; None at the end."""
    unreadable: tuple[int, ...] = ()
    """Ids whose stored rows are damaged."""


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """One queue's numbers."""

    queue: str
    waiting: int
    ready: int
    """Those of *waiting* that are due, counted up to `READY_COUNT_MAX`."""
    running: int
    failed: int
    next_due_ms: int | None
    """The earliest due time of a waiting job, past or future."""
    put_total: int
    succeeded_total: int
    failed_total: int
    cancelled_total: int
    rescheduled_total: int
    paused: bool = False
    """Whether nothing is reserved from it until it is resumed."""
    prepared: int = 0
    """Undecided transactions whose first job goes here."""


READY_COUNT_MAX = 10_000
"""Counting stops here: a number for people must not cost a walk over millions."""


class ChannelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A channel, and what is in it."""

    topic: str
    channel: str
    waiting: int
    """Copies, due or not; what is still to be copied counts in the topic."""
    running: int
    failed: int
    paused: bool
    dropped: bool
    """Whether it gets no more copies, and goes once its last running job has ended."""
    max_retries: int
    timeout_ms: int
    made_ms: int


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """A store's numbers, all of one moment."""

    now_ms: int
    queues: tuple[QueueStats, ...]
    owners: tuple[Owner, ...]
    """The worker processes that live."""


class Reserved(msgspec.Struct, frozen=True):
    """The answer to `Backend.reserve`."""

    leases: tuple[Lease, ...]
    refused: tuple[BideError | None, ...]
    """For each settlement: None, or why it does not count."""


class Attendance(Protocol):
    """A worker process, known to the backend and able to hold leases, until it leaves.

    When its process dies, however it dies, its leases go back: what it had
    noted as started counts as an attempt.
    """

    @property
    def owner(self) -> OwnerId: ...

    def start(self, lease: Lease) -> int:
        """Note that a run begins; returns a slot for `clear`. Any thread."""
        ...

    def clear(self, slot: int) -> None:
        """Forget a run: its settlement is stored, or it shall not count."""
        ...

    def wait(self, until_ms: int | None, timeout_s: float) -> None:
        """Sleep until a job may have become due, `wake`, *until_ms* or *timeout_s*."""
        ...

    def wake(self) -> None:
        """End the `wait` under way, or the next one. Any thread, signal handlers too."""
        ...

    def leave(self) -> None:
        """Leave, with no leases held; what is held all the same goes back."""
        ...


class Backend(Protocol):
    """Keeps jobs, and tells each worker process which are its own."""

    @property
    def clock(self) -> Clock: ...

    def put(
        self, jobs: Sequence[NewJob], *, sync: Sync | None = None, wait: bool = True
    ) -> tuple[PutResult, ...]:
        """Add jobs, all or none.

        Args:
            sync: None: as the store was opened.
            wait: False: return when it is stored, and on its way to the disk; `sync` waits for it.

        Raises:
            KeyTaken: A key is held, and its job says ``on_conflict="raise"``.
            StoreFull, StoreFailed, StoreClosed: As they say.
        """
        ...

    def attend(self, queues: Sequence[str]) -> Attendance:
        """Make this process known as a worker of *queues*."""
        ...

    def reserve(
        self,
        owner: OwnerId,
        queues: Sequence[str],
        limit: int,
        settlements: Sequence[Settlement] = (),
    ) -> Reserved:
        """End leases of *owner*, and lease it up to *limit* due jobs, in one transaction.

        What it has settled is stored, and on its way to the disk as the
        store was opened, without waiting; a failure of that closes the
        store, and a later call says so. `sync` waits for it.

        The first queue that has due jobs is served first; within a queue
        the higher priority, then the earlier due time, then the lower id.
        """
        ...

    def sync(self, mode: Sync | None = None) -> None:
        """Wait until all that was stored so far is as durable as *mode* says.

        Args:
            mode: None: as the store was opened.

        Raises:
            StoreFailed: The disk refused. After the machine's crash, what was put may be
                gone, and what had ended may run again.
        """
        ...

    def lost(self, leases: Sequence[Lease]) -> frozenset[int]:
        """The ids, of those leased, whose leases have ended: cancelled, or another's."""
        ...

    def cancel(self, refs: Sequence[JobRef]) -> tuple[BideError | None, ...]:
        """Withdraw jobs, in whatever state; a running one is told to stop."""
        ...

    def move(self, changes: Sequence[Change]) -> tuple[BideError | None, ...]:
        """Change due times or priorities of waiting jobs."""
        ...

    def kick(self, refs: Sequence[JobRef]) -> tuple[BideError | None, ...]:
        """Make waiting jobs due now; put failed ones back, their attempts anew."""
        ...

    def pause(self, queue: str) -> None:
        """Have nothing reserved from a queue or channel; what runs goes on.

        Raises:
            UnknownQueue: A channel that is not there.
        """
        ...

    def resume(self, queue: str) -> None:
        """Go on reserving from a queue; `UnknownQueue` as `pause`."""
        ...

    def purge(
        self,
        queue: str,
        *,
        limit: int = PURGE_STEP,
        until: tuple[int, int] | None = None,
        below_id: int | None = None,
        after: tuple[int, ...] | None = None,
    ) -> Purged:
        """Withdraw waiting and failed jobs, looking at *limit*; see `bide.model.commands.Purge`.

        Go on with `after` of the answer until it is None.
        """
        ...

    def make_channels(self, channels: Sequence[ChannelTerms]) -> bool:
        """Have channels, with these terms for copies to come; whether that changed anything.

        They get the messages due from now on; the first ones of a topic, also those that wait.
        """
        ...

    def drop_channel(self, topic: str, channel: str, *, is_begun: bool = False) -> Purged:
        """End a channel, a step at a time; to go on, *is_begun*, until `after` is None.

        Its running jobs end as they will; `tick` then takes the rest.

        Raises:
            UnknownQueue: There is none, at the first step.
        """
        ...

    def channels(self) -> tuple[ChannelInfo, ...]:
        """Every channel, by topic and name."""
        ...

    def decide(
        self, job_id: JobId, *, is_commit: bool, sync: Sync | None = None
    ) -> tuple[PutResult, ...]:
        """Put the jobs of an undecided transaction in one commit, or none of them, for good.

        *sync* as for `put`.

        Raises:
            JobNotFound: It was decided before.
            WrongState: The job is no transaction.
            KeyTaken: It stays undecided.
        """
        ...

    def get(self, ref: JobRef) -> JobInfo | None:
        """The live job, if there is one."""
        ...

    def list(
        self, *, queue: str | None, state: State, limit: int, after: str | None = None
    ) -> Page:
        """Jobs in one state, queue by queue, in order of service (failed: oldest failure first)."""
        ...

    def stats(self) -> Stats: ...

    def tick(self, queues: Sequence[str]) -> int | None:
        """Do what housekeeping is due, in bounded steps.

        Dead workers' leases go back, due messages go to their channels, and
        what is left in dropped channels goes.

        Returns:
            When the next job of *queues*, or message for them, is due (it may be past); None
            if none waits. What is paused does not count.
        """
        ...

    def close(self) -> None: ...


class Opener(Protocol):
    """Makes a backend from a URL; `bide.connect.connect` is one."""

    def __call__(
        self,
        url: str,
        clock: Clock,
        *,
        sync: Sync | None = None,
        create: bool = True,
        read_only: bool = False,
    ) -> Backend: ...
