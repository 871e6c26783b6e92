"""Jobs put in two phases: stored first, and put, or not, once the caller knows."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import msgspec

from bide.backends.port import Sync
from bide.errors import BideError, InvalidOption, WrongState
from bide.format.group import Group, decode_group, encode_group
from bide.jobs.handle import Handle
from bide.jobs.task import Request
from bide.model.commands import PutResult
from bide.model.job import Job, JobId, NewJob
from bide.model.limits import LABEL_SIZE_MAX, RETRIES_MAX
from bide.model.queue import PREPARED_TASK, prepared_queue

CHECK_TIMEOUT_MS = 60_000
"""How long one call of the checker may take."""


class Decide(Protocol):
    """What a transaction asks of the store."""

    def __call__(
        self, job_id: JobId, *, is_commit: bool, sync: Sync | None = None
    ) -> tuple[PutResult, ...]: ...


class Transaction:
    """Jobs that `App.prepare` has stored, undecided.

    Used as a block, it is rolled back if an exception leaves the block. A
    block that is left otherwise decides nothing: what is not committed or
    rolled back stays undecided, and the app's checker is asked about it.

    >>> import bide
    >>> app = bide.App("memory:")
    >>> @app.task
    ... def ship(order_id: int) -> None: ...
    >>> with app.prepare(ship.request(42), label="order 42") as prepared:
    ...     pass  # the program's own commit comes here
    ...     handles = prepared.commit()
    >>> app.close()
    """

    def __init__(
        self,
        job_id: JobId,
        decide: Decide,
        handle: Callable[[PutResult], Handle],
        *,
        sync: Sync | None = None,
    ) -> None:
        self.id = job_id
        """Of the job that stands for it, for `bide show`."""
        self._decide = decide
        self._handle = handle
        self._sync: Sync | None = sync
        self._lock = threading.Lock()
        self._handles: list[Handle] | None = None
        self._is_rolled_back = False

    def __repr__(self) -> str:
        return f"<Transaction {self.id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._handles is None:
            with contextlib.suppress(BideError):  # the checker will see to it
                self.rollback()

    def commit(self) -> list[Handle]:
        """Put all its jobs, in one commit; returns their handles, also when called again.

        Raises:
            KeyTaken: It stays undecided.
            WrongState: It was rolled back here.
            JobNotFound: It was decided elsewhere: by the checker, or cancelled by its id.
            StoreError: It stays undecided.
        """
        with self._lock:
            if self._is_rolled_back:
                raise WrongState(f"transaction {self.id} was rolled back", job_id=self.id)
            if self._handles is None:
                results = self._decide(JobId(self.id), is_commit=True, sync=self._sync)
                self._handles = [self._handle(result) for result in results]
            return list(self._handles)

    def rollback(self) -> None:
        """Put none of its jobs, ever. Doing it again is harmless.

        Raises:
            WrongState: It was committed here.
            JobNotFound: It was decided elsewhere.
        """
        with self._lock:
            if self._handles is not None:
                raise WrongState(f"transaction {self.id} was committed", job_id=self.id)
            if not self._is_rolled_back:
                self._decide(JobId(self.id), is_commit=False, sync=self._sync)
                self._is_rolled_back = True


class PreparedJob(msgspec.Struct, frozen=True):
    """One job of an undecided transaction."""

    task: str
    queue: str
    key: str | None
    args: bytes
    """As stored; `arguments` has them decoded."""
    due_ms: int

    @property
    def arguments(self) -> dict[str, Any]:
        """The task's arguments by name, as plain values."""
        values: dict[str, Any] = msgspec.msgpack.decode(self.args)
        return values


class Prepared(msgspec.Struct, frozen=True):
    """An undecided transaction, as the checker is asked about it."""

    id: int
    label: str
    """What `App.prepare` was told."""
    jobs: tuple[PreparedJob, ...]
    prepared_ms: int
    """When it was stored, in Unix ms."""
    asked: int
    """How often it was asked about before, in vain."""


Check = Callable[[Prepared], Any]
"""A checker: True commits, False rolls back, None or an exception puts the question off."""


def prepared_job(
    requests: Sequence[Request], label: object, check_after_ms: int, now_ms: int
) -> NewJob:
    """The job that stands for *requests*, due when the checker is to be asked."""
    if not isinstance(label, str) or len(label) > LABEL_SIZE_MAX:
        raise InvalidOption(f"label {label!r:.100}: use a str of up to {LABEL_SIZE_MAX} characters")
    try:
        label.encode()
    except UnicodeEncodeError as error:
        raise InvalidOption(f"label {label!r}: not encodable as UTF-8 ({error.reason})") from None
    jobs = tuple(request.new_job(now_ms) for request in requests)
    return NewJob(
        queue=prepared_queue(jobs[0].queue),
        task=PREPARED_TASK,
        args=encode_group(Group(label, jobs)),
        due_ms=now_ms + check_after_ms,
        max_retries=RETRIES_MAX,
        timeout_ms=CHECK_TIMEOUT_MS,
    )


def prepared_of(job: Job) -> Prepared:
    """What the job of an undecided transaction stands for; `CorruptIndex` if it can't be read."""
    group = decode_group(job.args)
    return Prepared(
        id=job.id,
        label=group.label,
        jobs=tuple(
            PreparedJob(new.task, new.queue, new.key, new.args, new.due_ms) for new in group.jobs
        ),
        prepared_ms=job.put_ms,
        asked=job.snoozes + job.attempt,
    )
