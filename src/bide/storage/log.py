"""The log: append-only segments of records, the truth that the index is derived from.

The log does not know where it ends. The index does, in the transaction that
every append is part of: a `Position` goes in, the next one comes out. What
stands behind it was never acknowledged (its writer died, or its transaction
failed), and the next append cuts it off.

One process writes at a time, the one in LMDB's write transaction. Any
number may sync, each what it wrote itself.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from bide.errors import CorruptRecord, StoreFailed
from bide.format.record import HEAD_CHECK_OFFSET, MAGIC, Record, decode_record, encode_record
from bide.format.segment import (
    HEAD_SIZE,
    SegmentHead,
    decode_segment_head,
    encode_segment_head,
    segment_base,
    segment_name,
)
from bide.storage.disk import Disk, store_error

WRITE_SIZE_JOINED = 1 << 16
"""Up to this size a head and its body are joined for one write; above, copying costs more."""


class Position(msgspec.Struct, frozen=True, array_like=True):
    """An end of the log."""

    base: int = 0
    """Where the segment that the last record stands in starts."""
    end: int = 0
    """The log offset just past the last record; 0 before the first segment."""
    chain: int = 0
    """The head check of the last record."""


START = Position()

RESERVE_SIZE = 1 << 20
"""Space taken ahead of the log's end."""

_LEFT_SIZE = 4
"""A record starts with its magic, so these bytes tell whether one was left."""


class Log(Protocol):
    """What a store asks of its log."""

    def append(self, body: bytes, at: Position, now_ms: int) -> Position: ...
    def stands(self, after: Position, size: int) -> bool: ...
    def sync(self) -> None: ...
    def read(self, until: Position | None = None) -> Iterator[tuple[Record, Position]]: ...
    def file(self, base: int) -> str:
        """What to call the segment at *base* in an error."""
        ...

    def close(self) -> None: ...


class SegmentLog:
    """A log in the segment files of directory *path*."""

    def __init__(self, disk: Disk, path: Path, *, store_id: bytes, segment_size: int) -> None:
        self._disk = disk
        self._path = path
        self._store_id = store_id
        self._segment_size = segment_size
        self._base = -1
        self._fd = -1
        self._file = path
        self._sync_lock = threading.Lock()  # held to sync the segment, and to let go of it

    def append(self, body: bytes, at: Position, now_ms: int) -> Position:
        """Write one record where the log ends, and return the new end.

        Raises:
            StoreFull: Nothing counts as written; the next append cuts it off.
            StoreFailed: The disk refused, or lacks what the index has seen.
        """
        try:
            if at == START:
                at = self._start_segment(at, 0)
            elif at.end - at.base >= self._segment_size:
                self._use(at.base)
                at = self._start_segment(at, at.end)
            elif at.base != self._base:
                self._use(at.base)
            head, check = encode_record(body, offset=at.end, written_ms=now_ms, chain=at.chain)
            start = at.end - at.base
            self._make_room(start, len(head) + len(body))
            if len(body) <= WRITE_SIZE_JOINED:
                self._disk.write(self._fd, head + body, start)
            else:
                self._disk.write(self._fd, head, start)
                self._disk.write(self._fd, body, start + len(head))
        except OSError as error:
            raise store_error(error, self._file) from error
        return Position(at.base, at.end + len(head) + len(body), check)

    def stands(self, after: Position, size: int) -> bool:
        """Whether the record of *size* bytes that ends at *after* stands there now."""
        offset = after.end - after.base - size + HEAD_CHECK_OFFSET
        return self._base == after.base and self._disk.read(
            self._fd, 4, offset
        ) == after.chain.to_bytes(4, "big")

    def sync(self) -> None:
        """Put on the disk what this process has appended.

        Only the segment in use: one that was left was synced by whoever
        started the next one.

        Raises:
            StoreFailed: It may be lost. Never to be tried again: the kernel
                has dropped the dirty pages, and a second call would succeed.
        """
        with self._sync_lock:
            if self._fd < 0:
                return
            self._sync_segment()

    def read(self, until: Position | None = None) -> Iterator[tuple[Record, Position]]:
        """The records up to *until*, oldest first, each with the end of the log behind it.

        Args:
            until: Where to stop. None: at the last whole record; a torn
                tail of the last segment is no fault then.

        Raises:
            CorruptRecord: The log is damaged, at *path* and *offset*, or
                ends before *until*.
        """
        base = chain = 0
        bases = self.bases()
        while bases if until is None else base < until.end:
            path = self._path / segment_name(base)
            try:
                data = memoryview(path.read_bytes())
            except OSError as error:
                raise CorruptRecord(
                    f"{path}: {error.strerror}; the records from here on are missing",
                    path=str(path),
                    offset=base,
                ) from error
            end = base
            is_last = until is None and base == bases[-1]
            for record, end in self._read_segment(path, data, base, chain, is_last=is_last):
                yield record, Position(base, end, record.check)
                chain = record.check
                if until is not None and end >= until.end:
                    return
            if is_last:
                return
            if end == base or end != base + len(data):
                raise CorruptRecord(
                    f"{path}: it ends within the record at {end}", path=str(path), offset=end
                )
            base = end

    def _read_segment(
        self, path: Path, data: memoryview, base: int, chain: int, *, is_last: bool
    ) -> Iterator[tuple[Record, int]]:
        """The whole records of one segment, each with the log offset behind it."""
        try:
            head = self._read_head(data, base, is_last=is_last)
            if head is None:
                return
            if head.chain != chain or head.store_id != self._store_id:
                raise CorruptRecord(f"segment at {base}: it is not this log's", offset=base)
            offset = base + HEAD_SIZE
            while not _is_reserved(data, offset - base):
                try:
                    decoded = decode_record(data, offset - base, offset=offset)
                except CorruptRecord:
                    if is_last and not _has_record(data, offset - base + 1, base):
                        return  # written in part: space taken ahead hides where it was torn
                    raise
                if decoded is None:
                    return
                record, end = decoded
                if record.chain != chain:
                    raise CorruptRecord(
                        f"record at {offset}: it does not follow the one before", offset=offset
                    )
                yield record, base + end
                chain, offset = record.check, base + end
        except CorruptRecord as error:
            raise CorruptRecord(f"{path}: {error}", path=str(path), offset=error.offset) from None

    def file(self, base: int) -> str:
        return str(self._path / segment_name(base))

    def bases(self) -> list[int]:
        """Where each segment starts, in order."""
        names = (segment_base(entry.name) for entry in self._path.iterdir())
        return sorted(base for base in names if base is not None)

    def close(self) -> None:
        """Let go of the segment. What was not synced stays with the kernel."""
        with self._sync_lock:
            fd, self._fd, self._base = self._fd, -1, -1
            if fd >= 0:
                self._disk.close(fd)

    def _use(self, base: int) -> None:
        """Have the segment at *base* open; another process may have started it."""
        if base != self._base:
            self._replace(self._disk.open(self._path / segment_name(base), create=False), base)

    def _start_segment(self, at: Position, base: int) -> Position:
        if self._fd >= 0:
            self._disk.truncate(self._fd, at.end - at.base)  # what was reserved and not used
            self._sync_segment()  # before a later segment exists: the log has no holes
        fd = self._disk.open(self._path / segment_name(base), create=True)
        try:
            self._disk.truncate(fd, 0)  # left by a process that died right here
            head = encode_segment_head(SegmentHead(self._store_id, base, at.chain))
            self._disk.write(fd, head, 0)
            self._disk.sync(fd)
            self._disk.sync_directory(self._path)
        except OSError:
            self._disk.close(fd)
            raise
        self._replace(fd, base)
        return Position(base, base + HEAD_SIZE, at.chain)

    def _read_head(self, data: memoryview, base: int, *, is_last: bool) -> SegmentHead | None:
        try:
            return decode_segment_head(data, base=base)
        except CorruptRecord:
            if is_last and not _has_record(data, 0, base):
                return None  # its maker died, or the power went, before it was used
            raise

    def _sync_segment(self) -> None:
        try:
            self._disk.sync(self._fd)
        except OSError as error:
            raise StoreFailed(
                f"{self._file}: sync failed ({error.strerror}); the last puts may be lost "
                "with the machine's power: check the disk, then open the store again",
                path=str(self._file),
            ) from error

    def _make_room(self, start: int, size: int) -> None:
        """Have zeros from *start* on, and space for *size* bytes.

        Space is taken ahead, since a sync that need not record a new file
        size is faster. What a dead writer or a failed transaction
        left is dropped: nothing but zeros ever stands behind the log's end.
        """
        file_size = self._disk.size(self._fd)
        if file_size < start:
            raise StoreFailed(
                f"{self._file}: {file_size} bytes, but the index has seen {start}: "
                "the log was cut or replaced under a running store",
                path=str(self._file),
            )
        if any(self._disk.read(self._fd, _LEFT_SIZE, start)):
            self._disk.truncate(self._fd, start)
            file_size = start
        if start + size > file_size:
            ahead = min(start + size + RESERVE_SIZE, max(self._segment_size, start + size))
            try:
                self._disk.reserve(self._fd, ahead)
            except OSError as error:
                if error.errno != errno.ENOSPC:  # what is left may do for the record itself
                    raise

    def _replace(self, fd: int, base: int) -> None:
        with self._sync_lock:
            path = self._path / segment_name(base)
            # The old number is forgotten before it is free for others to have.
            old, self._fd, self._base, self._file = self._fd, fd, base, path
            if old >= 0:
                self._disk.close(old)


def _is_reserved(data: memoryview, start: int) -> bool:
    """Whether nothing stands from byte *start* on but space taken ahead."""
    return not any(data[start : start + _LEFT_SIZE]) and not any(data[start:])


def _has_record(data: memoryview, start: int, base: int) -> bool:
    """Whether a whole record stands anywhere from byte *start* of the segment at *base*."""
    rest = bytes(data[start:])
    at = rest.find(MAGIC)
    while at >= 0:
        try:
            if decode_record(data, start + at, offset=base + start + at) is not None:
                return True
        except CorruptRecord:
            pass
        at = rest.find(MAGIC, at + 1)
    return False


class MemoryLog:
    """A log in this process's memory: it keeps nothing, for a store that lives there too."""

    def append(self, body: bytes, at: Position, now_ms: int) -> Position:
        del now_ms
        return Position(0, at.end + len(body), 0)

    def stands(self, after: Position, size: int) -> bool:
        del after, size
        return False  # no other process: the position says all

    def sync(self) -> None:
        """Nothing outlives the process."""

    def read(self, until: Position | None = None) -> Iterator[tuple[Record, Position]]:
        del until
        return iter(())

    def file(self, base: int) -> str:
        del base
        return "memory:"

    def close(self) -> None:
        """Nothing to let go of."""
