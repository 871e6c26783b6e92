"""What the index says, within one transaction.

`IndexView` reads; `bide.storage.apply` is the only code that changes.
Table *meta* holds ``log`` (the end of the log that these tables reflect),
``next_job``, ``next_owner``, and ``moved`` once another index has taken the
place of this one: the number that names it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from bide.errors import CorruptIndex
from bide.format.row import (
    decode_due_tail,
    decode_job,
    decode_lease,
    decode_owner,
    decode_pair,
    decode_queue,
    decode_queue_row,
    decode_u64,
    encode_due,
    encode_due_tail,
    encode_pair,
    encode_queue,
    encode_queue_name,
    encode_u64,
)
from bide.format.unreadable import UNREADABLE
from bide.model.job import Job, JobId, LeaseRow, Owner, OwnerId
from bide.model.limits import PRIORITY_MAX
from bide.model.queue import QueueRow, topic_queue
from bide.storage.log_files import START, Position
from bide.storage.tables import Table, TableName, Transaction

META_LOG = b"log"
META_NEXT_JOB = b"next_job"
META_NEXT_OWNER = b"next_owner"
META_MOVED = b"moved"

encode_position = msgspec.msgpack.Encoder().encode
_decode_position = msgspec.msgpack.Decoder(Position).decode


class Counts(msgspec.Struct):
    """Jobs of one queue: how many are where, and how many have ever gone which way."""

    waiting: int = 0
    running: int = 0
    failed: int = 0
    put_total: int = 0
    succeeded_total: int = 0
    failed_total: int = 0
    cancelled_total: int = 0
    rescheduled_total: int = 0


_COUNTS = struct.Struct(">8Q")


def encode_counts(counts: Counts) -> bytes:
    return _COUNTS.pack(*msgspec.structs.astuple(counts))


def decode_counts(data: bytes) -> Counts:
    try:
        return Counts(*_COUNTS.unpack(data))
    except struct.error:
        raise CorruptIndex("the counters of a queue are damaged") from None


def decode_position(data: bytes) -> Position:
    try:
        return _decode_position(data)
    except UNREADABLE:
        raise CorruptIndex("where the index is in the log is damaged") from None


class IndexView:
    """The index as one transaction sees it. Fulfils `bide.model.view.View`.

    Args:
        changed: Counters that the transaction has changed and not written yet.
    """

    def __init__(
        self,
        txn: Transaction,
        tables: Mapping[TableName, Table],
        changed: Mapping[str, Counts] = MappingProxyType({}),
    ) -> None:
        self._txn = txn
        self._changed = changed
        self._tables = tables
        self._jobs = tables["jobs"]
        self._leases = tables["leases"]

    def position(self) -> Position:
        """The end of the log that these tables reflect."""
        data = self._txn.get(META_LOG, db=self._tables["meta"])
        return START if data is None else decode_position(data)

    def moved(self) -> int | None:
        """The index that has taken the place of this one, which then changes no more."""
        data = self._txn.get(META_MOVED, db=self._tables["meta"])
        return None if data is None else decode_u64(data)

    def next_job_id(self) -> JobId:
        return JobId(self._next(META_NEXT_JOB))

    def next_owner_id(self) -> OwnerId:
        return OwnerId(self._next(META_NEXT_OWNER))

    def job(self, job_id: JobId) -> Job | None:
        row = self._txn.get(encode_u64(job_id), db=self._jobs)
        return None if row is None else decode_job(row, job_id)

    def holder(self, queue: str, key: str) -> JobId | None:
        row = self._txn.get(encode_queue(queue) + key.encode(), db=self._tables["keys"])
        return None if row is None else JobId(decode_u64(row))

    def due(self, queue: str, now_ms: int, limit: int) -> list[tuple[int, int, JobId]]:
        return self.waiting(queue, 0, now_ms + 1, limit)

    def waiting(
        self,
        queue: str,
        from_ms: int,
        until_ms: int,
        limit: int,
        after: tuple[int, int, int] | None = None,
    ) -> list[tuple[int, int, JobId]]:
        """Jobs of *queue* with ``from_ms <= due < until_ms``, in order of service.

        Skips from priority to priority by seeking, so what is not due costs
        nothing, however much of it there is.

        Args:
            after: A (priority, due_ms, id) that an earlier call ended with.

        Returns:
            At most *limit* of (priority, due_ms, id).
        """
        rows: list[tuple[int, int, JobId]] = []
        prefix = encode_queue(queue)
        cursor = self._txn.cursor(db=self._tables["due"])
        if after is None:
            found = cursor.set_range(prefix)
        else:
            priority, due_ms, job_id = after
            found = cursor.set_range(prefix + encode_due_tail(priority, due_ms, job_id + 1))
        while found and len(rows) < limit:
            key = cursor.key()
            if not key.startswith(prefix):
                break
            row = decode_due_tail(key)
            priority, due_ms, _ = row
            if due_ms < from_ms:
                found = cursor.set_range(prefix + encode_due_tail(priority, from_ms, 0))
            elif due_ms < until_ms:
                rows.append(row)
                found = cursor.next()
            else:
                found = cursor.set_range(prefix + bytes((PRIORITY_MAX - priority + 1,)))
        return rows

    def next_due(self, queue: str) -> int | None:
        """The earliest due time of the queue's waiting jobs, of whatever priority."""
        oldest = self.oldest(queue)
        return None if oldest is None else oldest[0]

    def oldest(self, queue: str) -> tuple[int, JobId] | None:
        """(due_ms, id) of the waiting job that is first by these, of whatever priority."""
        found_first: tuple[int, JobId] | None = None
        prefix = encode_queue(queue)
        cursor = self._txn.cursor(db=self._tables["due"])
        found = cursor.set_range(prefix)
        while found and (key := cursor.key()).startswith(prefix):
            priority, due_ms, job_id = decode_due_tail(key)
            first = due_ms, job_id
            found_first = first if found_first is None else min(found_first, first)
            found = cursor.set_range(prefix + bytes((PRIORITY_MAX - priority + 1,)))
        return found_first

    def is_waiting(self, job: Job) -> bool:
        key = encode_due(job.queue, job.priority, job.due_ms, job.id)
        return self._txn.get(key, db=self._tables["due"]) is not None

    def owner(self, owner: OwnerId) -> Owner | None:
        row = self._txn.get(encode_u64(owner), db=self._tables["owners"])
        return None if row is None else decode_owner(row)

    def owners(self) -> list[Owner]:
        """Every worker process that is known, dead ones too until they are expired."""
        owners: list[Owner] = []
        cursor = self._txn.cursor(db=self._tables["owners"])
        found = cursor.set_range(b"\0")
        while found:
            owners.append(decode_owner(cursor.value()))
            found = cursor.next()
        return owners

    def owner_of(self, job_id: JobId) -> OwnerId | None:
        for owner in self.owners():
            if self.lease(owner.id, job_id) is not None:
                return owner.id
        return None

    def lease(self, owner: OwnerId, job_id: JobId) -> LeaseRow | None:
        row = self._txn.get(encode_pair(owner, job_id), db=self._leases)
        return None if row is None else decode_lease(row)

    def leases(self, owner: OwnerId, limit: int, after: int = -1) -> list[LeaseRow]:
        """Up to *limit* leases of *owner*, by id, those above *after*."""
        rows: list[LeaseRow] = []
        prefix = encode_u64(owner)
        cursor = self._txn.cursor(db=self._leases)
        found = cursor.set_range(prefix + encode_u64(after + 1))
        while found and len(rows) < limit and cursor.key().startswith(prefix):
            rows.append(decode_lease(cursor.value()))
            found = cursor.next()
        return rows

    def failed(
        self, queue: str, limit: int, after: tuple[int, int] | None = None
    ) -> list[tuple[int, JobId]]:
        """Up to *limit* (failed_ms, id) of the queue's failed jobs, oldest failure first."""
        rows: list[tuple[int, JobId]] = []
        prefix = encode_queue(queue)
        cursor = self._txn.cursor(db=self._tables["failed"])
        start = b"" if after is None else encode_pair(after[0], after[1] + 1)
        found = cursor.set_range(prefix + start)
        while found and len(rows) < limit and (key := cursor.key()).startswith(prefix):
            failed_ms, job_id = decode_pair(key[len(prefix) :])
            rows.append((failed_ms, JobId(job_id)))
            found = cursor.next()
        return rows

    def counts(self, queue: str) -> Counts | None:
        """The queue's counters; None if no job was ever put in it."""
        changed = self._changed.get(queue)
        if changed is not None:
            return changed
        row = self._txn.get(encode_queue(queue), db=self._tables["counts"])
        return None if row is None else decode_counts(row)

    def queues(self) -> list[str]:
        """Every queue that ever held a job, shortest names first."""
        names: list[str] = []
        cursor = self._txn.cursor(db=self._tables["counts"])
        found = cursor.set_range(b"\0")
        while found:
            names.append(decode_queue(cursor.key()))
            found = cursor.next()
        return names

    def live(self, queue: str) -> tuple[int, int, int]:
        counts = self.counts(queue) or Counts()
        return counts.waiting, counts.running, counts.failed

    def queue(self, name: str) -> QueueRow | None:
        row = self._txn.get(encode_queue_name(name), db=self._tables["queues"])
        return None if row is None else decode_queue_row(row, name)

    def channels(self, topic: str) -> list[QueueRow]:
        return self.queue_rows(topic_queue(topic))

    def queue_rows(self, prefix: str = "") -> list[QueueRow]:
        """What is kept of the queues whose names start with *prefix*, by name."""
        rows: list[QueueRow] = []
        start = encode_queue_name(prefix)
        cursor = self._txn.cursor(db=self._tables["queues"])
        found = cursor.set_range(start or b"\0")
        while found and (key := cursor.key()).startswith(start):
            rows.append(decode_queue_row(cursor.value(), key.decode()))
            found = cursor.next()
        return rows

    def _next(self, name: bytes) -> int:
        row = self._txn.get(name, db=self._tables["meta"])
        return 1 if row is None else decode_u64(row)
