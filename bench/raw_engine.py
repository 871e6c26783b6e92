"""The shortest loop over bide's log format and LMDB tables: what the engine could do at best.

It writes the bytes that bide writes, or as many (a record for each
transaction; for each job a row, with its checksum, and the same keys; in an
LMDB opened alike), and has nothing else of it: no objects, no rules, no
lock, no counters, no answers. What bide costs beyond is bide's.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self
from zlib import crc32

import msgspec

from bide.format.record import HEAD_SIZE, encode_record
from bide.format.row import JOB_HEAD_SIZE, encode_due_tail, encode_job, encode_queue, encode_u64
from bide.model.job import Job, JobId
from bide.storage.disk import OsDisk
from bide.storage.environment import LmdbTables
from bide.storage.log import RESERVE_SIZE

_QUEUE = encode_queue("default")
_NOW_MS = 1_700_000_000_000
_OWNER = encode_u64(1)
_LEASE = b"\0" * 24
_REST_OF_JOB = encode_job(
    Job(
        id=JobId(1),
        queue="default",
        task="noop",
        args=msgspec.msgpack.encode({"n": 50_000}),
        due_ms=_NOW_MS,
        priority=0,
        key=None,
        attempt=0,
        max_retries=5,
        timeout_ms=120_000,
        put_ms=_NOW_MS,
    )
)[JOB_HEAD_SIZE + 2 :]
"""A job's row without its head, and without the array's head and the id in front."""


class RawEngine:
    """A log and tables in directory *path*, which is empty."""

    def __init__(self, path: Path) -> None:
        index = path / "index"
        index.mkdir()
        self._environment = LmdbTables(index)
        tables = self._environment.tables
        self._jobs, self._due = tables["jobs"], tables["due"]
        self._leases, self._meta = tables["leases"], tables["meta"]
        self._disk = OsDisk()
        self._fd = self._disk.open(path / "log", create=True)
        self._end = self._reserved_end = self._chain = 0
        self._next_id = 1
        self._leased: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._environment.close()
        self._disk.close(self._fd)

    def put(self, count: int) -> None:
        """Put *count* jobs in one transaction."""
        with self._environment.begin(write=True) as txn:
            rows: list[tuple[bytes, bytes]] = []
            due: list[tuple[bytes, bytes]] = []
            for number in range(self._next_id, self._next_id + count):
                key = encode_u64(number)
                data = key + _REST_OF_JOB
                rows.append((key, encode_u64(crc32(data)) + data))
                due.append((_QUEUE + encode_due_tail(0, _NOW_MS, number), b""))
            self._next_id += count
            txn.cursor(db=self._jobs).putmulti(rows, append=True)
            txn.cursor(db=self._due).putmulti(due)
            self._append(b"".join([row for _, row in rows]))
            txn.put(b"log", encode_u64(self._end), db=self._meta)

    def exchange(self, count: int) -> int:
        """Complete what is leased and lease up to *count* jobs, in one transaction.

        Returns:
            How many are leased now.
        """
        jobs, due, leases = self._jobs, self._due, self._leases
        with self._environment.begin(write=True) as txn:
            completed, self._leased = self._leased, []
            for job in completed:
                txn.delete(_OWNER + job, db=leases)
                txn.delete(job, db=jobs)
            cursor = txn.cursor(db=due)
            keys: list[bytes] = []
            found = cursor.set_range(_QUEUE)
            while found and len(keys) < count:
                keys.append(cursor.key())
                found = cursor.next()
            for key in keys:
                job = key[-8:]
                txn.get(job, db=jobs)
                txn.delete(key, db=due)
                self._leased.append(job)
            rows = [(_OWNER + job, _LEASE) for job in self._leased]
            txn.cursor(db=leases).putmulti(rows)
            self._append(b"".join(completed + keys))
            txn.put(b"log", encode_u64(self._end), db=self._meta)
        return len(keys)

    def sync(self) -> None:
        self._disk.sync(self._fd)

    def _append(self, body: bytes) -> None:
        head, self._chain = encode_record(
            body, offset=self._end, written_ms=_NOW_MS, synced=0, chain=self._chain
        )
        end = self._end + HEAD_SIZE + len(body)
        if end > self._reserved_end:
            self._reserved_end = end + RESERVE_SIZE
            self._disk.reserve(self._fd, self._reserved_end)
        os.pwrite(self._fd, head + body, self._end)
        self._end = end
