"""One record of the log: the facts of one transaction, framed.

Layout, big-endian; a head of 48 bytes, then the body:

    ======  ====  ====================================================
    offset  size  field
    ======  ====  ====================================================
         0     4  magic ``bIdR``
         4     1  version of this layout, 1
         5     1  kind: 1, a commit (`bide.format.commit`)
         6     2  0, reserved
         8     4  body size in bytes
        12     4  CRC-32 of the body
        16     8  the log offset of this head
        24     8  when it was written, Unix ms
        32     8  synced: a log offset up to which all was on the disk by then
        40     4  chain: the head check of the record before it, 0 at the log's start
        44     4  head check: CRC-32 of the 44 bytes before
        48     n  body
    ======  ====  ====================================================

The head has a check of its own, so that a damaged size is seen as damage
and never as a torn tail. The offset says that a record stands where it was
written; the chain, that it follows the one it was written after, so what is
left of a cut tail can't come back behind a newer record of the same size.
*Synced* tells damage from what a power cut may do: a hole before it was on
the disk once, a hole behind it may have been lost unsynced.
"""

from __future__ import annotations

import struct
from zlib import crc32

import msgspec

from bide.errors import BatchTooLarge, CorruptRecord

_HEAD = struct.Struct(">4sBBHIIQQQI")
_CHECK = struct.Struct(">I")
HEAD_SIZE = 48
HEAD_CHECK_OFFSET = 44
assert _HEAD.size == HEAD_CHECK_OFFSET == HEAD_SIZE - _CHECK.size

MAGIC = b"bIdR"
VERSION = 1
KIND_COMMIT = 1
BODY_SIZE_MAX = 0xFFFF_FFFF


class Record(msgspec.Struct, frozen=True):
    """A record and where it stands."""

    offset: int
    written_ms: int
    synced: int
    chain: int
    check: int
    """The head check, which the next record's chain repeats."""
    body: bytes


def encode_record(
    body: bytes, *, offset: int, written_ms: int, synced: int, chain: int
) -> tuple[bytes, int]:
    """The bytes of a record's head, and its head check. The body follows as it is.

    Args:
        body: Any bytes.
        offset: The log offset at which the head will stand.
        written_ms: Unix ms.
        synced: A log offset up to which everything is on the disk.
        chain: The head check of the record before, 0 if there is none.

    Raises:
        BatchTooLarge: *body* is over `BODY_SIZE_MAX`.
    """
    if len(body) > BODY_SIZE_MAX:
        raise BatchTooLarge(
            f"{len(body)} bytes in one transaction: the limit is {BODY_SIZE_MAX}; split the call",
            count=len(body),
            count_max=BODY_SIZE_MAX,
        )
    head = _HEAD.pack(
        MAGIC, VERSION, KIND_COMMIT, 0, len(body), crc32(body), offset, written_ms, synced, chain
    )
    check = crc32(head)
    return head + _CHECK.pack(check), check


def peek_size(head: bytes | memoryview) -> int:
    """How many bytes a record takes, by its head alone, unchecked."""
    return HEAD_SIZE + int.from_bytes(head[8:12], "big")


def peek_written_ms(head: bytes | memoryview) -> int:
    """When a record was written, by its head alone, unchecked."""
    return int.from_bytes(head[24:32], "big")


def peek_chain(head: bytes | memoryview) -> int:
    """The head check of the record before, by a record's head alone, unchecked."""
    return int.from_bytes(head[40:44], "big")


def peek_sizes(data: bytes | memoryview) -> list[int]:
    """How many bytes each whole record at the start of *data* takes, by its head alone."""
    sizes: list[int] = []
    start = 0
    while start + HEAD_SIZE <= len(data) and data[start : start + len(MAGIC)] == MAGIC:
        size = peek_size(data[start : start + HEAD_SIZE])
        if start + size > len(data):
            break
        sizes.append(size)
        start += size
    return sizes


def decode_record(data: memoryview, start: int, *, offset: int) -> tuple[Record, int] | None:
    """Decode the record at byte *start*, or find that its end is missing.

    Args:
        data: Bytes of one segment. Only the body is copied out of it.
        start: Byte offset in *data*, ``0 <= start <= len(data)``.
        offset: The log offset of that byte.

    Returns:
        ``(record, end)``; *end* is the byte offset in *data* just past the
        record. ``None`` if *data* stops before *end*: a torn tail, which
        every crash may leave and no caller should report.

    Raises:
        CorruptRecord: The bytes present cannot be a record. Never raised
            for a record that is merely cut short.
    """
    body_start = start + HEAD_SIZE
    if body_start > len(data):
        return None
    head = data[start : body_start - _CHECK.size]
    (check,) = _CHECK.unpack_from(data, body_start - _CHECK.size)
    if crc32(head) != check:
        raise CorruptRecord(f"record at {offset}: its head is damaged", offset=offset)
    magic, version, kind, zero, size, body_check, own_offset, written_ms, synced, chain = (
        _HEAD.unpack(head)
    )
    if magic != MAGIC or version != VERSION or kind != KIND_COMMIT or zero:
        raise CorruptRecord(f"record at {offset}: not a record that bide writes", offset=offset)
    if own_offset != offset:
        raise CorruptRecord(
            f"record at {offset}: it was written at {own_offset}, and is out of place",
            offset=offset,
        )
    end = body_start + size
    if end > len(data):
        return None
    body = bytes(data[body_start:end])
    if crc32(body) != body_check:
        raise CorruptRecord(f"record at {offset}: its body is damaged", offset=offset)
    return Record(offset, written_ms, synced, chain, check, body), end
