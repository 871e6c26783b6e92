"""Every error that bide raises on purpose.

::

    BideError
    ├── UsageError (ValueError)   the call was wrong; nothing was done
    │   ├── InvalidName           a queue, task or key that bide cannot hold
    │   ├── InvalidDelay          a delay or a due time that is not one
    │   ├── InvalidOption         any other option out of its range
    │   ├── InvalidArguments      arguments that do not fit a task's signature
    │   ├── InvalidUrl            a store's URL that names no backend
    │   ├── BodyTooLarge          arguments over the limit
    │   ├── BatchTooLarge         more jobs in one call than the limit
    │   ├── UnknownTask           a task that no worker of its queue has
    │   ├── UnknownQueue          a queue that no task and no job names
    │   ├── DuplicateTask         two functions under one name
    │   └── AppNotFound           module:attribute that leads to no App
    ├── JobError                  the job is not as the call supposed
    │   ├── JobNotFound
    │   ├── KeyTaken
    │   ├── LeaseLost
    │   └── WrongState
    └── StoreError                the store cannot do it
        ├── NotAStore             nothing there, or another program's directory
        ├── UnsupportedFormat     written by a version of bide that this one cannot read
        ├── StoreFull
        ├── StoreReadOnly
        ├── StoreFailed           the disk refused; what was acknowledged is safe
        ├── StoreClosed
        ├── StoreLocked
        ├── RecoveryNeeded        the machine went down while it was in use
        ├── CorruptRecord
        ├── CorruptCheckpoint     a checkpoint or backup that is damaged, or none
        └── CorruptIndex

A mistake inside bide itself is an assertion, and stands outside this tree.
"""

from __future__ import annotations


class BideError(Exception):
    """The root: catches whatever bide raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        # Exception's own would call the class with the message alone, and some want fields too.
        return _made_anew, (type(self), self.args, vars(self))


def _made_anew(
    kind: type[BideError], args: tuple[object, ...], fields: dict[str, object]
) -> BideError:
    """An error as it was pickled or copied."""
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    return error


class UsageError(BideError, ValueError):
    """The call was wrong. Nothing was done; change the call."""


class InvalidName(UsageError):
    """A queue, task or key that cannot be one."""

    def __init__(self, message: str, *, name: object) -> None:
        super().__init__(message)
        self.name = name


class InvalidDelay(UsageError):
    """A delay or due time that is negative, not a number, naive or too far."""


class InvalidOption(UsageError):
    """An option out of its range."""


class InvalidArguments(UsageError):
    """Arguments that do not fit the task's signature."""

    def __init__(self, message: str, *, task: str) -> None:
        super().__init__(message)
        self.task = task


class InvalidUrl(UsageError):
    """A URL that names no backend."""


class BodyTooLarge(UsageError):
    """Encoded arguments over the limit."""

    def __init__(self, message: str, *, size: int, size_max: int) -> None:
        super().__init__(message)
        self.size = size
        self.size_max = size_max


class BatchTooLarge(UsageError):
    """More jobs, or more bytes, in one call than the limit."""

    def __init__(self, message: str, *, count: int, count_max: int) -> None:
        super().__init__(message)
        self.count = count
        self.count_max = count_max


class UnknownTask(UsageError):
    """A task that no worker of its queue has: named in the error of a job that waited for one."""

    def __init__(self, message: str, *, task: str) -> None:
        super().__init__(message)
        self.task = task


class UnknownQueue(UsageError):
    """A queue that no task declares and no job is in."""

    def __init__(self, message: str, *, queue: str) -> None:
        super().__init__(message)
        self.queue = queue


class DuplicateTask(UsageError):
    """Two functions registered under one name."""

    def __init__(self, message: str, *, task: str) -> None:
        super().__init__(message)
        self.task = task


class AppNotFound(UsageError):
    """A ``module:attribute`` that does not lead to an App."""


class JobError(BideError):
    """The job is not in the state that the call supposed."""

    def __init__(self, message: str, *, job_id: int | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.key = key


class JobNotFound(JobError):
    """No live job has this id or key."""


class KeyTaken(JobError):
    """A live job of the queue holds this key already."""


class LeaseLost(JobError):
    """The lease ended before this settlement: the job was cancelled or given to another."""


class WrongState(JobError):
    """The job's state does not allow this."""


class StoreError(BideError):
    """The store cannot do what was asked; *path* says which."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class NotAStore(StoreError):
    """The path holds no store of bide's."""


class UnsupportedFormat(StoreError):
    """The store was written by a version of bide that this one cannot read."""


class StoreFull(StoreError):
    """No space is left. Nothing of the call was stored; it may be tried again."""


class StoreReadOnly(StoreError):
    """The directory or its file system does not let this process write."""


class StoreFailed(StoreError):
    """The disk refused a read, write or sync. The store has closed itself."""


class StoreClosed(StoreError):
    """The store was closed before this call."""


class StoreLocked(StoreError):
    """Another process holds the store in a way that excludes this one."""


class CorruptRecord(StoreError):
    """Bytes of the log that cannot be a record."""

    def __init__(self, message: str, *, path: str = "", offset: int = 0) -> None:
        super().__init__(message, path=path)
        self.offset = offset


class CorruptCheckpoint(StoreError):
    """Bytes that cannot be a checkpoint or a backup, or not a whole one."""


class RecoveryNeeded(StoreError):
    """The machine went down while the store was in use, and who only reads may not mend it."""


class CorruptIndex(StoreError):
    """A row of the index that cannot be one."""
