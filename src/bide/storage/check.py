"""Is the store what it must be? Every fault, each with file, offset and kind.

The log is read whole. The index is held against what the checkpoint and the
log make anew, row by row, so that a page of LMDB's, which has no checks, can
hide nothing. It is read by a child process: a damaged page may kill who
reads it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import lmdb
import msgspec

from bide.errors import BideError, CorruptIndex, NotAStore, StoreError
from bide.format.record import HEAD_SIZE
from bide.format.row import (
    decode_due_tail,
    decode_job,
    decode_lease,
    decode_pair,
    decode_queue,
    decode_queue_row,
    decode_u64,
)
from bide.format.state import FILE_NAME, State
from bide.storage.checkpoint import newest_checkpoint
from bide.storage.directory import Directory
from bide.storage.disk import NEW_SUFFIX
from bide.storage.environment import LmdbTables
from bide.storage.index import META_LOG, Counts, decode_counts, decode_position
from bide.storage.log_files import START, Position
from bide.storage.recovery import rebuild
from bide.storage.scan import Fault, scan_log
from bide.storage.tables import TABLE_NAMES, TableName

FAULTS_MAX = 1_000
"""Faults that are told of one part; there are more behind the last."""

_ROW = struct.Struct(">II")
_NO_ROW = 0xFFFF_FFFF
_WORK = f"check{NEW_SUFFIX}"


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What a check has found."""

    faults: tuple[Fault, ...]
    record_count: int
    job_count: int | None
    """Of the index; None if it could not be read."""
    log_start: int
    log_end: int
    needs_recovery: bool
    """The machine went down while the store was in use: the index waits to be made anew."""

    def of(self, kind: str) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.kind == kind)


class Checker:
    """One check of the store in *directory*, whose upkeep lock is held meanwhile."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self._state_faults: list[Fault] = []
        try:
            self.state: State = directory.read_state()
        except NotAStore as error:
            self.state = directory.guess_state()
            path = str(directory.path / FILE_NAME)
            self._state_faults = [Fault(kind="state", path=path, text=str(error))]
        self.work = directory.path / _WORK
        self.rows = self.work / "rows"
        """The index's rows, once it could be read."""
        self.position: Position | None = None
        """Up to where the index reflects the log."""
        self.checkpoint: Position | None = None
        """Where the checkpoint stands, if there is a good one."""

    def check(self) -> Findings:
        disk = self.directory.disk
        disk.remove(self.work)
        disk.make_directory(self.work)
        waits = not self.directory.is_index_good(self.state) or self.directory.is_suspect
        faults = self._check_checkpoint()
        index_faults: list[Fault] = []
        job_count: int | None = None
        if not waits:
            index_faults = self._read_index()
        if self.position is not None:
            job_count = sum(1 for table, _, _ in read_rows(self.rows) if table == "jobs")
        record_count, log_faults = self._check_log(is_start_known=not faults)
        if self.position is not None:
            if not faults and not self.faults_in_use(log_faults):
                index_faults += self._compare(self.position)
            else:
                index_faults += self._judge(inspect_rows(self.rows))
        bases = self.directory.log_files(self.state.log).bases()
        return Findings(
            faults=(*self._state_faults, *faults, *log_faults, *index_faults),
            record_count=record_count,
            job_count=job_count,
            log_start=bases[0] if bases else 0,
            log_end=self._log_end,
            needs_recovery=waits and not self._state_faults,
        )

    def close(self) -> None:
        """Remove what the check has made."""
        self.directory.disk.remove(self.work)

    def faults_in_use(self, faults: Sequence[Fault]) -> list[Fault]:
        """Those of the log that a recovery meets: it reads from the checkpoint on."""
        at = self.checkpoint
        bases = self.directory.log_files(self.state.log).bases()
        if at is None or not (at.base in bases or at.end in bases):
            return list(faults)
        return [
            fault
            for fault in faults
            if fault.offset is None or fault.offset >= at.end or fault.offset == at.base
        ]

    def _check_checkpoint(self) -> list[Fault]:
        path = self.directory.log_path(self.state.log)
        try:
            checkpoint = newest_checkpoint(self.directory.disk, path)
            if checkpoint is not None:
                with contextlib.closing(checkpoint):
                    for _ in checkpoint.image():
                        pass
                    self.checkpoint = checkpoint.position
        except StoreError as error:
            return [Fault(kind="checkpoint", path=error.path, text=str(error))]
        return []

    def _read_index(self) -> list[Fault]:
        """Have the index's rows written to a file, by a child that a damaged page may kill."""
        path = self.directory.index_path(self.state.index)
        said = _in_child(lambda: dump_rows(self.directory, self.rows))
        if said:
            return [Fault(kind="index", path=str(path), text=f"it cannot be read: {said}")]
        for table, key, value in read_rows(self.rows):
            if table == "meta" and key == META_LOG:
                try:
                    self.position = decode_position(value)
                except CorruptIndex as error:
                    return [Fault(kind="index", path=str(path), text=str(error))]
        if self.position is None:
            self.position = START
        return []

    def _check_log(self, *, is_start_known: bool) -> tuple[int, list[Fault]]:
        end = None if self.position is None else self.position.end
        record_count = 0
        faults: list[Fault] = []
        files = self.directory.log_files(self.state.log)
        bases = files.bases()
        self._log_end = min(bases, default=0)
        needed = self.checkpoint.base if self.checkpoint else 0
        begins_anew = self.checkpoint is not None and self.checkpoint.end in bases
        if is_start_known and bases and bases[0] > needed and not begins_anew:
            text = f"the log's bytes from {needed} to {bases[0]} are missing"
            faults.append(Fault(kind="log", path=files.file(needed), offset=needed, text=text))
        for found in scan_log(files, end):
            if isinstance(found, Fault):
                if len(faults) < FAULTS_MAX:
                    faults.append(found)
            else:
                record_count += 1
                self._log_end = found.offset + HEAD_SIZE + len(found.body)
        return record_count, faults

    def _compare(self, position: Position) -> list[Fault]:
        """Hold the index against what checkpoint and log make."""
        path = self.directory.index_path(self.state.index)
        log = self.directory.log(self.state.log)
        tables, start = self.directory.load_index_at(self.work / "index", self.state)
        try:
            if position != start:
                rebuild(log, tables, position, start=start)
            return list(_differences(path, tables, self.rows))
        except (BideError, AssertionError) as error:
            return [Fault(kind="index", path=str(path), text=f"the log cannot be applied: {error}")]
        finally:
            tables.close()

    def _judge(self, texts: Iterator[str]) -> list[Fault]:
        path = str(self.directory.index_path(self.state.index))
        return [
            Fault(kind="index", path=path, text=text)
            for _, text in zip(range(FAULTS_MAX), texts, strict=False)
        ]


def dump_rows(directory: Directory, path: Path) -> None:
    """Write every row of the index in use, as it is at one moment, to file *path*."""
    parts = directory.open_to_read()
    with path.open("wb") as file, parts.environment.begin(write=False) as txn:
        for name in TABLE_NAMES:
            cursor = txn.cursor(db=parts.environment.tables[name])
            found = cursor.set_range(b"\0")
            while found:
                key, value = cursor.key(), cursor.value()
                file.write(_ROW.pack(len(key), len(value)) + key + value)
                found = cursor.next()
            file.write(_ROW.pack(_NO_ROW, 0))
    parts.close()


def read_rows(path: Path) -> Iterator[tuple[TableName, bytes, bytes]]:
    """The rows that `dump_rows` wrote: (table, key, value)."""
    with path.open("rb") as file:
        for name in TABLE_NAMES:
            for key, value in _read_table(file):
                yield name, key, value


def _read_table(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    while True:
        key_size, value_size = _ROW.unpack(file.read(_ROW.size))
        if key_size == _NO_ROW:
            return
        yield file.read(key_size), file.read(value_size)


def inspect_rows(path: Path) -> Iterator[str]:
    """What is wrong with an index by itself: rows unreadable, or not belonging together."""
    places: Counter[int] = Counter()
    jobs: set[int] = set()
    is_at: Counter[tuple[str, str]] = Counter()
    counted: dict[str, Counts] = {}
    for table, key, value in read_rows(path):
        try:
            match table:
                case "jobs":
                    job_id = decode_u64(key)
                    jobs.add(job_id)
                    decode_job(value, job_id)
                case "due":
                    places[decode_due_tail(key)[2]] += 1
                    is_at[decode_queue(key), "waiting"] += 1
                case "leases":
                    places[decode_pair(key)[1]] += 1
                    is_at[decode_lease(value).queue, "running"] += 1
                case "failed":
                    places[decode_pair(key[-16:])[1]] += 1
                    is_at[decode_queue(key), "failed"] += 1
                case "keys":
                    if decode_u64(value) not in jobs:
                        yield f"a key names job {decode_u64(value)}, which is not there"
                case "counts":
                    counted[decode_queue(key)] = decode_counts(value)
                case "queues":
                    decode_queue_row(value, key.decode())
        except CorruptIndex as error:
            yield str(error)
        except UnicodeDecodeError as error:
            yield f"table {table}: a key cannot be read: {error}"
    for job_id in sorted(jobs | places.keys()):
        if job_id not in jobs:
            yield f"job {job_id} is not there, but waits, runs or has failed"
        elif places[job_id] != 1:
            yield f"job {job_id} is in {places[job_id]} places"
    for queue in sorted(counted.keys() | {queue for queue, _ in is_at}):
        counts = counted.get(queue, Counts())
        for name in ("waiting", "running", "failed"):
            count, actual = getattr(counts, name), is_at[queue, name]
            if count != actual:
                yield f"queue {queue}: {count} {name} by its counter, {actual} by its rows"


def _differences(path: Path, tables: LmdbTables, rows: Path) -> Iterator[Fault]:
    """Where the rows of an index are not those of *tables*, which the log has made."""
    with tables.begin(write=False) as txn, rows.open("rb") as file:
        for name in TABLE_NAMES:
            cursor = txn.cursor(db=tables.tables[name])
            found = cursor.set_range(b"\0")
            told = 0
            for key, value in _read_table(file):
                while found and cursor.key() < key:
                    yield from _tell(path, name, "missing", cursor.key(), told)
                    told += 1
                    found = cursor.next()
                if found and cursor.key() == key:
                    if cursor.value() != value:
                        yield from _tell(path, name, "not what the log says", key, told)
                        told += 1
                    found = cursor.next()
                else:
                    yield from _tell(path, name, "too many", key, told)
                    told += 1
            while found:
                yield from _tell(path, name, "missing", cursor.key(), told)
                told += 1
                found = cursor.next()


def _tell(path: Path, table: str, what: str, key: bytes, told: int) -> Iterator[Fault]:
    if told < FAULTS_MAX:
        yield Fault(
            kind="index", path=str(path), text=f"table {table}: {_name(table, key)} is {what}"
        )


def _name(table: str, key: bytes) -> str:
    with contextlib.suppress(CorruptIndex, UnicodeDecodeError, IndexError):
        match table:
            case "jobs":
                return f"job {decode_u64(key)}"
            case "due":
                return f"job {decode_due_tail(key)[2]} in queue {decode_queue(key)}"
            case "leases":
                return f"the lease of job {decode_pair(key)[1]}"
            case "failed":
                return f"failed job {decode_pair(key[-16:])[1]} in queue {decode_queue(key)}"
            case "keys":
                return f"key {key[1 + key[0] :].decode()!r} in queue {decode_queue(key)}"
            case "counts":
                return f"the counters of queue {decode_queue(key)}"
            case "queues":
                return f"the row of queue {key.decode()}"
            case "owners":
                return f"owner {decode_u64(key)}"
    return f"row {key!r}"


def _in_child(work: object) -> str:
    """Do *work* in a forked child; returns what it said of its failure, "" if it did not fail."""
    assert callable(work)
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except (BideError, OSError, lmdb.Error) as error:
            os.write(write_fd, str(error).encode(errors="replace")[:4096])
        finally:
            os._exit(code)
    os.close(write_fd)
    with os.fdopen(read_fd, "rb") as said:
        text = said.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"it kills who reads it ({signal.Signals(-code).name})"
    return text or ("it cannot be read" if code else "")


def check(directory: Directory) -> Findings:
    """Check the store, while others use it or nobody does.

    Raises:
        StoreError: It could not even be looked at.
    """
    with directory.upkeep_lock() as lock:
        lock.take()
        checker = Checker(directory)
        try:
            return checker.check()
        finally:
            checker.close()
