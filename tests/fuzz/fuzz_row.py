"""Whatever the bytes: each kind of row and key is decoded to what encodes to such as is decoded to
it again, or it is `CorruptIndex`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any
from zlib import crc32

from bide.errors import CorruptIndex
from bide.format import row as r
from bide.storage.index import (
    decode_counts,
    decode_position,
    encode_counts,
    encode_position,
)
from tests.fuzz.inputs import damaged, golden

_HEAD = struct.Struct(">BI")


def seal(data: bytes) -> bytes:
    return _HEAD.pack(1, crc32(data[5:])) + data[5:]


def reseal_rows(data: bytes) -> bytes:
    """Make the checks of such job rows right that stand in *data* as MessagePack's binary."""
    fixed = bytearray(data)
    at = fixed.find(b"\xc4")
    while at >= 0 and at + 2 < len(fixed):
        end = at + 2 + fixed[at + 1]
        if fixed[at + 2] == 1 and end <= len(fixed) and fixed[at + 1] > _HEAD.size:
            fixed[at + 2 : end] = seal(bytes(fixed[at + 2 : end]))
            at = end
        at = fixed.find(b"\xc4", at + 1)
    return bytes(fixed)


INPUTS = damaged(
    golden(
        "job row 1",
        "failed job row 1",
        "queue row 1",
        "lease row",
        "owner row",
        "counts row",
        "position",
        "due key",
        "leases key",
        "failed key",
        "jobs key",
    ),
    seal,
)

CODECS: list[tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = [
    (r.decode_job, r.encode_job),
    (lambda data: r.decode_queue_row(data, "orders:mail"), r.encode_queue_row),
    (r.decode_lease, r.encode_lease),
    (r.decode_owner, r.encode_owner),
    (r.decode_u64, r.encode_u64),
    (r.decode_pair, lambda pair: r.encode_pair(*pair)),
    (r.decode_due_tail, lambda tail: r.encode_due_tail(*tail)),
    (r.decode_queue, r.encode_queue),
    (decode_counts, encode_counts),
    (decode_position, encode_position),
]


def check(data: bytes) -> None:
    for decode, encode in CODECS:
        try:
            value = decode(data)
        except CorruptIndex:
            continue
        assert decode(encode(value)) == value
