"""What a running task may know of itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from bide.jobs.when import datetime_of
from bide.model.job import Lease


class Context:
    """Given to a task that has a parameter annotated ``bide.Context``.

    The task's callers do not pass it.
    """

    __slots__ = ("_is_cancelled", "_is_stopping", "_lease")

    def __init__(
        self, lease: Lease, is_cancelled: Callable[[], bool], is_stopping: Callable[[], bool]
    ) -> None:
        self._lease = lease
        self._is_cancelled = is_cancelled
        self._is_stopping = is_stopping

    @property
    def job_id(self) -> int:
        return self._lease.job.id

    @property
    def queue(self) -> str:
        return self._lease.job.queue

    @property
    def key(self) -> str | None:
        return self._lease.job.key

    @property
    def attempt(self) -> int:
        """The number of this run, from 1. Snoozes and drains don't count."""
        return self._lease.attempt

    @property
    def max_retries(self) -> int:
        return self._lease.job.max_retries

    @property
    def due(self) -> datetime:
        """When this run was due, in UTC."""
        return datetime_of(self._lease.job.due_ms)

    @property
    def cancelled(self) -> bool:
        """Whether the job was cancelled while it runs: what it does is no longer wanted."""
        return self._is_cancelled()

    @property
    def stopping(self) -> bool:
        """Whether the worker is stopping: come to an end, or save what is done and snooze."""
        return self._is_stopping()
