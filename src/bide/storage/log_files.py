"""The log's files, as they are read: by recovery, by a check, by a follower.

Where the log ends is not theirs to say: the index does, and after a crash
of the machine the last whole record does. A reader takes nothing on trust:
each record's checks, its place, and that it follows the one before.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from bide.errors import CorruptRecord
from bide.format.record import HEAD_SIZE as RECORD_HEAD_SIZE
from bide.format.record import MAGIC, Record, decode_record, peek_written_ms
from bide.format.segment import (
    HEAD_SIZE,
    SegmentHead,
    decode_segment_head,
    segment_base,
    segment_name,
)
from bide.storage.disk import Disk, store_error

LEFT_SIZE = 4
"""A record starts with its magic, so these bytes tell whether one was left."""


class Position(msgspec.Struct, frozen=True, array_like=True):
    """An end of the log."""

    base: int = 0
    """Where the segment that the last record stands in starts."""
    end: int = 0
    """The log offset just past the last record; 0 before the first segment."""
    chain: int = 0
    """The head check of the last record."""


START = Position()


class LogFiles:
    """The segments in directory *path*."""

    def __init__(self, disk: Disk, path: Path, store_id: bytes) -> None:
        self.disk = disk
        self.path = path
        self.store_id = store_id

    def file(self, base: int) -> str:
        """What to call the segment at *base* in an error."""
        return str(self.path / segment_name(base))

    def bases(self) -> list[int]:
        """Where each segment starts, in order."""
        names = map(segment_base, self.disk.names(self.path))
        return sorted(base for base in names if base is not None)

    def segment(self, base: int) -> memoryview:
        """The bytes of the segment that starts at *base*; OSError if there is none."""
        fd = self.disk.open_to_read(self.path / segment_name(base))
        try:
            return memoryview(self.disk.read(fd, self.disk.size(fd), 0))
        finally:
            self.disk.close(fd)

    def part(self, base: int, start: int, size: int) -> bytes:
        """Up to *size* bytes from log offset *start* on, of the segment at *base*."""
        fd = self.disk.open_to_read(self.path / segment_name(base))
        try:
            return self.disk.read(fd, size, start - base)
        finally:
            self.disk.close(fd)

    def start_of(self, base: int) -> Position:
        """Where the records of the segment at *base* begin, as a start to `read` from.

        Raises:
            CorruptRecord: Its head is damaged, or cut short.
        """
        head = decode_segment_head(self.part(base, base, HEAD_SIZE), base=base)
        if head is None:
            path = self.file(base)
            raise CorruptRecord(f"{path}: cut short within its head", path=path, offset=base)
        return Position(base, base, head.chain)

    def first_written_ms(self, base: int) -> int:
        """When the first record of the segment at *base* was written; 0 if it has none."""
        fd = self.disk.open_to_read(self.path / segment_name(base))
        try:
            size = HEAD_SIZE + RECORD_HEAD_SIZE
            head = self.disk.read(fd, size, 0)
        finally:
            self.disk.close(fd)
        return peek_written_ms(head[HEAD_SIZE:]) if len(head) == size else 0

    def read(
        self, until: Position | None = None, *, start: Position = START
    ) -> Iterator[tuple[Record, Position]]:
        """The records from *start* to *until*, each with the end of the log behind it.

        Args:
            until: Where to stop. None: at the last whole record; a torn
                tail of the last segment is no fault then.
            start: An end of the log that was true once.

        Raises:
            CorruptRecord: The log is damaged, at *path* and *offset*, lacks
                a part, or ends before *until*.
        """
        base, end, chain = start.base, start.end, start.chain
        bases = self.bases()
        if start == START and not bases:
            return
        while until is None or end < until.end:
            is_last = until is None and bool(bases) and base == bases[-1]
            data = self._open(base, end)
            whole = base
            records = self.read_segment(data, base, end, chain, is_last=is_last)
            for record, whole in records:
                chain, end = record.check, whole
                yield record, Position(base, end, chain)
                if until is not None and end >= until.end:
                    break
            else:
                size = len(data)
                if is_last:
                    return
                if max(whole, end) != base + size or size <= HEAD_SIZE:
                    raise CorruptRecord(
                        f"{self.file(base)}: it ends within the record at {end}",
                        path=self.file(base),
                        offset=end,
                    )
                base = end = base + size

    def read_segment(
        self, data: memoryview, base: int, start: int, chain: int, *, is_last: bool
    ) -> Iterator[tuple[Record, int]]:
        """The whole records of one segment from offset *start* on, each with the offset behind it.

        Args:
            chain: The head check of the record before *start*.
            is_last: What stands behind the last whole record may be a torn tail.
        """
        try:
            at_start = start <= base + HEAD_SIZE
            # Behind the first record, a checkpoint has had the head on the disk.
            head = self._read_head(data, base, is_last=is_last and at_start)
            if head is None:
                return
            if head.store_id != self.store_id or (at_start and head.chain != chain):
                raise CorruptRecord(f"segment at {base}: it is not this log's", offset=base)
            offset = base + HEAD_SIZE if at_start else start
            while not is_reserved(data, offset - base):
                try:
                    decoded = decode_record(data, offset - base, offset=offset)
                    if decoded is None:
                        return
                    record, end = decoded
                    if record.chain != chain:
                        raise CorruptRecord(
                            f"record at {offset}: it does not follow the one before", offset=offset
                        )
                except CorruptRecord:
                    if is_last and synced_behind(data, offset - base, base) <= offset:
                        return  # lost unsynced, in whole or in part
                    raise
                yield record, base + end
                chain, offset = record.check, base + end
        except CorruptRecord as error:
            path = self.file(base)
            raise CorruptRecord(f"{path}: {error}", path=path, offset=error.offset) from None

    def _open(self, base: int, end: int) -> memoryview:
        try:
            data = self.segment(base)
        except FileNotFoundError as error:
            path = self.file(base)
            raise CorruptRecord(
                f"{path}: {error.strerror}; the records from here on are missing",
                path=path,
                offset=base,
            ) from error
        except OSError as error:  # it may well be whole: nothing to repair
            raise store_error(error, self.path / segment_name(base)) from error
        if len(data) < end - base:
            raise self.too_short(base, end, len(data))
        return data

    def too_short(self, base: int, end: int, size: int) -> CorruptRecord:
        """The error of a segment that has *size* bytes, and was to reach offset *end*."""
        path = self.file(base)
        return CorruptRecord(
            f"{path}: it ends before {end}, up to which it was known to be whole",
            path=path,
            offset=base + size,
        )

    def _read_head(self, data: memoryview, base: int, *, is_last: bool) -> SegmentHead | None:
        try:
            return decode_segment_head(data, base=base)
        except CorruptRecord:
            if is_last and synced_behind(data, 0, base) < 0:
                return None  # its maker died, or the power went, before a record was written
            raise


def is_reserved(data: memoryview, start: int) -> bool:
    """Whether nothing stands from byte *start* on but space taken ahead."""
    return not any(data[start : start + LEFT_SIZE]) and not any(data[start:])


def synced_behind(data: memoryview, start: int, base: int) -> int:
    """The log offset up to which the whole records behind byte *start* say that all was synced.

    Beyond *start* itself it tells damage: what was on the disk is not any more.
    """
    synced = -1
    for record, _ in find_records(data, start + 1, base):
        synced = max(synced, record.synced)
    return synced


def find_records(data: memoryview, start: int, base: int) -> Iterator[tuple[Record, int]]:
    """Whole records that stand anywhere from byte *start* of a segment on, and where each ends."""
    rest = bytes(data[start:])
    at = rest.find(MAGIC)
    while at >= 0:
        begin = start + at
        try:
            decoded = decode_record(data, begin, offset=base + begin)
        except CorruptRecord:
            decoded = None
        if decoded is None:
            at = rest.find(MAGIC, at + 1)
        else:
            yield decoded[0], base + decoded[1]
            at = rest.find(MAGIC, decoded[1] - start)
