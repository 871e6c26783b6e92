"""Whatever the bytes: a checkpoint's head is decoded to what encodes to them, but for what is
reserved, or it is `CorruptCheckpoint`, or of a later format; its table to as many checks as chunks.
"""

from __future__ import annotations

import struct
from zlib import crc32

from msgspec.structs import replace

from bide.errors import CorruptCheckpoint, UnsupportedFormat
from bide.format.checkpoint import (
    HEAD_SIZE,
    VERSION,
    decode_head,
    decode_table,
    encode_head,
    encode_table,
)
from tests.fuzz.inputs import damaged, golden
from tests.golden.values import CHECKPOINT_HEAD


def seal(data: bytes) -> bytes:
    head = data[: HEAD_SIZE - 4].ljust(HEAD_SIZE - 4, b"\0")
    return head + struct.pack(">I", crc32(head))


INPUTS = damaged([*golden("checkpoint head 1", "checkpoint table"), b"bide.chk"], seal)


def check(data: bytes) -> None:
    check_table(data)
    try:
        head = decode_head(data)
    except CorruptCheckpoint:
        return
    except UnsupportedFormat:
        assert data[8] != VERSION
        return
    encoded = encode_head(head)
    assert encoded[:9] == data[:9]
    assert encoded[16:84] == data[16:84]
    assert head.file_size >= HEAD_SIZE + head.image_size


def check_table(data: bytes) -> None:
    for head in (CHECKPOINT_HEAD, replace(CHECKPOINT_HEAD, table_check=crc32(data))):
        try:
            checks = decode_table(data, head)
        except CorruptCheckpoint:
            continue
        assert encode_table(checks) == data
        assert len(checks) == head.chunk_count
