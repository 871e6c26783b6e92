"""One disk, and each process's way to it, where any call may fail, or be a process's last."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal, TypeVar

from tests.sim.files import File, Folder, find, os_error

T = TypeVar("T")

When = Literal["before", "midst", "after"]
Kind = Literal["kill", "power", "ENOSPC", "EIO"]


class Killed(BaseException):
    """This process is dead: nothing that it still does reaches anyone."""


class PowerCut(BaseException):
    """The machine is down."""


@dataclass(frozen=True)
class Fault:
    """What befalls a process at its call number *at* of the disk."""

    at: int
    kind: Kind
    when: When

    def __str__(self) -> str:
        return f"{self.kind} {self.when} disk call {self.at}"


@dataclass
class _Open:
    file: File
    failures_told: int


class SimDisk:
    """A disk, shared by all processes of a machine."""

    def __init__(self) -> None:
        self.root = Folder()
        self.is_full = False

    def folder(self, path: Path) -> Folder:
        node = find(self.root, path.parts[1:])
        if not isinstance(node, Folder):
            raise os_error(errno.ENOTDIR)
        return node

    def file(self, path: Path) -> File:
        node = find(self.root, path.parts[1:])
        if not isinstance(node, File):
            raise os_error(errno.EISDIR)
        return node


class ProcessDisk:
    """A `bide.storage.disk.Disk` for one process, until it dies.

    Args:
        on_call: Told of each call before it is carried out.
        power_off: Takes the machine down.
    """

    def __init__(
        self,
        disk: SimDisk,
        *,
        on_call: Callable[[int], None] = lambda number: None,
        power_off: Callable[[], None] = lambda: None,
    ) -> None:
        self.disk = disk
        self.is_dead = False
        self.faults: list[str] = []
        """What has befallen this process since `arm`."""
        self.is_spared = False
        """Nothing but the power may fail now, and no other process come between."""
        self._on_call = on_call
        self._power_off = power_off
        self._open: dict[int, _Open] = {}
        self._next_fd = 3
        self._fault: Fault | None = None
        self._random = Random(0)
        self._count = 0

    def arm(self, fault: Fault | None, random: Random) -> None:
        """Have *fault* happen, counting the calls from now on; None: none."""
        self._fault, self._random, self._count = fault, random, 0
        self.faults = []

    def die(self) -> None:
        self.is_dead = True
        self._open.clear()

    @property
    def open_count(self) -> int:
        return len(self._open)

    # ------------------------------------------------------------ the calls

    def open(self, path: Path, *, create: bool) -> int:
        def act() -> int:
            folder = self.disk.folder(path.parent)
            if path.name not in folder.names and create:  # a name finds room on a full disk, too
                folder.add(path.name, File())
            return self._opened(self.disk.file(path))

        return self._do("open", act)

    def open_to_read(self, path: Path) -> int:
        return self._do("open_to_read", lambda: self._opened(self.disk.file(path)))

    def close(self, fd: int) -> None:
        self._do("close", lambda: self._open.pop(fd), on_error=lambda: self._open.pop(fd))

    def size(self, fd: int) -> int:
        def act() -> int:
            file = self._open[fd].file
            if file.is_removed:
                raise os_error(errno.ENOENT)
            return len(file.data)

        return self._do("size", act)

    def end(self, fd: int) -> int:
        return self._do("end", lambda: len(self._open[fd].file.data))

    def write(self, fd: int, data: bytes, offset: int) -> None:
        def part() -> None:
            self._write(fd, data[: self._random.randrange(len(data) + 1)], offset)

        self._do("write", lambda: self._write(fd, data, offset), midst=part)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return self._do("read", lambda: bytes(self._open[fd].file.data[offset : offset + size]))

    def truncate(self, fd: int, size: int) -> None:
        self._do("truncate", lambda: self._open[fd].file.truncate(size))

    def reserve(self, fd: int, size: int) -> None:
        def act() -> None:
            file = self._open[fd].file
            if size > len(file.data):
                if self.disk.is_full:
                    raise os_error(errno.ENOSPC)
                file.truncate(size)

        self._do("reserve", act)

    def sync(self, fd: int) -> None:
        def act() -> None:
            opened = self._open[fd]
            opened.file.sync()
            if opened.failures_told < opened.file.failures:
                self._tell(opened)
                self.faults.append("sync: told of an earlier failure")
                raise os_error(errno.EIO)

        def fail() -> None:
            opened = self._open[fd]
            opened.file.fail_sync(self._random)
            self._tell(opened)

        self._do("sync", act, on_error=fail)

    def sync_directory(self, path: Path) -> None:
        self._do("sync_directory", lambda: self.disk.folder(path).sync())

    def names(self, path: Path) -> list[str]:
        return self._do("names", lambda: list(self.disk.folder(path).names))

    def make_directory(self, path: Path) -> None:
        def act() -> None:
            folder = self.disk.folder(path.parent)
            if path.name not in folder.names:
                folder.add(path.name, Folder())

        self._do("make_directory", act)

    def rename(self, old: Path, new: Path) -> None:
        assert old.parent == new.parent, "the simulated disk knows no other rename"

        def act() -> None:
            folder = self.disk.folder(old.parent)
            if old.name not in folder.names:
                raise os_error(errno.ENOENT)
            folder.rename(old.name, new.name)

        self._do("rename", act)

    def remove(self, path: Path) -> None:
        def act() -> None:
            folder = self.disk.folder(path.parent)
            if path.name in folder.names:
                folder.remove(path.name)

        self._do("remove", act)

    # ------------------------------------------------------------ what befalls them

    def _do(
        self,
        name: str,
        act: Callable[[], T],
        *,
        midst: Callable[[], object] | None = None,
        on_error: Callable[[], object] | None = None,
    ) -> T:
        """Carry out a call, or what the fault that is due makes of it.

        Args:
            midst: Does a part of it.
            on_error: What is done if the call fails.
        """
        if self.is_dead:
            raise Killed
        number, self._count = self._count, self._count + 1
        if not self.is_spared:
            self._on_call(number)
        if self.is_dead:
            raise Killed
        fault = self._fault
        if fault is None or fault.at != number or (self.is_spared and fault.kind != "power"):
            return act()
        self._fault = None
        self.faults.append(f"{name}: {fault}")
        if fault.kind in {"kill", "power"}:
            if fault.when == "after":
                act()
            elif fault.when == "midst" and midst is not None:
                midst()
            if fault.kind == "power":
                self._power_off()
                raise PowerCut
            raise Killed
        if on_error is not None:
            on_error()
        elif midst is not None and fault.when != "before":
            midst()
        raise os_error(errno.ENOSPC if fault.kind == "ENOSPC" else errno.EIO)

    def _opened(self, file: File) -> int:
        fd, self._next_fd = self._next_fd, self._next_fd + 1
        # Linux tells of a failure whoever had the file open, or else the first who opens it.
        told = file.failures if file.is_failure_told else file.failures - 1
        self._open[fd] = _Open(file, told)
        return fd

    def _tell(self, opened: _Open) -> None:
        opened.failures_told = opened.file.failures
        opened.file.is_failure_told = True

    def _write(self, fd: int, data: bytes, offset: int) -> None:
        file = self._open[fd].file
        if self.disk.is_full and offset + len(data) > len(file.data):
            file.write(data[: max(0, len(file.data) - offset)], offset)
            raise os_error(errno.ENOSPC)
        file.write(data, offset)
