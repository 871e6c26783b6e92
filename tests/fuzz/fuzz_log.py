"""Whatever becomes of a segment's bytes: what is read of it was written so, from the first record
on without a gap; or it is `CorruptRecord`.
"""

from __future__ import annotations

from pathlib import Path

from bide.errors import CorruptRecord, UnsupportedFormat
from bide.format.record import HEAD_SIZE as RECORD_HEAD_SIZE
from bide.format.record import encode_record
from bide.format.segment import HEAD_SIZE, SegmentHead, encode_segment_head
from bide.storage.disk import OsDisk
from bide.storage.log_files import LogFiles
from bide.storage.scan import Fault, scan_log
from tests.fuzz.inputs import damaged

STORE_ID = bytes(range(16))
BODIES = [b"first", b"", b"third " * 20, b"fourth"]


def _segment() -> bytes:
    data = encode_segment_head(SegmentHead(STORE_ID, 0, 0))
    chain = 0
    for body in BODIES:
        head, chain = encode_record(
            body, offset=len(data), written_ms=1, synced=len(data), chain=chain
        )
        data += head + body
    return data


SEGMENT = _segment()
INPUTS = damaged([SEGMENT, SEGMENT + bytes(64)])


class _OneSegment(LogFiles):
    """A log whose only segment is in memory."""

    def __init__(self, data: bytes) -> None:
        super().__init__(OsDisk(), Path("log"), STORE_ID)
        self._data = data

    def bases(self) -> list[int]:
        return [0]

    def segment(self, base: int) -> memoryview:
        assert base == 0
        return memoryview(self._data)


def check(data: bytes) -> None:
    files = _OneSegment(data)
    bodies: list[bytes] = []
    try:
        for record, position in files.read():
            bodies.append(record.body)
            assert position.end <= len(data)
    except (CorruptRecord, UnsupportedFormat):
        pass
    assert bodies == BODIES[: len(bodies)]
    if data[: len(SEGMENT)] == SEGMENT and not any(data[len(SEGMENT) :]):
        assert bodies == BODIES
    ends = [HEAD_SIZE]
    for body in BODIES:
        ends.append(ends[-1] + RECORD_HEAD_SIZE + len(body))
    for found in scan_log(files, None):
        if not isinstance(found, Fault):
            assert BODIES[ends.index(found.offset)] == found.body
