"""Whatever the bytes: a record is decoded to what encodes to them, or they are cut short, or it is
`CorruptRecord`.
"""

from __future__ import annotations

import struct
from zlib import crc32

from bide.errors import CorruptRecord
from bide.format.record import HEAD_SIZE, decode_record, encode_record, peek_size, peek_sizes
from tests.fuzz.inputs import damaged, golden

OFFSET = 104_857_648


def seal(data: bytes) -> bytes:
    if len(data) < HEAD_SIZE:
        return data
    body = data[HEAD_SIZE:]
    head = data[:8] + struct.pack(">II", len(body), crc32(body)) + data[16:44]
    return head + struct.pack(">I", crc32(head)) + body


INPUTS = damaged(golden("record 1"), seal)


def check(data: bytes) -> None:
    sizes = peek_sizes(data)
    assert sum(sizes) <= len(data)
    try:
        found = decode_record(memoryview(data), 0, offset=OFFSET)
    except CorruptRecord:
        return
    if found is None:
        assert len(data) < HEAD_SIZE or len(data) < peek_size(data)
        return
    record, end = found
    head, check_ = encode_record(
        record.body,
        offset=record.offset,
        written_ms=record.written_ms,
        synced=record.synced,
        chain=record.chain,
    )
    assert head + record.body == data[:end]
    assert check_ == record.check
    assert sizes[0] == end
