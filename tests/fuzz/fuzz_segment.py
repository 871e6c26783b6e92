"""Whatever the bytes: a segment's head is decoded to what encodes to them, but for what is
reserved, or they are cut short, or it is `CorruptRecord`, or of a later format.
"""

from __future__ import annotations

import struct
from zlib import crc32

from bide.errors import CorruptRecord, UnsupportedFormat
from bide.format.segment import (
    HEAD_SIZE,
    VERSION,
    decode_segment_head,
    encode_segment_head,
    segment_base,
    segment_name,
)
from tests.fuzz.inputs import damaged, golden

BASE = 104_857_600


def seal(data: bytes) -> bytes:
    head = data[: HEAD_SIZE - 4]
    return head + struct.pack(">I", crc32(head)) + data[HEAD_SIZE:]


INPUTS = damaged(golden("segment head 1"), seal)


def check(data: bytes) -> None:
    base = segment_base(data.decode("latin-1"))
    assert base is None or segment_name(base).encode("latin-1") == data
    try:
        head = decode_segment_head(data, base=BASE)
    except CorruptRecord:
        return
    except UnsupportedFormat:
        assert data[8] != VERSION
        return
    if head is None:
        assert len(data) < HEAD_SIZE
        return
    assert head.base == BASE
    encoded = encode_segment_head(head)
    assert encoded[:9] == data[:9]
    assert encoded[16:44] == data[16:44]
