"""Applying what is left of a log that lacks a part: each fact as far as it can still be true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bide.errors import CorruptIndex
from bide.format.row import (
    decode_job,
    decode_pair,
    decode_u64,
    encode_due,
    encode_due_tail,
    encode_lease,
    encode_pair,
    encode_queue,
    encode_u64,
)
from bide.model import facts as f
from bide.model.job import Job, JobId, LeaseRow, OwnerId, Withdrawn
from bide.storage.apply import Applier
from bide.storage.index import META_NEXT_JOB, IndexView
from bide.storage.log_files import Position
from bide.storage.tables import Table, TableName, Transaction

LEASES_PER_OWNER_MAX = 1 << 20


class Salvager(Applier):
    """An `Applier` that takes a job from wherever it is, and notes what is gone.

    A salvage is one transaction: what it knows of leases is kept beside the tables.

    Attributes:
        missing: Jobs that are spoken of, and whose own rows are nowhere: by id, their queue.
    """

    def __init__(self, txn: Transaction, tables: Mapping[TableName, Table]) -> None:
        super().__init__(txn, tables)
        self.missing: dict[int, str] = {}
        self.ended: set[int] = set()
        """Those of them that had ended: nothing of them is lost."""
        view = IndexView(txn, tables)
        self._tables = tables
        self._owner_of: dict[int, OwnerId] = {
            row.id: owner.id
            for owner in view.owners()
            for row in view.leases(owner.id, LEASES_PER_OWNER_MAX)
        }

    def apply(self, fact: f.Fact, rows: Sequence[bytes]) -> None:
        match fact:
            case f.JobsPut(jobs):
                for job, row in zip(jobs, rows, strict=True):
                    self._put_one(job, row)
            case f.JobsReserved(owner, leases):
                for lease in leases:
                    self._reserve_one(owner, lease)
            case f.JobsReturned(_, leases):
                for lease in leases:
                    self._return_one(lease)
            case f.JobsCompleted(gone):
                for ended in gone:
                    self._end(ended)
                    self._count(ended.queue).succeeded_total += 1
            case f.JobsCancelled(gone):
                for ended in gone:
                    self._end(ended)
                    self._count(ended.queue).cancelled_total += 1
            case f.JobsRescheduled(jobs) | f.JobsMoved(jobs):
                for job, row in zip(jobs, rows, strict=True):
                    self._uproot(job.id, job.queue)
                    self._wait(job, row)
                    if job.key is not None:
                        self._hold_key(job.queue, job.key, job.id)
                    self.missing.pop(job.id, None)
            case f.JobsFailed(jobs):
                for job, row in zip(jobs, rows, strict=True):
                    self._uproot(job.id, job.queue)
                    self._fail(job, row)
                    self.missing.pop(job.id, None)
            case f.JobsQuarantined(gone, at_ms):
                for ended in gone:
                    if self._uproot(ended.id, ended.queue):
                        self._set_aside(ended.queue, ended.id, at_ms)
                        self._mark_failed(ended.id, at_ms)
            case f.QueueRemoved():
                pass  # it was empty, if nothing is missing; if something is, it is not
            case _:
                super().apply(fact, rows)

    def settle(self) -> None:
        """Have each job in one place, by what its own row and its lease say; count anew.

        What a damaged part held may have moved a job, or ended it, without
        a trace; so the tables that follow from the jobs are made again.
        """
        for table in (self._due, self._failed, self._keys):
            while (key := self._first(table)) is not None:
                self._txn.delete(key, db=table)
        for queue in IndexView(self._txn, self._tables).queues():
            self._count(queue)
        for counts in self._changed.values():
            counts.waiting = counts.running = counts.failed = 0
        leased = self._keep_leases()
        cursor = self._txn.cursor(db=self._jobs)
        damaged: list[bytes] = []
        found = cursor.set_range(b"\0")
        while found:
            job_id = JobId(decode_u64(cursor.key()))
            try:
                self._place(decode_job(cursor.value(), job_id), is_leased=job_id in leased)
            except CorruptIndex:
                damaged.append(cursor.key())
                self.missing[job_id] = "?"
            found = cursor.next()
        for key in damaged:
            self._txn.delete(key, db=self._jobs)

    def _first(self, table: Table) -> bytes | None:
        cursor = self._txn.cursor(db=table)
        return cursor.key() if cursor.set_range(b"\0") else None

    def _keep_leases(self) -> set[int]:
        """Drop the leases without an owner or a job; whose jobs are leased."""
        leased: set[int] = set()
        dropped: list[bytes] = []
        cursor = self._txn.cursor(db=self._leases)
        found = cursor.set_range(b"\0")
        while found:
            owner, job_id = decode_pair(cursor.key())
            is_whole = (
                self._txn.get(encode_u64(owner), db=self._owners) is not None
                and self._txn.get(encode_u64(job_id), db=self._jobs) is not None
                and job_id not in leased
            )
            if is_whole:
                leased.add(job_id)
            else:
                dropped.append(cursor.key())
            found = cursor.next()
        for key in dropped:
            self._txn.delete(key, db=self._leases)
        return leased

    def _place(self, job: Job, *, is_leased: bool) -> None:
        queue, counts = encode_queue(job.queue), self._count(job.queue)
        if is_leased:
            counts.running += 1
        elif job.failed_ms is not None:
            self._txn.put(queue + encode_pair(job.failed_ms, job.id), b"", db=self._failed)
            counts.failed += 1
        else:
            place = encode_due_tail(job.priority, job.due_ms, job.id)
            self._txn.put(queue + place, b"", db=self._due)
            counts.waiting += 1
        if job.key is not None and job.failed_ms is None:  # of several, the last has taken it
            self._hold_key(job.queue, job.key, job.id)

    def finish(self, position: Position) -> None:
        """As ever; what was put in all is what there is of it, since the rest cannot be known."""
        for counts in self._changed.values():
            there = counts.waiting + counts.running + counts.failed
            counts.put_total = there + counts.succeeded_total + counts.cancelled_total
        super().finish(position)

    def keep_ids_from(self, first: int) -> None:
        """Have no id below *first* given again."""
        row = self._txn.get(META_NEXT_JOB, db=self._meta)
        if row is None or decode_u64(row) < first:
            self._txn.put(META_NEXT_JOB, encode_u64(first), db=self._meta)

    def _put_one(self, job: Job, row: bytes) -> None:
        self._uproot(job.id, job.queue)
        self._wait(job, row).put_total += 1
        if job.key is not None:
            self._hold_key(job.queue, job.key, job.id)
        self.missing.pop(job.id, None)
        self.keep_ids_from(job.id + 1)

    def _reserve_one(self, owner: OwnerId, row: LeaseRow) -> None:
        if self._uproot(row.id, row.queue):
            self._txn.put(encode_pair(owner, row.id), encode_lease(row), db=self._leases)
            self._owner_of[row.id] = owner
            self._count(row.queue).running += 1

    def _return_one(self, row: LeaseRow) -> None:
        if self._uproot(row.id, row.queue):
            key = encode_due(row.queue, row.priority, row.due_ms, row.id)
            self._txn.put(key, b"", db=self._due)
            self._count(row.queue).waiting += 1

    def _end(self, job: Withdrawn) -> None:
        self._uproot(job.id, job.queue)
        self._txn.delete(encode_u64(job.id), db=self._jobs)
        self._free_key(job.queue, job.key, job.id)
        self.missing.pop(job.id, None)
        self.ended.add(job.id)

    def _uproot(self, job_id: JobId, queue: str) -> bool:
        """Take a job from wherever it is; False, and noted, if there is no such job."""
        row = self._txn.get(encode_u64(job_id), db=self._jobs)
        try:
            job = None if row is None else decode_job(row, job_id)
        except CorruptIndex:
            job = None
        if job is None:
            self.missing[job_id] = queue
            return False
        name = encode_queue(job.queue)
        owner = self._owner_of.pop(job_id, None)
        counts = self._count(job.queue)
        if owner is not None and self._txn.delete(encode_pair(owner, job_id), db=self._leases):
            counts.running -= 1
        elif self._txn.delete(
            name + encode_due_tail(job.priority, job.due_ms, job_id), db=self._due
        ):
            counts.waiting -= 1
        elif job.failed_ms is not None and self._txn.delete(
            name + encode_pair(job.failed_ms, job_id), db=self._failed
        ):
            counts.failed -= 1
        return True
