"""A checkpoint: the index as it was at one position of the log, in one file. A backup is one too.

Layout, big-endian:

    ======  ====  ====================================================
    offset  size  field
    ======  ====  ====================================================
         0     8  magic ``bide.chk``
         8     1  version of this layout, 1
         9     7  0, reserved
        16    16  the store's id
        32     8  position: base of the segment (`bide.format.segment`)
        40     8  position: the log offset up to which the image reflects the log
        48     4  position: the head check of the last record before it
        52     4  chunk size in bytes
        56     8  when it was made, Unix ms
        64     8  image size in bytes
        72     8  the store's segment size in bytes
        80     4  CRC-32 of the table of checks
        84  4008  0, reserved
      4092     4  CRC-32 of the 4092 bytes before
      4096     n  image: the index, compacted
         +   4 k  table of checks: the CRC-32 of each chunk of the image
    ======  ====  ====================================================

The head is written last, so a file that has one is whole, or was damaged
later. Every byte is under a check. The image is LMDB's, which is read by
machines of the same word size and byte order.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

import msgspec

from bide.errors import CorruptCheckpoint, UnsupportedFormat

_HEAD = struct.Struct(">8sB7x16sQQIIQQQI")
_CHECK = struct.Struct(">I")
HEAD_SIZE = 4096
assert _HEAD.size == 84

MAGIC = b"bide.chk"
VERSION = 1
CHUNK_SIZE = 1 << 20
_SUFFIX = ".checkpoint"
_NAME_DIGITS = 20


class CheckpointHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint says of itself."""

    store_id: bytes
    base: int
    end: int
    chain: int
    made_ms: int
    image_size: int
    segment_size: int
    table_check: int
    chunk_size: int = CHUNK_SIZE

    @property
    def chunk_count(self) -> int:
        return -(-self.image_size // self.chunk_size)

    @property
    def file_size(self) -> int:
        return HEAD_SIZE + self.image_size + _CHECK.size * self.chunk_count


def checkpoint_name(end: int) -> str:
    """The file name of the checkpoint at log offset *end*."""
    return f"{end:0{_NAME_DIGITS}}{_SUFFIX}"


def checkpoint_end(name: str) -> int | None:
    """The log offset that a file name states, or None if it is no checkpoint's name."""
    stem, suffix = name[:_NAME_DIGITS], name[_NAME_DIGITS:]
    return int(stem) if suffix == _SUFFIX and stem.isascii() and stem.isdigit() else None


def encode_head(head: CheckpointHead) -> bytes:
    data = _HEAD.pack(
        MAGIC,
        VERSION,
        head.store_id,
        head.base,
        head.end,
        head.chain,
        head.chunk_size,
        head.made_ms,
        head.image_size,
        head.segment_size,
        head.table_check,
    ).ljust(HEAD_SIZE - _CHECK.size, b"\0")
    return data + _CHECK.pack(crc32(data))


def decode_head(data: bytes) -> CheckpointHead:
    """The head in the first `HEAD_SIZE` bytes of a checkpoint.

    Raises:
        UnsupportedFormat: A later version of bide wrote it.
        CorruptCheckpoint: It is no checkpoint, or its head is cut short or damaged.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise CorruptCheckpoint("not a checkpoint or backup of bide's")
    if len(data) < HEAD_SIZE:
        raise CorruptCheckpoint("cut short within its head")
    if crc32(data[: HEAD_SIZE - _CHECK.size]) != _CHECK.unpack_from(data, HEAD_SIZE - 4)[0]:
        raise CorruptCheckpoint("its head is damaged")
    fields = _HEAD.unpack_from(data)
    _, version, store_id, base, end, chain, chunk_size, made_ms, image_size, segment_size, table = (
        fields
    )
    if version != VERSION:
        raise UnsupportedFormat(
            f"the checkpoint has format {version}; this bide reads {VERSION}: upgrade bide"
        )
    if not chunk_size:
        raise CorruptCheckpoint("its head states chunks of no size")
    return CheckpointHead(
        store_id=store_id,
        base=base,
        end=end,
        chain=chain,
        made_ms=made_ms,
        image_size=image_size,
        segment_size=segment_size,
        table_check=table,
        chunk_size=chunk_size,
    )


def encode_table(checks: Sequence[int]) -> bytes:
    return b"".join(map(_CHECK.pack, checks))


def decode_table(data: bytes, head: CheckpointHead) -> list[int]:
    """The check of each chunk.

    Raises:
        CorruptCheckpoint: The table is cut short or damaged.
    """
    if len(data) < _CHECK.size * head.chunk_count:
        raise CorruptCheckpoint("cut short within its table of checks")
    if len(data) > _CHECK.size * head.chunk_count or crc32(data) != head.table_check:
        raise CorruptCheckpoint("its table of checks is damaged")
    return [check for (check,) in _CHECK.iter_unpack(data)]
