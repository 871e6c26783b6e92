"""The few calls that change a disk, in one place.

Log, checkpoints and the files that name them go through a `Disk`, so that
another one can stand in for it, and what each failure of the operating
system means is said here once.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from bide.errors import NotAStore, StoreError, StoreFailed, StoreFull, StoreReadOnly

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR})


def store_error(error: OSError, path: Path) -> StoreError:
    """The error of bide's that says what *error* means for the user."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return StoreFull(
            f"{path}: {reason}; nothing of this call was stored: free space and try again",
            path=str(path),
        )
    if error.errno in _READ_ONLY:
        return StoreReadOnly(
            f"{path}: {reason}; give this user the right to write there", path=str(path)
        )
    if error.errno in _MISSING:
        return NotAStore(f"{path}: {reason}; was the directory moved or deleted?", path=str(path))
    return StoreFailed(f"{path}: {reason}", path=str(path))


@contextlib.contextmanager
def mapped_errors(path: Path) -> Iterator[None]:
    """The system's errors in the block become the store's."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise store_error(error, Path(error.filename or path)) from error


if sys.platform == "darwin":
    # There is no fdatasync, and fsync leaves the drive's own cache alone.
    def _sync(fd: int) -> None:
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
else:
    _sync = os.fdatasync


NEW_SUFFIX = ".new"
"""Ends the name of what is not whole yet: left by a process that died, it may go."""


class Disk(Protocol):
    """What the store asks of a disk. Each call may raise OSError."""

    def open(self, path: Path, *, create: bool) -> int: ...
    def open_to_read(self, path: Path) -> int:
        """As `open`, for a file that this process need not be allowed to write."""
        ...

    def close(self, fd: int) -> None: ...
    def size(self, fd: int) -> int:
        """How many bytes a file has; `FileNotFoundError` if it was removed."""
        ...

    def end(self, fd: int) -> int:
        """The same of a file that is written and synced all the time, removed or not.

        It does not ask for the file's times. Once they were asked for, Linux
        stamps the next write anew, and the sync behind it writes the stamp as well.
        """
        ...

    def write(self, fd: int, data: bytes, offset: int) -> None:
        """Write all of *data* at *offset*."""
        ...

    def read(self, fd: int, size: int, offset: int) -> bytes: ...
    def truncate(self, fd: int, size: int) -> None: ...
    def reserve(self, fd: int, size: int) -> None:
        """Have space for *size* bytes, which read as zeros, if the system can promise it."""
        ...

    def sync(self, fd: int) -> None: ...
    def sync_directory(self, path: Path) -> None:
        """Have the directory's names on the disk: files made, renamed and removed."""
        ...

    def names(self, path: Path) -> list[str]:
        """What stands in a directory, in no order."""
        ...

    def make_directory(self, path: Path) -> None: ...
    def rename(self, old: Path, new: Path) -> None:
        """Give a file or directory another name, in one step, in the place of a file there."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file, or a directory with all in it; none there is fine."""
        ...


def write_whole(disk: Disk, path: Path, data: bytes) -> None:
    """Write a file so that it is there whole, or as it was, whatever dies meanwhile."""
    new = path.with_name(path.name + NEW_SUFFIX)
    fd = disk.open(new, create=True)
    try:
        disk.truncate(fd, 0)
        disk.write(fd, data, 0)
        disk.sync(fd)
    finally:
        disk.close(fd)
    disk.rename(new, path)
    disk.sync_directory(path.parent)


def read_whole(disk: Disk, path: Path) -> bytes | None:
    """All of a file; None if there is none."""
    while True:
        try:
            fd = disk.open_to_read(path)
        except FileNotFoundError:
            return None
        try:
            return disk.read(fd, disk.size(fd), 0)
        except FileNotFoundError:
            continue  # another one has taken its place meanwhile
        finally:
            disk.close(fd)


class OsDisk:
    """The disk that the operating system gives."""

    def open(self, path: Path, *, create: bool) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return os.open(path, flags, FILE_MODE)

    def open_to_read(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        os.close(fd)

    def size(self, fd: int) -> int:
        status = os.fstat(fd)
        if status.st_nlink == 0:  # what is written to it goes with its last descriptor
            raise FileNotFoundError(errno.ENOENT, "the file was deleted")
        return status.st_size

    def end(self, fd: int) -> int:
        return os.lseek(fd, 0, os.SEEK_END)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        view = memoryview(data)
        while view:
            count = os.pwrite(fd, view, offset)
            view = view[count:]
            offset += count

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def reserve(self, fd: int, size: int) -> None:
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(fd, 0, size)
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise

    def sync(self, fd: int) -> None:
        _sync(fd)

    def sync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def names(self, path: Path) -> list[str]:
        return [entry.name for entry in path.iterdir()]

    def make_directory(self, path: Path) -> None:
        path.mkdir(DIRECTORY_MODE, exist_ok=True)

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def remove(self, path: Path) -> None:
        try:
            path.unlink()
        except FileNotFoundError:
            pass
        except (IsADirectoryError, PermissionError):  # macOS says EPERM of a directory
            if not path.is_dir():
                raise
            shutil.rmtree(path)
