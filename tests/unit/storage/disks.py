"""Disks that count, and that fail when told."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from bide.storage.disk import OsDisk


class FaultyDisk(OsDisk):
    """The real disk, which counts its calls and fails the one it is told to.

    A failure leaves what a real one may leave: half of a write, a closed descriptor.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.descriptors: set[int] = set()
        self.synced = threading.Event()
        """Set by every sync, one that fails too."""
        self._fail_at = -1
        self._method = ""
        self._errno = 0

    def fail(self, errno: int, *, at: int = 0, method: str = "") -> None:
        """Fail with *errno*: call *at* from here on, or every call of *method* from here on."""
        self.calls.clear()
        self._errno, self._fail_at, self._method = errno, -1 if method else at, method

    def heal(self) -> None:
        self._fail_at, self._method = -1, ""

    def count(self, method: str) -> int:
        return self.calls.count(method)

    def _fails(self, method: str) -> bool:
        self.calls.append(method)
        return method == self._method or len(self.calls) - 1 == self._fail_at

    def _error(self) -> OSError:
        return OSError(self._errno, os.strerror(self._errno))

    def open(self, path: Path, *, create: bool) -> int:
        if self._fails("open"):
            raise self._error()
        fd = super().open(path, create=create)
        self.descriptors.add(fd)
        return fd

    def open_to_read(self, path: Path) -> int:
        if self._fails("open_to_read"):
            raise self._error()
        fd = super().open_to_read(path)
        self.descriptors.add(fd)
        return fd

    def close(self, fd: int) -> None:
        fails = self._fails("close")
        super().close(fd)  # Linux closes it, whatever it says
        self.descriptors.discard(fd)
        if fails:
            raise self._error()

    def size(self, fd: int) -> int:
        if self._fails("size"):
            raise self._error()
        return super().size(fd)

    def end(self, fd: int) -> int:
        if self._fails("end"):
            raise self._error()
        return super().end(fd)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        if self._fails("write"):
            super().write(fd, data[: len(data) // 2], offset)
            raise self._error()
        super().write(fd, data, offset)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        if self._fails("read"):
            raise self._error()
        return super().read(fd, size, offset)

    def truncate(self, fd: int, size: int) -> None:
        if self._fails("truncate"):
            raise self._error()
        super().truncate(fd, size)

    def reserve(self, fd: int, size: int) -> None:
        if self._fails("reserve"):
            raise self._error()
        super().reserve(fd, size)

    def sync(self, fd: int) -> None:
        fails = self._fails("sync")
        self.synced.set()
        if fails:
            raise self._error()
        super().sync(fd)

    def sync_directory(self, path: Path) -> None:
        if self._fails("sync_directory"):
            raise self._error()
        super().sync_directory(path)

    def names(self, path: Path) -> list[str]:
        if self._fails("names"):
            raise self._error()
        return super().names(path)

    def make_directory(self, path: Path) -> None:
        if self._fails("make_directory"):
            raise self._error()
        super().make_directory(path)

    def rename(self, old: Path, new: Path) -> None:
        if self._fails("rename"):
            raise self._error()
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        if self._fails("remove"):
            raise self._error()
        super().remove(path)
