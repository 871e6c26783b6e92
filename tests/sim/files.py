"""Files and names as a disk keeps them: what a reader sees, and what a power cut leaves.

A file's unit is the sector: it is on the disk whole, as it was at some
moment since the last sync, each for itself. Its size, too, is that of some
moment since then. Names made, changed and removed since their directory was
synced are there or not: each, or all up to one.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from random import Random

SECTOR_SIZE = 512
_ZEROS = bytes(SECTOR_SIZE)


def os_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class File:
    """An inode."""

    def __init__(self) -> None:
        self.data = bytearray()
        """What a reader sees."""
        self.failures = 0
        """Syncs and write-backs that have failed."""
        self.is_failure_told = True
        """Whether anybody has been told of the last one: who opens the file later is not."""
        self.is_removed = False
        self._durable: dict[int, bytes] = {}
        self._durable_size = 0
        self._sectors: dict[int, list[bytes]] = {}  # what each dirty one held since the last sync
        self._sizes: list[int] = []

    # ------------------------------------------------------------ as it is used

    def write(self, data: bytes, offset: int) -> None:
        end = offset + len(data)
        if end > len(self.data):
            self._resize(end)
        self.data[offset:end] = data
        self._touch(offset, end)

    def truncate(self, size: int) -> None:
        if size < len(self.data):
            old = len(self.data)
            self._resize(size)
            self._touch(size, old)
        elif size > len(self.data):
            self._resize(size)

    def _resize(self, size: int) -> None:
        del self.data[size:]
        self.data.extend(bytes(size - len(self.data)))
        self._sizes.append(size)

    def _touch(self, start: int, end: int) -> None:
        for index in range(start // SECTOR_SIZE, -(-end // SECTOR_SIZE)):
            self._sectors.setdefault(index, []).append(self._sector(index))

    def _sector(self, index: int) -> bytes:
        start = index * SECTOR_SIZE
        return bytes(self.data[start : start + SECTOR_SIZE]).ljust(SECTOR_SIZE, b"\0")

    # ------------------------------------------------------------ as it is kept

    @property
    def is_dirty(self) -> bool:
        return bool(self._sectors or self._sizes)

    def sync(self) -> None:
        for index, versions in self._sectors.items():
            self._durable[index] = versions[-1]
        self._clean()
        self._durable_size = len(self.data)

    def fail_sync(self, random: Random) -> None:
        """As Linux does: pages count as clean, and can be read, though some are not on the disk."""
        for index, versions in self._sectors.items():
            if random.random() < 0.5:
                self._durable[index] = versions[-1]
        self._clean()
        if random.random() < 0.5:
            self._durable_size = len(self.data)
        else:
            self._sizes.append(len(self.data))
        self.failures += 1
        self.is_failure_told = False

    def cut(self, random: Random) -> None:
        """The power goes: what was not synced is there, or not, or in part."""
        mode = random.choice(["all", "none", "any", "any"])
        for index, versions in self._sectors.items():
            if mode == "all":
                self._durable[index] = versions[-1]
            elif mode == "any":
                kept = random.randrange(len(versions) + 1)
                if kept:
                    self._durable[index] = versions[kept - 1]
        if self._sizes and mode != "none":
            sizes = [self._durable_size, *self._sizes]
            self._durable_size = sizes[-1] if mode == "all" else random.choice(sizes)
        self.data = self._durable_data()
        self._clean()
        # What lies behind the end is no part of the file any more.
        self._durable = {
            i: self._sector(i) for i in self._durable if i * SECTOR_SIZE < len(self.data)
        }
        self.failures, self.is_failure_told = 0, True

    def damage(self, start: int, data: bytes) -> None:
        """The medium gives other bytes than it was given."""
        self.data[start : start + len(data)] = data
        for index in range(start // SECTOR_SIZE, -(-(start + len(data)) // SECTOR_SIZE)):
            self._durable[index] = self._sector(index)

    def _durable_data(self) -> bytearray:
        count = -(-self._durable_size // SECTOR_SIZE)
        data = bytearray().join(self._durable.get(index, _ZEROS) for index in range(count))
        del data[self._durable_size :]
        return data

    def _clean(self) -> None:
        self._sectors.clear()
        self._sizes.clear()


@dataclass
class _Change:
    """One change of a directory's names."""

    name: str
    node: Node
    new_name: str | None = None
    """Where it stands now; None: it stands nowhere."""
    is_new: bool = False


@dataclass
class Folder:
    """A directory."""

    names: dict[str, Node] = field(default_factory=dict)
    _durable: dict[str, Node] = field(default_factory=dict)
    _changes: list[_Change] = field(default_factory=list)

    def add(self, name: str, node: Node) -> None:
        self.names[name] = node
        self._changes.append(_Change(name, node, name, is_new=True))

    def rename(self, old: str, new: str) -> None:
        node = self.names.pop(old)
        replaced = self.names.get(new)
        if isinstance(replaced, File):
            replaced.is_removed = True
        self.names[new] = node
        self._changes.append(_Change(old, node, new))

    def remove(self, name: str) -> None:
        node = self.names.pop(name)
        if isinstance(node, File):
            node.is_removed = True
        self._changes.append(_Change(name, node))

    def sync(self) -> None:
        self._durable = dict(self.names)
        self._changes.clear()

    def cut(self, random: Random) -> None:
        """The power goes, here and in every directory below."""
        if random.random() < 0.5:
            kept = self._changes[: random.randrange(len(self._changes) + 1)]
        else:
            kept = [change for change in self._changes if random.random() < 0.5]
        for change in kept:
            self._keep(change)
        self._changes.clear()
        self.names = dict(self._durable)
        for node in self.names.values():
            if isinstance(node, File):
                node.is_removed = False
            node.cut(random)

    def _keep(self, change: _Change) -> None:
        if not change.is_new and self._durable.get(change.name) is change.node:
            del self._durable[change.name]
        if change.new_name is not None:
            self._durable[change.new_name] = change.node


Node = File | Folder


def find(folder: Folder, parts: tuple[str, ...]) -> Node:
    """What stands at *parts* below *folder*."""
    node: Node = folder
    for part in parts:
        if not isinstance(node, Folder):
            raise os_error(errno.ENOTDIR)
        if part not in node.names:
            raise os_error(errno.ENOENT)
        node = node.names[part]
    return node
