"""The log: append-only segments of records, the truth that the index is derived from.

The log does not know where it ends. The index does, in the transaction that
every append is part of: a `Position` goes in, the next one comes out. What
stands behind it was never acknowledged (its writer died, or its transaction
failed), and the next append cuts it off.

One process writes at a time, the one in LMDB's write transaction. Any
number may sync, each what it wrote itself.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from bide.errors import StoreFailed
from bide.format.record import HEAD_CHECK_OFFSET, Record, encode_record
from bide.format.segment import HEAD_SIZE, SegmentHead, encode_segment_head, segment_name
from bide.storage.disk import Disk, store_error
from bide.storage.log_files import LEFT_SIZE, START, LogFiles, Position

WRITE_SIZE_JOINED = 1 << 16
"""Up to this size a head and its body are joined for one write; above, copying costs more."""


RESERVE_SIZE = 1 << 20
"""Space taken ahead of the log's end."""


class Log(Protocol):
    """What a store asks of its log."""

    def append(self, body: bytes, at: Position, now_ms: int) -> Position: ...
    def stands(self, after: Position, size: int) -> bool: ...
    def sync(self, end: int = 0) -> None: ...
    def read(
        self, until: Position | None = None, *, start: Position = START
    ) -> Iterator[tuple[Record, Position]]: ...
    def file(self, base: int) -> str:
        """What to call the segment at *base* in an error."""
        ...

    def close(self) -> None: ...


class SegmentLog:
    """A log in the segment files of directory *path*.

    Args:
        suspect: A file that is there once anyone's sync of this log has failed.
    """

    def __init__(
        self,
        disk: Disk,
        path: Path,
        *,
        store_id: bytes,
        segment_size: int,
        suspect: Path | None = None,
    ) -> None:
        self.files = LogFiles(disk, path, store_id)
        self._disk = disk
        self._path = path
        self._suspect = suspect
        self._segment_size = segment_size
        self._base = -1
        self._fd = -1
        self._file = path
        self._room_end = 0  # how much of the segment's file has room on the disk, as far as known
        self._synced = 0  # a log offset up to which all is on the disk
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
            head, check = encode_record(
                body, offset=at.end, written_ms=now_ms, synced=self._synced, chain=at.chain
            )
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

    def sync(self, end: int = 0) -> None:
        """Put on the disk what this process has appended.

        Only the segment in use: one that was left was synced by whoever
        started the next one.

        Args:
            end: Up to where what was appended has been committed. Records
                that follow tell of it.

        Raises:
            StoreFailed: It may be lost. Never to be tried again: the kernel
                has dropped the dirty pages, and a second call would succeed.
        """
        with self._sync_lock:
            if self._fd < 0:
                return
            self._sync_segment(end)

    def read(
        self, until: Position | None = None, *, start: Position = START
    ) -> Iterator[tuple[Record, Position]]:
        """See `LogFiles.read`."""
        return self.files.read(until, start=start)

    def file(self, base: int) -> str:
        return self.files.file(base)

    def sync_segment(self, base: int) -> None:
        """Put a segment on the disk, whoever wrote it.

        Raises:
            StoreFailed: As `sync`.
            OSError: It can't be opened. Nothing is lost by that.
        """
        path = self._path / segment_name(base)
        fd = self._disk.open(path, create=False)
        try:
            self._disk.sync(fd)
        except OSError as error:
            raise _sync_error(path, error) from error
        finally:
            self._disk.close(fd)
        self._refuse_suspect()

    def cut(self, at: Position) -> None:
        """Drop what stands behind *at*, for good. Only while no other process appends.

        Raises:
            CorruptRecord: The log does not reach *at*.
        """
        self.close()
        for base in reversed(self.files.bases()):  # the log has no holes, whenever this ends
            if base > at.base:
                self._disk.remove(self._path / segment_name(base))
        if at != START:
            fd = self._disk.open(self._path / segment_name(at.base), create=False)
            try:
                if self._disk.size(fd) < at.end - at.base:
                    raise self.files.too_short(at.base, at.end, self._disk.size(fd))
                self._disk.truncate(fd, at.end - at.base)
                self._disk.sync(fd)
            finally:
                self._disk.close(fd)
        self._disk.sync_directory(self._path)

    def rewrite(self) -> None:
        """Write the last segment again: of a sync that failed, the kernel keeps pages, but no debt.

        Raises:
            StoreFailed: The disk refuses still.
        """
        for base in self.files.bases()[-1:]:
            data = self.files.segment(base)
            path = self._path / segment_name(base)
            try:
                fd = self._disk.open(path, create=False)
                try:
                    self._disk.write(fd, bytes(data), 0)
                    self._disk.sync(fd)
                finally:
                    self._disk.close(fd)
            except OSError as error:
                raise _sync_error(path, error) from error

    def start_at(self, at: Position) -> Position:
        """Begin an empty log where another ended; returns where its first record will stand."""
        try:
            return self._start_segment(at, at.end)
        finally:
            self.close()

    def trim(self, base: int) -> int:
        """Remove the segments before the one at *base*, the oldest first; returns their bytes."""
        size = 0
        for old, following in zip(bases := self.files.bases(), bases[1:], strict=False):
            if following > base:
                break
            self._disk.remove(self._path / segment_name(old))
            size += following - old
        return size

    def close(self) -> None:
        """Let go of the segment. What was not synced stays with the kernel."""
        with self._sync_lock:
            fd, self._fd, self._base = self._fd, -1, -1
            if fd >= 0:
                # What fails here was never promised: a sync says what is on the disk.
                with contextlib.suppress(OSError):
                    self._disk.close(fd)

    def _use(self, base: int) -> None:
        """Have the segment at *base* open; another process may have started it."""
        if base != self._base:
            fd = self._disk.open(self._path / segment_name(base), create=False)
            self._replace(fd, base)
            self._refuse_suspect()

    def _start_segment(self, at: Position, base: int) -> Position:
        if self._fd >= 0:
            self._disk.truncate(self._fd, at.end - at.base)  # what was reserved and not used
            self._sync_segment(at.end)  # before a later segment exists: the log has no holes
        fd = self._disk.open(self._path / segment_name(base), create=True)
        try:
            self._disk.truncate(fd, 0)  # left by a process that died right here
            head = encode_segment_head(SegmentHead(self.files.store_id, base, at.chain))
            self._disk.write(fd, head, 0)
            self._disk.sync(fd)
            self._disk.sync_directory(self._path)
        except OSError:
            self._disk.close(fd)
            raise
        self._replace(fd, base)
        return Position(base, base + HEAD_SIZE, at.chain)

    def _sync_segment(self, end: int) -> None:
        try:
            self._disk.sync(self._fd)
        except OSError as error:
            raise _sync_error(self._file, error) from error
        self._refuse_suspect()
        self._synced = max(self._synced, end)

    def _refuse_suspect(self) -> None:
        """See that no sync has failed.

        The kernel tells of a failure those who have the file open by then.
        Who opens it later syncs with success what is lost.
        """
        if self._suspect is None:
            return
        try:
            self._disk.close(self._disk.open_to_read(self._suspect))
        except FileNotFoundError:
            return
        except OSError as error:
            raise store_error(error, self._suspect) from error
        raise StoreFailed(
            f"{self._path}: a sync by another process failed; the last puts may be lost with the "
            "machine's power: check the disk, stop all that use the store, then open it again",
            path=str(self._path),
        )

    def _make_room(self, start: int, size: int) -> None:
        """Have zeros from *start* on, and space for *size* bytes.

        Space is taken ahead, since a sync that need not record a new file
        size is faster. What a dead writer or a failed transaction
        left is dropped: nothing but zeros ever stands behind the log's end.
        """
        # One call says all, mostly: the byte before is there, zeros follow, and room was taken.
        around = self._disk.read(self._fd, 1 + LEFT_SIZE, start - 1)
        is_clean = len(around) == 1 + LEFT_SIZE and not any(around[1:])
        if is_clean and start + size <= self._room_end:
            return
        file_size = self._disk.end(self._fd)
        if file_size < start:
            raise StoreFailed(
                f"{self._file}: {file_size} bytes, but the index has seen {start}: "
                "the log was cut or replaced under a running store",
                path=str(self._file),
            )
        if any(around[1:]):
            self._disk.truncate(self._fd, start)
            file_size = start
        self._room_end = file_size
        if start + size > file_size:
            self._disk.size(self._fd)  # a segment that was removed takes no more
            ahead = min(start + size + RESERVE_SIZE, max(self._segment_size, start + size))
            try:
                self._disk.reserve(self._fd, ahead)
                self._room_end = ahead
            except OSError as error:
                if error.errno != errno.ENOSPC:  # what is left may do for the record itself
                    raise

    def _replace(self, fd: int, base: int) -> None:
        with self._sync_lock:
            path = self._path / segment_name(base)
            # The old number is forgotten before it is free for others to have.
            old, self._fd, self._base, self._file = self._fd, fd, base, path
            self._room_end = 0
            if old >= 0:
                self._disk.close(old)


def _sync_error(path: Path, error: OSError) -> StoreFailed:
    return StoreFailed(
        f"{path}: sync failed ({error.strerror}); the last puts may be lost "
        "with the machine's power: check the disk, then open the store again",
        path=str(path),
    )


class MemoryLog:
    """A log in this process's memory: it keeps nothing, for a store that lives there too."""

    def append(self, body: bytes, at: Position, now_ms: int) -> Position:
        del now_ms
        return Position(0, at.end + len(body), 0)

    def stands(self, after: Position, size: int) -> bool:
        del after, size
        return False  # no other process: the position says all

    def sync(self, end: int = 0) -> None:
        """Nothing outlives the process."""

    def read(
        self, until: Position | None = None, *, start: Position = START
    ) -> Iterator[tuple[Record, Position]]:
        del until, start
        return iter(())

    def file(self, base: int) -> str:
        del base
        return "memory:"

    def close(self) -> None:
        """Nothing to let go of."""
