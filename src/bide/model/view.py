"""What the rules may ask about the present."""

from __future__ import annotations

from typing import Protocol

from bide.model.job import Job, JobId, LeaseRow, Owner, OwnerId
from bide.model.queue import QueueRow

DueRow = tuple[int, int, JobId]
"""(priority, due_ms, id) of a waiting job."""


class View(Protocol):
    """The store, as one transaction sees it."""

    def next_job_id(self) -> JobId: ...
    def next_owner_id(self) -> OwnerId: ...

    def job(self, job_id: JobId) -> Job | None:
        """The job; `CorruptIndex` if its row cannot be read."""
        ...

    def holder(self, queue: str, key: str) -> JobId | None:
        """The live job that holds *key*."""
        ...

    def due(self, queue: str, now_ms: int, limit: int) -> list[DueRow]:
        """Due jobs, in order of service."""
        ...

    def waiting(
        self,
        queue: str,
        from_ms: int,
        until_ms: int,
        limit: int,
        after: tuple[int, int, int] | None = None,
    ) -> list[DueRow]:
        """Jobs with ``from_ms <= due < until_ms`` behind *after*, in order of service."""
        ...

    def next_due(self, queue: str) -> int | None:
        """The earliest due time of the queue's waiting jobs."""
        ...

    def failed(
        self, queue: str, limit: int, after: tuple[int, int] | None = None
    ) -> list[tuple[int, JobId]]:
        """(failed_ms, id) of failed jobs behind *after*, oldest failure first."""
        ...

    def live(self, queue: str) -> tuple[int, int, int]:
        """How many of the queue's jobs wait, run, and have failed."""
        ...

    def is_waiting(self, job: Job) -> bool: ...
    def owner(self, owner: OwnerId) -> Owner | None: ...
    def owner_of(self, job_id: JobId) -> OwnerId | None: ...
    def lease(self, owner: OwnerId, job_id: JobId) -> LeaseRow | None: ...
    def leases(self, owner: OwnerId, limit: int) -> list[LeaseRow]: ...

    def queue(self, name: str) -> QueueRow | None:
        """What is kept of the queue; None for one that was never paused, and is no channel."""
        ...

    def channels(self, topic: str) -> list[QueueRow]:
        """The topic's channels, dropped ones too while they have jobs."""
        ...
