"""The job, and where it can be."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NewType

import msgspec

from bide.model import limits

JobId = NewType("JobId", int)
OwnerId = NewType("OwnerId", int)

OnConflict = Literal["raise", "skip", "replace"]


class State(StrEnum):
    """Where a live job is. What succeeded or was cancelled is gone, and has none."""

    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    FAILED = "failed"
    PREPARED = "prepared"
    """An undecided transaction; running while the checker is asked about it."""


class AttemptError(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """How one counted attempt ended, when it did not succeed."""

    attempt: int
    at_ms: int
    text: str


class Job(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """One thing to do. The order of the fields is its stored form: add only at the end."""

    id: JobId
    queue: str
    task: str
    args: bytes
    due_ms: int
    priority: int
    key: str | None
    attempt: int
    """Attempts counted so far; the run that a lease allows is number ``attempt + 1``."""
    max_retries: int
    timeout_ms: int
    """0: no limit."""
    put_ms: int
    failed_ms: int | None = None
    """When it failed for good; None while it still may run."""
    snoozes: int = 0
    errors: tuple[AttemptError, ...] = ()
    """The last attempts' errors, oldest first, at most `limits.ERRORS_KEPT_MAX`."""
    misses: int = 0
    """How often in a row it has met a worker that does not have its task."""

    def after_error(self, attempt: int, at_ms: int, text: str) -> tuple[AttemptError, ...]:
        """The errors to keep once *attempt* has ended with *text*."""
        kept = limits.encodable(text)[-limits.ERROR_TEXT_SIZE_MAX :]
        return (*self.errors, AttemptError(attempt, at_ms, kept))[-limits.ERRORS_KEPT_MAX :]


class NewJob(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A job as it is asked for: all but what the store gives it."""

    queue: str
    task: str
    args: bytes
    due_ms: int
    priority: int = 0
    key: str | None = None
    on_conflict: OnConflict = "raise"
    max_retries: int = 5
    timeout_ms: int = 120_000


class Scheduled(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=0):
    """Waiting in its queue, in this place of the order of service."""

    priority: int
    due_ms: int


class Leased(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=1):
    """Held by a worker, to run or running."""

    owner: OwnerId


class Failed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=2):
    """Failed for good, in the dead-letter list."""

    failed_ms: int


Place = Scheduled | Leased | Failed


class Withdrawn(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A job as it leaves the store: what is needed to take out each of its rows."""

    id: JobId
    queue: str
    key: str | None
    place: Place


class LeaseRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a lease remembers of the waiting row that it replaced."""

    id: JobId
    queue: str
    priority: int
    due_ms: int
    attempt: int
    """The number of the run that this lease allows, from 1."""
    key: str | None


class Lease(msgspec.Struct, frozen=True, gc=False):
    """A worker's right to run *job*, as attempt number *attempt*."""

    owner: OwnerId
    job: Job
    attempt: int


class Owner(msgspec.Struct, frozen=True, gc=False, array_like=True, kw_only=True):
    """A worker process, as the store knows it."""

    id: OwnerId
    token: str
    """Names its files in the directory; unique for ever."""
    host: str
    pid: int
    started_ms: int
    queues: tuple[str, ...]


class JobRef(msgspec.Struct, frozen=True, gc=False):
    """A job by its id, or by queue and key."""

    id: JobId | None = None
    queue: str = ""
    key: str | None = None

    def __str__(self) -> str:
        return f"job {self.id}" if self.key is None else f"key {self.key!r} in queue {self.queue!r}"
