"""The head of a log segment, and the segment's file name.

Layout, big-endian, 48 bytes, then records:

    ======  ====  ====================================================
    offset  size  field
    ======  ====  ====================================================
         0     8  magic ``bide.log``
         8     1  version of this layout, 1
         9     7  0, reserved
        16    16  the store's id
        32     8  base: the log offset of this segment's first byte
        40     4  chain: the head check of the last record before it
        44     4  CRC-32 of the 44 bytes before
    ======  ====  ====================================================

A log offset counts every byte of every segment, heads too, so a segment's
base plus its size is the base of the next one, and is its name.
"""

from __future__ import annotations

import struct
from zlib import crc32

import msgspec

from bide.errors import CorruptRecord, UnsupportedFormat

_HEAD = struct.Struct(">8sB7x16sQI")
_CHECK = struct.Struct(">I")
HEAD_SIZE = 48
assert _HEAD.size + _CHECK.size == HEAD_SIZE

MAGIC = b"bide.log"
VERSION = 1
_NAME_DIGITS = 20
_NAME_SUFFIX = ".log"


class SegmentHead(msgspec.Struct, frozen=True):
    """What a segment says of itself."""

    store_id: bytes
    base: int
    chain: int


def segment_name(base: int) -> str:
    """The file name of the segment that starts at log offset *base*."""
    return f"{base:0{_NAME_DIGITS}}{_NAME_SUFFIX}"


def segment_base(name: str) -> int | None:
    """The base that a file name states, or None if it is no segment's name."""
    stem, suffix = name[:_NAME_DIGITS], name[_NAME_DIGITS:]
    return int(stem) if suffix == _NAME_SUFFIX and stem.isascii() and stem.isdigit() else None


def encode_segment_head(head: SegmentHead) -> bytes:
    data = _HEAD.pack(MAGIC, VERSION, head.store_id, head.base, head.chain)
    return data + _CHECK.pack(crc32(data))


def decode_segment_head(data: bytes | memoryview, *, base: int) -> SegmentHead | None:
    """The head in the first bytes of a segment; None if they are cut short.

    Raises:
        UnsupportedFormat: A later version of bide wrote it.
        CorruptRecord: It is damaged, or is another segment's.
    """
    if len(data) < HEAD_SIZE:
        return None
    head = bytes(data[: HEAD_SIZE - _CHECK.size])
    (check,) = _CHECK.unpack_from(data, HEAD_SIZE - _CHECK.size)
    if head[:8] != MAGIC or crc32(head) != check:
        raise CorruptRecord(f"segment at {base}: its head is damaged", offset=base)
    _, version, store_id, own_base, chain = _HEAD.unpack(head)
    if version != VERSION:
        raise UnsupportedFormat(
            f"segment at {base} has format {version}; this bide reads {VERSION}: upgrade bide"
        )
    if own_base != base:
        raise CorruptRecord(f"segment at {base}: it says that it starts at {own_base}", offset=base)
    return SegmentHead(store_id, own_base, chain)
