"""Making a store whole again, with what can be saved, and an honest word on what can not.

Three ways, the first that can be gone:

1. The checkpoint and the log behind it are whole: the index is made anew. Nothing is lost.
2. They are not, but the index is: it becomes the new checkpoint, and the log
   goes on behind it. Nothing is lost.
3. Neither: what the checkpoint, or the log's beginning, and each record that
   can be read still say is put together. What was lost is told by id.

A log that is left behind is kept, under another name, for a second opinion.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec.structs import replace

from bide.errors import BideError
from bide.format.commit import decode_commit
from bide.format.record import HEAD_SIZE, Record
from bide.model.facts import JobsPut
from bide.model.job import JobId
from bide.storage.check import Checker, Findings, inspect_rows, read_rows
from bide.storage.checkpoint import copy_image, make_checkpoint
from bide.storage.directory import DAMAGED_LOG, Directory
from bide.storage.environment import LmdbTables
from bide.storage.index import META_LOG, IndexView, encode_position
from bide.storage.log_files import START, Position
from bide.storage.salvage import Salvager
from bide.storage.scan import Fault, scan_log

_ID_SIZE_MIN = 64
"""Bytes of the log that a job takes, at least: it tells how many a damaged part can have held."""

_IDS_SKIPPED = 10_000_000
"""Ids that are not given again behind a log whose end is lost."""

_TOLD_MAX = 1_000

_FORGOTTEN = "how much of the log was to be kept: the state did not say any more"


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair has found and done."""

    findings: Findings
    done: str
    lost: tuple[str, ...] = ()
    """What was lost, or may have been: a line each."""
    kept: str | None = None
    """Where the damaged log now is."""


def repair(directory: Directory, now_ms: int) -> Repaired:
    """Make the store whole, if it is not.

    Raises:
        StoreLocked: It is in use.
        StoreError: It could not be done; nothing has changed.
    """
    with directory.alone(), directory.upkeep_lock() as upkeep:
        upkeep.take()
        checker = Checker(directory)
        try:
            findings = checker.check()
            return _Repair(directory, checker, findings, now_ms).run()
        finally:
            checker.close()


class _Repair:
    """One repair of a store that nobody uses."""

    def __init__(
        self, directory: Directory, checker: Checker, findings: Findings, now_ms: int
    ) -> None:
        self._directory = directory
        self._checker = checker
        self._findings = findings
        self._now_ms = now_ms
        self._state = checker.state
        self._number = 0  # of the new index
        self._end = START  # up to where it reflects the old log

    def run(self) -> Repaired:
        findings = self._findings
        if not (findings.faults or findings.needs_recovery):
            return Repaired(findings=findings, done="nothing was wrong")
        damaged = findings.of("checkpoint") + findings.of("log")
        forgotten = (_FORGOTTEN,) if findings.of("state") else ()
        if not damaged:
            new = self._directory.recover(self._state)
            self._directory.write_state(new)
            self._directory.remove_suspect()
            done = "the index was made anew; no job is lost"
            return Repaired(findings=findings, done=done, lost=forgotten)
        lost: tuple[str, ...] = ()
        if self._is_recoverable():
            tables, _ = self._salvage()
            done = "the index was made anew from what is whole; no job is lost"
        elif self._is_index_whole():
            tables = self._from_rows()
            done = "the index is whole, and is the checkpoint now; no job is lost"
        else:
            tables, lost = self._salvage()
            done = "what can be read was put together"
        kept = self._begin_log_anew(tables)
        return Repaired(findings=findings, done=done, lost=forgotten + lost, kept=str(kept))

    def _is_recoverable(self) -> bool:
        """Whether checkpoint and log, or the log alone, still say all."""
        if self._findings.of("checkpoint"):
            return self._findings.log_start == 0 and not self._findings.of("log")
        return not self._checker.faults_in_use(self._findings.of("log"))

    def _is_index_whole(self) -> bool:
        if self._checker.position is None or self._findings.needs_recovery:
            return False
        return next(inspect_rows(self._checker.rows), None) is None

    def _from_rows(self) -> LmdbTables:
        """Tables with the rows of the index as it is."""
        tables = self._empty_tables()
        with tables.begin(write=True) as txn:
            for table, key, value in read_rows(self._checker.rows):
                txn.put(key, value, db=tables.tables[table])
        assert self._checker.position is not None
        self._end = self._checker.position
        return tables

    def _empty_tables(self) -> LmdbTables:
        self._number = self._directory.free_index()
        path = self._directory.index_path(self._number)
        self._directory.disk.make_directory(path)
        return LmdbTables(path)

    def _salvage(self) -> tuple[LmdbTables, tuple[str, ...]]:
        """Tables from all that can be read, and what is lost."""
        directory, start = self._directory, START
        if self._findings.of("checkpoint"):
            tables = self._empty_tables()
        else:
            self._number = directory.free_index()
            path = directory.index_path(self._number)
            tables, start = directory.load_index_at(path, self._state)
        with tables.begin(write=True) as txn:
            salvager = Salvager(txn, tables.tables)
            losses = _Losses(salvager, IndexView(txn, tables.tables), start)
            if start == START and self._findings.log_start:
                losses.note_hole(self._findings.log_start)
            self._end = start
            for found in scan_log(directory.log_files(self._state.log), None):
                if isinstance(found, Fault):
                    losses.note_fault(found)
                elif found.offset >= start.end:
                    self._apply(found, salvager, losses)
            salvager.settle()
            lost = losses.tell()
            salvager.keep_ids_from(losses.next_id)
            salvager.finish(self._end)
        return tables, lost

    def _apply(self, record: Record, salvager: Salvager, losses: _Losses) -> None:
        try:
            entries = decode_commit(record.body)
        except BideError as error:
            losses.note_fault(Fault(kind="log", path="", offset=record.offset, text=str(error)))
            return  # of a later version, or of a bug of ours: its checks hold
        losses.note_record(record)
        for fact, rows in entries:
            if isinstance(fact, JobsPut):
                losses.note_put(fact)
            salvager.apply(fact, rows)
        self._end = Position(0, record.offset + HEAD_SIZE + len(record.body), record.check)

    def _begin_log_anew(self, tables: LmdbTables) -> Path:
        """A log that goes on where the old one ended, with *tables* as its checkpoint."""
        directory, disk = self._directory, self._directory.disk
        old = self._state
        new = replace(
            old,
            index=self._number,
            log=directory.free_log(),
            boot=directory.boot_id(),
            closed_at=None,
        )
        # Past every byte of the old log, so that no offset ever means two records.
        files = directory.log_files(old.log)
        ends = [base + len(files.segment(base)) for base in files.bases()[-1:]]
        at = Position(0, max([self._end.end, *ends]), self._end.chain)
        path = directory.log_path(new.log)
        disk.make_directory(path)
        position = directory.log(new.log).start_at(at)
        with tables.begin(write=True) as txn:
            txn.put(META_LOG, encode_position(position), db=tables.tables["meta"])

        def take(fd: int) -> Position:
            with tables.begin(write=False) as txn:
                copy_image(disk, fd, tables, txn)
            return position

        try:
            make_checkpoint(
                disk,
                path,
                take,
                store_id=directory.store_id,
                segment_size=directory.identity.segment_size,
                now_ms=self._now_ms,
            )
        finally:
            tables.close()
        directory.write_state(new)
        kept = directory.path / f"{DAMAGED_LOG}{old.log}"
        disk.rename(directory.log_path(old.log), kept)
        disk.remove(directory.index_path(old.index))
        directory.remove_suspect()
        return kept


class _Losses:
    """What the damaged parts of a log held, as far as the rest tells."""

    def __init__(self, salvager: Salvager, view: IndexView, start: Position) -> None:
        self._salvager = salvager
        self._start = start
        self.next_id = view.next_job_id()
        """No job with this id or a higher one can have been put so far."""
        self._hole: int | None = None  # where the damaged part starts that is being passed
        self._first = self.next_id  # the first id that it may have held
        self._ranges: list[tuple[int, int]] = []
        self._was_damaged = False

    def note_fault(self, fault: Fault) -> None:
        if fault.offset is not None and fault.offset >= self._start.end:
            self.note_hole(fault.offset)

    def note_hole(self, offset: int) -> None:
        self._was_damaged = True
        if self._hole is None:
            self._hole, self._first = offset, self.next_id

    def note_record(self, record: Record) -> None:
        if self._hole is not None:
            count = (record.offset - self._hole) // _ID_SIZE_MIN + 1
            self.next_id = JobId(self._first + max(count, 1))
            self._ranges.append((self._first, self.next_id))
            self._hole = None

    def note_put(self, fact: JobsPut) -> None:
        if self._ranges and self._ranges[-1][1] == self.next_id:  # the first behind a hole
            self._ranges[-1] = (self._ranges[-1][0], fact.jobs[0].id)
        self.next_id = JobId(fact.jobs[-1].id + 1)

    def tell(self) -> tuple[str, ...]:
        """A line for each loss."""
        lines = [
            f"job {job_id} of queue {queue} is lost: the part of the log that held it is damaged"
            for job_id, queue in sorted(self._salvager.missing.items())
        ]
        known = self._salvager.missing.keys() | self._salvager.ended
        for first, after in self._ranges:
            unknown = [job_id for job_id in range(first, after) if job_id not in known]
            lines += [
                f"job {job_id}, if there was one, may be lost: it was put in a damaged part, and "
                "nothing behind speaks of it"
                for job_id in unknown[:_TOLD_MAX]
            ]
            if len(unknown) > _TOLD_MAX:
                lines.append(f"and so may {len(unknown) - _TOLD_MAX} more, up to job {unknown[-1]}")
        if self._hole is not None:
            lines.append(
                f"all that was put behind log offset {self._hole} may be lost: "
                f"job {self._first} and those that followed"
            )
            self.next_id = JobId(self._first + _IDS_SKIPPED)
        if self._was_damaged:
            lines.append("jobs that ended, moved or were cancelled in a damaged part may run again")
        return tuple(lines)
