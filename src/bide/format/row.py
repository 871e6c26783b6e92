"""The rows of the index's tables: keys that sort as meant, values that prove themselves.

Numbers in keys are big-endian and fixed-width; names carry their length in
front, so no queue is a prefix of another.

    ======  ==================================================  ====================
    table   key                                                 value
    ======  ==================================================  ====================
    jobs    id: 8                                               version: 1, CRC-32 of
                                                                the rest: 4, the job
                                                                in MessagePack
    due     queue: 1 + n, 100 - priority: 1, due_ms: 8, id: 8   -
    leases  owner: 8, id: 8                                     LeaseRow in MessagePack
    failed  queue: 1 + n, failed_ms: 8, id: 8                   -
    keys    queue: 1 + n, key in UTF-8                          id: 8
    owners  owner: 8                                            Owner in MessagePack
    counts  queue: 1 + n                                        eight counters of 8
    meta    a name                                              see `bide.storage.index`
    queues  the queue's name                                    version: 1, CRC-32 of
                                                                the rest: 4, QueueRow
                                                                in MessagePack
    ======  ==================================================  ====================

LMDB has no checksums: a job's row, and a queue's, carries its own, and it
is looked at whenever the row is read. A job's bytes are the same in the log.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from functools import lru_cache
from zlib import crc32

import msgspec

from bide.errors import CorruptIndex
from bide.format.unreadable import UNREADABLE
from bide.model.job import Job, JobId, LeaseRow, Owner
from bide.model.limits import PRIORITY_MAX
from bide.model.queue import QueueRow

VERSION = 1
_HEAD = struct.Struct(">BI")
JOB_HEAD_SIZE = 5
assert _HEAD.size == JOB_HEAD_SIZE

_encode = msgspec.msgpack.Encoder().encode
_decode_job = msgspec.msgpack.Decoder(Job).decode
_decode_lease = msgspec.msgpack.Decoder(LeaseRow).decode
_decode_owner = msgspec.msgpack.Decoder(Owner).decode
_decode_queue_row = msgspec.msgpack.Decoder(QueueRow).decode

_U64 = struct.Struct(">Q")
_PAIR = struct.Struct(">QQ")
_DUE_TAIL = struct.Struct(">BQQ")
DUE_TAIL_SIZE = 17
assert _DUE_TAIL.size == DUE_TAIL_SIZE

encode_u64 = _U64.pack
encode_pair = _PAIR.pack


def decode_u64(data: bytes) -> int:
    try:
        value: int = _U64.unpack(data)[0]
    except struct.error:
        raise _damaged("a number", data) from None
    return value


def decode_pair(data: bytes) -> tuple[int, int]:
    try:
        first, second = _PAIR.unpack(data)
    except struct.error:
        raise _damaged("a pair of numbers", data) from None
    return first, second


def encode_job(job: Job) -> bytes:
    data = _encode(job)
    return _HEAD.pack(VERSION, crc32(data)) + data  # as _sealed, which a call more would slow


def decode_job(row: bytes, job_id: int | None = None) -> Job:
    """The job in *row*.

    Raises:
        CorruptIndex: The row is not what was written, or (if *job_id* is
            given) is another job's.
    """
    data = _unsealed(row)
    if data is not None:
        with suppress(*UNREADABLE):
            job = _decode_job(data)
            if job_id is None or job.id == job_id:
                return job
    raise CorruptIndex(f"job {job_id}: its stored row is damaged")


def encode_queue_row(row: QueueRow) -> bytes:
    return _sealed(_encode(row))


def decode_queue_row(row: bytes, name: str) -> QueueRow:
    """The row of queue *name*; `CorruptIndex` if it is not what was written."""
    data = _unsealed(row)
    if data is not None:
        with suppress(*UNREADABLE):
            queue_row = _decode_queue_row(data)
            if queue_row.name == name:
                return queue_row
    raise CorruptIndex(f"queue {name!r}: its stored row is damaged")


def _sealed(data: bytes) -> bytes:
    return _HEAD.pack(VERSION, crc32(data)) + data


def _unsealed(row: bytes) -> bytes | None:
    """What was sealed, if it is whole."""
    if len(row) > JOB_HEAD_SIZE:
        version, check = _HEAD.unpack_from(row)
        data = row[JOB_HEAD_SIZE:]
        if version == VERSION and crc32(data) == check:
            return data
    return None


def encode_queue_name(name: str) -> bytes:
    """The key of table *queues*: a topic's channels stand together."""
    return name.encode()


@lru_cache(maxsize=1024)
def encode_queue(queue: str) -> bytes:
    """The queue's name as the start of a key."""
    name = queue.encode()
    return bytes((len(name),)) + name


def decode_queue(key: bytes) -> str:
    """The queue whose name starts *key*."""
    try:
        return key[1 : 1 + key[0]].decode()
    except (IndexError, UnicodeDecodeError):
        raise _damaged("a queue's key", key) from None


def encode_due(queue: str, priority: int, due_ms: int, job_id: int) -> bytes:
    """The key of a waiting job in table *due*."""
    return encode_queue(queue) + _DUE_TAIL.pack(PRIORITY_MAX - priority, due_ms, job_id)


def encode_due_tail(priority: int, due_ms: int, job_id: int) -> bytes:
    return _DUE_TAIL.pack(PRIORITY_MAX - priority, due_ms, job_id)


def decode_due_tail(key: bytes) -> tuple[int, int, JobId]:
    """(priority, due_ms, id) from the end of a key of table *due*."""
    try:
        inverted, due_ms, job_id = _DUE_TAIL.unpack(key[-DUE_TAIL_SIZE:])
    except struct.error:
        raise _damaged("a waiting job's key", key) from None
    return PRIORITY_MAX - inverted, due_ms, job_id


def encode_lease(row: LeaseRow) -> bytes:
    return _encode(row)


def decode_lease(data: bytes) -> LeaseRow:
    try:
        return _decode_lease(data)
    except UNREADABLE:
        raise _damaged("a lease", data) from None


def encode_owner(owner: Owner) -> bytes:
    return _encode(owner)


def decode_owner(data: bytes) -> Owner:
    try:
        return _decode_owner(data)
    except UNREADABLE:
        raise _damaged("an owner", data) from None


def _damaged(what: str, data: bytes) -> CorruptIndex:
    return CorruptIndex(f"the index holds {data[:64]!r} where {what} is wanted: it is damaged")
