"""The body of a record: the facts of one transaction.

MessagePack: an array of entries ``[fact, rows]``. A fact is an array of its
tag and its fields (`bide.model.facts` gives their order). The jobs that a
fact writes are taken out of it and stand as *rows*, byte for byte as in the
index (`bide.format.row`): encoded once, and each with a check of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from bide.errors import CorruptRecord
from bide.format.row import decode_job, encode_job
from bide.format.unreadable import UNREADABLE
from bide.model.facts import Fact, FactWithJobs

Entry = tuple[Fact, tuple[bytes, ...]]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Entry, ...]).decode


def encode_rows(fact: Fact) -> tuple[bytes, ...]:
    """The rows of the jobs that *fact* writes; none for a fact that writes none."""
    return tuple(map(encode_job, fact.jobs)) if isinstance(fact, FactWithJobs) else ()


def encode_commit(entries: Sequence[Entry]) -> bytes:
    """The body of the record for *entries*; each is a fact and what `encode_rows` made of it."""
    return _encode(
        [(replace(fact, jobs=()), rows) if rows else (fact, rows) for fact, rows in entries]
    )


def decode_commit(body: bytes) -> list[Entry]:
    """The facts in *body*, whole, each with its rows.

    Raises:
        CorruptRecord: *body* passed its checksum, yet holds no facts that
            this version knows.
        CorruptIndex: A row in it fails its own check.
    """
    try:
        entries = _decode(body)
    except UNREADABLE as error:
        raise CorruptRecord(f"a record's body cannot be read: {error}") from None
    return [
        (replace(fact, jobs=tuple(map(decode_job, rows))) if rows else fact, rows)
        for fact, rows in entries
    ]
