"""Whatever the bytes: a record's body is decoded to facts that encode to such as are decoded to
them again, or it is `CorruptRecord`, or `CorruptIndex`.
"""

from __future__ import annotations

from bide.errors import CorruptIndex, CorruptRecord
from bide.format.commit import decode_commit, encode_commit
from tests.fuzz.fuzz_row import reseal_rows
from tests.fuzz.inputs import damaged, golden

INPUTS = damaged(golden("commit", "commit of queues"), reseal_rows)


def check(data: bytes) -> None:
    try:
        entries = decode_commit(data)
    except (CorruptRecord, CorruptIndex):
        return
    assert decode_commit(encode_commit(entries)) == entries
