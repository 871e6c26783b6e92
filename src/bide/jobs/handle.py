"""A job that was put, as its putter holds it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, Protocol

import msgspec

from bide.backends.port import JobInfo
from bide.errors import InvalidOption
from bide.model.job import JobId, JobRef
from bide.model.limits import check_destination, check_key


class Jobs(Protocol):
    """What a handle asks of its App."""

    def get(self, job_id: int | None = None) -> JobInfo | None: ...
    def cancel(self, job_id: int | None = None) -> bool: ...
    def kick(self, job_id: int | None = None) -> None: ...
    def move(
        self,
        job_id: int | None = None,
        *,
        delay: float | timedelta | None = None,
        run_at: datetime | None = None,
        priority: int | None = None,
    ) -> None: ...


class Handle(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A job's id, and what can be done with it."""

    _app: Jobs
    id: int
    outcome: Literal["put", "skipped", "replaced"]
    """What became of the put; "skipped": this is the job that held the key."""

    def __repr__(self) -> str:
        return f"<Handle of job {self.id} ({self.outcome})>"

    def get(self) -> JobInfo | None:
        """Where it is now; None once it has succeeded or was cancelled."""
        return self._app.get(self.id)

    def cancel(self) -> bool:
        """Withdraw it; False if it had ended before."""
        return self._app.cancel(self.id)

    def kick(self) -> None:
        """Make it due now."""
        self._app.kick(self.id)

    def move(
        self,
        *,
        delay: float | timedelta | None = None,
        run_at: datetime | None = None,
        priority: int | None = None,
    ) -> None:
        """Change when it is due, counted from now, or its priority."""
        self._app.move(self.id, delay=delay, run_at=run_at, priority=priority)


def job_ref(job_id: int | None, key: str | None, queue: str) -> JobRef:
    """The job that a call names by its id, or by key and queue; else `InvalidOption`."""
    if (job_id is None) == (key is None):
        raise InvalidOption("name the job by its id, or by key= and queue=")
    if key is not None:
        return JobRef(queue=check_destination(queue), key=check_key(key))
    if isinstance(job_id, bool) or not isinstance(job_id, int) or not 0 < job_id < 1 << 63:
        raise InvalidOption(f"job id {job_id!r}: use a positive int")
    return JobRef(id=JobId(job_id))
