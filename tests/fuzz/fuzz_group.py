"""Whatever the bytes: a transaction's jobs are decoded to what encodes to such as are decoded to
them again, or it is `CorruptIndex`.
"""

from __future__ import annotations

from bide.errors import CorruptIndex
from bide.format.group import decode_group, encode_group
from tests.fuzz.inputs import damaged, golden

INPUTS = damaged(golden("group 1"))


def check(data: bytes) -> None:
    try:
        group = decode_group(data)
    except CorruptIndex:
        return
    assert decode_group(encode_group(group)) == group
