"""Facts into tables: the only code that changes the index.

The same facts on an empty index make the same index, so what runs here at
a put also runs at recovery and on a replica: ``rebuild(log) == index``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from bide.errors import CorruptIndex
from bide.format.row import (
    decode_job,
    encode_due,
    encode_job,
    encode_lease,
    encode_owner,
    encode_pair,
    encode_queue,
    encode_queue_name,
    encode_queue_row,
    encode_u64,
)
from bide.model import facts as f
from bide.model.job import Failed, Job, JobId, Leased, LeaseRow, OwnerId, Scheduled, Withdrawn
from bide.storage.index import (
    META_LOG,
    META_NEXT_JOB,
    META_NEXT_OWNER,
    Counts,
    decode_counts,
    encode_counts,
    encode_position,
)
from bide.storage.log_files import Position
from bide.storage.tables import Table, TableName, Transaction


class Applier:
    """Applies facts within one write transaction.

    Counters are gathered and written once, by `finish`.
    """

    def __init__(self, txn: Transaction, tables: Mapping[TableName, Table]) -> None:
        self._txn = txn
        self._jobs = tables["jobs"]
        self._due = tables["due"]
        self._leases = tables["leases"]
        self._failed = tables["failed"]
        self._keys = tables["keys"]
        self._owners = tables["owners"]
        self._counts = tables["counts"]
        self._meta = tables["meta"]
        self._queues = tables["queues"]
        self._changed: dict[str, Counts] = {}

    @property
    def changed(self) -> Mapping[str, Counts]:
        """The counters of each queue that has changed; they stay up to date."""
        return self._changed

    def apply(self, fact: f.Fact, rows: Sequence[bytes]) -> None:
        """Change the tables as *fact* says; *rows* are its jobs, encoded."""
        match fact:
            case f.JobsPut(jobs):
                self._put(jobs, rows)
            case f.JobsReserved(owner, leases):
                self._reserve(owner, leases)
            case f.JobsReturned(owner, leases):
                self._return(owner, leases)
            case f.JobsCompleted(gone):
                for ended in gone:
                    self._withdraw(ended).succeeded_total += 1
            case f.JobsCancelled(gone):
                for ended in gone:
                    self._withdraw(ended).cancelled_total += 1
            case f.JobsRescheduled(jobs, owner):
                for job, row in zip(jobs, rows, strict=True):
                    self._unlease(owner, job.id, job.queue)
                    self._wait(job, row).rescheduled_total += 1
            case f.JobsFailed(jobs, owner):
                for job, row in zip(jobs, rows, strict=True):
                    self._unlease(owner, job.id, job.queue)
                    self._fail(job, row)
            case f.JobsMoved(jobs, places):
                for job, place, row in zip(jobs, places, rows, strict=True):
                    self._take(job.queue, job.id, place)
                    self._wait(job, row)
                    if job.key is not None:  # one that had failed had given it up
                        self._hold_key(job.queue, job.key, job.id)
            case f.JobsQuarantined(gone, at_ms):
                for ended in gone:
                    self._take(ended.queue, ended.id, ended.place)
                    self._set_aside(ended.queue, ended.id, at_ms)
                    self._mark_failed(ended.id, at_ms)
            case f.OwnerRegistered(owner_row):
                self._txn.put(encode_u64(owner_row.id), encode_owner(owner_row), db=self._owners)
                self._txn.put(META_NEXT_OWNER, encode_u64(owner_row.id + 1), db=self._meta)
            case f.OwnerRemoved(owner):
                self._txn.delete(encode_u64(owner), db=self._owners)
            case f.QueueChanged(row):
                name = encode_queue_name(row.name)
                self._txn.put(name, encode_queue_row(row), db=self._queues)
            case f.QueueRemoved(queue):
                self._txn.delete(encode_queue_name(queue), db=self._queues)
                self._txn.delete(encode_queue(queue), db=self._counts)
                self._changed.pop(queue, None)

    def finish(self, position: Position) -> None:
        """Write the counters, and that the tables now reflect the log up to *position*."""
        for queue, counts in self._changed.items():
            self._txn.put(encode_queue(queue), encode_counts(counts), db=self._counts)
        self._txn.put(META_LOG, encode_position(position), db=self._meta)

    def _put(self, jobs: Sequence[Job], rows: Sequence[bytes]) -> None:
        ids = [encode_u64(job.id) for job in jobs]
        self._write(list(zip(ids, rows, strict=True)), db=self._jobs, append=True)
        self._write(
            [(encode_due(job.queue, job.priority, job.due_ms, job.id), b"") for job in jobs],
            db=self._due,
        )
        put_counts: dict[str, int] = {}
        for job in jobs:
            put_counts[job.queue] = put_counts.get(job.queue, 0) + 1
            if job.key is not None:
                self._hold_key(job.queue, job.key, job.id)
        for queue, count in put_counts.items():
            counts = self._count(queue)
            counts.waiting += count
            counts.put_total += count
        self._txn.put(META_NEXT_JOB, encode_u64(jobs[-1].id + 1), db=self._meta)

    def _write(
        self, items: Sequence[tuple[bytes, bytes]], *, db: Table, append: bool = False
    ) -> None:
        """Write rows; with *append* they are the table's last."""
        if len(items) == 1:
            ((key, value),) = items
            count = int(self._txn.put(key, value, append=append, db=db))
        else:
            cursor = self._txn.cursor(db=db)
            _, count = cursor.putmulti(items, append=append)
            cursor.close()
        assert count == len(items), "an id was given before"

    def _reserve(self, owner: OwnerId, leases: Sequence[LeaseRow]) -> None:
        for row in leases:
            self._take(row.queue, row.id, Scheduled(row.priority, row.due_ms))
            self._txn.put(encode_pair(owner, row.id), encode_lease(row), db=self._leases)
            self._count(row.queue).running += 1

    def _return(self, owner: OwnerId, leases: Sequence[LeaseRow]) -> None:
        for row in leases:
            self._unlease(owner, row.id, row.queue)
            key = encode_due(row.queue, row.priority, row.due_ms, row.id)
            self._txn.put(key, b"", db=self._due)
            self._count(row.queue).waiting += 1

    def _withdraw(self, job: Withdrawn) -> Counts:
        """Take out every row of a job."""
        self._take(job.queue, job.id, job.place)
        self._txn.delete(encode_u64(job.id), db=self._jobs)
        self._free_key(job.queue, job.key, job.id)
        return self._count(job.queue)

    def _wait(self, job: Job, row: bytes) -> Counts:
        self._txn.put(encode_u64(job.id), row, db=self._jobs)
        key = encode_due(job.queue, job.priority, job.due_ms, job.id)
        self._txn.put(key, b"", db=self._due)
        counts = self._count(job.queue)
        counts.waiting += 1
        return counts

    def _fail(self, job: Job, row: bytes) -> None:
        assert job.failed_ms is not None
        self._txn.put(encode_u64(job.id), row, db=self._jobs)
        self._set_aside(job.queue, job.id, job.failed_ms)
        # Its work is over, so its key is free: a dead letter must not block the next job.
        self._free_key(job.queue, job.key, job.id)

    def _hold_key(self, queue: str, key: str, job_id: JobId) -> None:
        self._txn.put(encode_queue(queue) + key.encode(), encode_u64(job_id), db=self._keys)

    def _free_key(self, queue: str, key: str | None, job_id: JobId) -> None:
        if key is not None:
            row = encode_queue(queue) + key.encode()
            if self._txn.get(row, db=self._keys) == encode_u64(job_id):  # else a successor has it
                self._txn.delete(row, db=self._keys)

    def _set_aside(self, queue: str, job_id: JobId, failed_ms: int) -> None:
        self._txn.put(encode_queue(queue) + encode_pair(failed_ms, job_id), b"", db=self._failed)
        counts = self._count(queue)
        counts.failed += 1
        counts.failed_total += 1

    def _mark_failed(self, job_id: JobId, failed_ms: int) -> None:
        """Write into its row that a job has failed, if the row can be read.

        It could not when the job was set aside. But an index made anew has
        it whole, as it was put, and then it can be kicked.
        """
        row = self._txn.get(encode_u64(job_id), db=self._jobs)
        try:
            job = None if row is None else decode_job(row, job_id)
        except CorruptIndex:
            return
        if job is not None:
            row = encode_job(replace(job, failed_ms=failed_ms))
            self._txn.put(encode_u64(job_id), row, db=self._jobs)
            self._free_key(job.queue, job.key, job_id)

    def _take(self, queue: str, job_id: JobId, place: Scheduled | Leased | Failed) -> None:
        """Remove a job from the place where it is."""
        removed = False
        match place:
            case Scheduled(priority, due_ms):
                key = encode_due(queue, priority, due_ms, job_id)
                removed = self._txn.delete(key, db=self._due)
                self._count(queue).waiting -= 1
            case Leased(owner):
                removed = self._txn.delete(encode_pair(owner, job_id), db=self._leases)
                self._count(queue).running -= 1
            case Failed(failed_ms):
                key = encode_queue(queue) + encode_pair(failed_ms, job_id)
                removed = self._txn.delete(key, db=self._failed)
                self._count(queue).failed -= 1
        assert removed, f"job {job_id} was not at {place}"

    def _unlease(self, owner: OwnerId, job_id: JobId, queue: str) -> None:
        self._take(queue, job_id, Leased(owner))

    def _count(self, queue: str) -> Counts:
        counts = self._changed.get(queue)
        if counts is None:
            row = self._txn.get(encode_queue(queue), db=self._counts)
            counts = self._changed[queue] = Counts() if row is None else decode_counts(row)
        return counts
