"""Every fault of a log, and every record that can still be read: for a check, and for a repair."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bide.errors import BideError, CorruptRecord
from bide.format.record import Record, decode_record
from bide.format.segment import HEAD_SIZE, decode_segment_head
from bide.storage.log_files import LogFiles, find_records, is_reserved, synced_behind


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it was written."""

    kind: str
    """"log", "checkpoint", "index" or "state"."""
    path: str
    offset: int | None = None
    """Where in the log, or in the file."""
    text: str


Found = Record | Fault


def scan_log(files: LogFiles, end: int | None) -> Iterator[Found]:
    """The records and the faults of a log, in its order.

    Args:
        end: Where it ends, if that is known; None: at the last whole record.
    """
    bases = files.bases()
    expected: int | None = None
    chain: int | None = None
    for index, base in enumerate(bases):
        if end is not None and base > max(end, bases[0]):
            break
        if expected is not None and base != expected:
            yield _fault(files, expected, f"the log's bytes from {expected} to {base} are missing")
            chain = None
        is_last = index == len(bases) - 1
        try:
            data = files.segment(base)
        except OSError as error:
            yield _fault(files, base, f"it cannot be read: {error.strerror}")
            expected = bases[index + 1] if not is_last else None
            continue
        scanner = _Segment(files, data, base, chain, end=end, is_last=is_last)
        yield from scanner.scan()
        chain = scanner.chain
        expected = base + len(data)
        if is_last and end is not None and scanner.end < end:
            text = f"it ends at {scanner.end}, but the index has seen the log up to {end}"
            yield _fault(files, base, text, offset=scanner.end)
    if not bases and end:
        yield _fault(files, 0, "the log is missing")


class _Segment:
    """One segment, looked at to its end."""

    def __init__(
        self,
        files: LogFiles,
        data: memoryview,
        base: int,
        chain: int | None,
        *,
        end: int | None,
        is_last: bool,
    ) -> None:
        self.chain = chain
        self.end = base + HEAD_SIZE
        self._files = files
        self._data = data
        self._base = base
        self._until = end
        self._is_last = is_last

    def scan(self) -> Iterator[Found]:
        yield from self._scan_head()
        data, base = self._data, self._base
        while not (self._until is not None and self.end >= self._until):
            at = self.end - base
            if at >= len(data) or is_reserved(data, at):
                if not self._is_last and at < len(data):
                    yield self._fault(self.end, f"zeros from {self.end} on, and more behind")
                return
            try:
                decoded = decode_record(data, at, offset=self.end)
                if decoded is None:
                    if not self._is_last or self._until is not None:
                        yield self._fault(self.end, f"it ends within the record at {self.end}")
                    return
                record, end = decoded[0], base + decoded[1]
                if self.chain is not None and record.chain != self.chain:
                    yield self._fault(self.end, "a record does not follow the one before")
            except CorruptRecord as error:
                if self._is_tail(at):
                    return
                yield self._fault(self.end, str(error))
                following = next(find_records(data, at + 1, base), None)
                if following is None:
                    return
                record, end = following
            yield record
            self.chain, self.end = record.check, end

    def _scan_head(self) -> Iterator[Fault]:
        try:
            head = decode_segment_head(self._data, base=self._base)
            if head is None:
                if not self._is_last:
                    yield self._fault(self._base, "it is cut short within its head")
                return
            if head.store_id != self._files.store_id:
                yield self._fault(self._base, "it is another store's")
            elif self.chain is not None and head.chain != self.chain:
                yield self._fault(self._base, "it does not follow the segment before")
            self.chain = head.chain
        except BideError as error:
            is_unused = self._is_last and synced_behind(self._data, 0, self._base) < 0
            if not (is_unused and self._until is None):
                yield self._fault(self._base, str(error))
            self.chain = None

    def _is_tail(self, at: int) -> bool:
        """Whether what stands at byte *at* may be what a crash leaves, and no damage."""
        is_end = self._is_last and self._until is None
        return is_end and synced_behind(self._data, at, self._base) <= self._base + at

    def _fault(self, offset: int, text: str) -> Fault:
        return _fault(self._files, self._base, text, offset=offset)


def _fault(files: LogFiles, base: int, text: str, *, offset: int | None = None) -> Fault:
    return Fault(
        kind="log", path=files.file(base), offset=base if offset is None else offset, text=text
    )
