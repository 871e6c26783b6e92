"""The follower's own store: the leader's log, byte for byte, and an index made of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import lmdb
from msgspec.structs import replace

from bide.errors import OutOfStep, StoreError
from bide.format.record import Record, decode_record
from bide.format.segment import HEAD_SIZE, decode_segment_head, segment_name
from bide.format.state import State
from bide.storage.apply import Applier
from bide.storage.checkpoint import copy_image, make_checkpoint
from bide.storage.directory import Directory
from bide.storage.disk import Disk
from bide.storage.environment import LmdbTables, index_error
from bide.storage.flock import Flock
from bide.storage.index import IndexView
from bide.storage.log_end import checkpoint_position, roll_back
from bide.storage.log_files import START, Position
from bide.storage.recovery import apply_record, position_of
from bide.storage.retention import first_kept
from bide.storage.upkeep import CHECKPOINT_LOG_SIZE


class Replica:
    """The follower's own store; this process has it alone."""

    def __init__(self, directory: Directory, users: Flock, state: State) -> None:
        self.directory = directory
        self._users = users
        self.state = state
        self._disk: Disk = directory.disk
        self._log = directory.log(state.log)
        self._tables = LmdbTables(directory.index_path(state.index))
        with self._tables.closed_if_failed():
            self.position = position_of(self._tables)
            # A kill may have left segments that the leader lacks, which a recovery would miss.
            self._log.cut(self.position)

    def accept_segment(self, head: bytes, base: int) -> None:
        """Begin the leader's next segment, where the log ends.

        Raises:
            OutOfStep: It does not begin there; nothing has changed.
        """
        told = decode_segment_head(head, base=base)
        end = self.position.end
        if told is None or base != end or (told.chain != self.position.chain):
            raise self._out_of_step(base, f"a segment at {base}")
        self._sync()
        self._write(base, head, 0)
        self._disk.sync_directory(self._log.files.path)
        # The index moves with the segment's first record: no end of the log is a bare head.
        self.position = Position(base, base + HEAD_SIZE, self.position.chain)

    def accept(self, data: bytes, offset: int, sizes: list[int]) -> None:
        """Take whole records, as the leader has them.

        Args:
            data: Their bytes.
            offset: Where the first one stands in the leader's log.
            sizes: How large the leader says that each is.

        Raises:
            OutOfStep: They do not follow this log's end, or are not of the
                sizes stated; nothing has changed.
            CorruptRecord: One of them is damaged; nothing has changed.
        """
        if offset != self.position.end or sum(sizes) != len(data):
            raise self._out_of_step(
                offset, f"{len(data)} bytes, of {sum(sizes)} stated, at {offset}"
            )
        view, start, chain = memoryview(data), 0, self.position.chain
        records: list[Record] = []
        for size in sizes:
            found = decode_record(view[: start + size], start, offset=offset + start)
            if found is None or found[1] != start + size or found[0].chain != chain:
                raise self._out_of_step(
                    offset + start, f"a record of {size} bytes at {offset + start}"
                )
            records.append(found[0])
            start, chain = found[1], found[0].check
        base = self.position.base
        self._write(base, data, offset - base)
        self._move(Position(base, offset + len(data), chain), records)

    def checkpoint_if_due(self, now_ms: int) -> None:
        """Make a checkpoint of its own, and let go of the log before it, as its leader does."""
        directory = self.directory
        at = checkpoint_position(directory, self.state.log)
        if self.position.end - at.end < max(CHECKPOINT_LOG_SIZE, self._tables.size()[1]):
            return

        def take(fd: int) -> Position:
            self._sync()
            with self._tables.begin(write=False) as txn:
                copy_image(self._disk, fd, self._tables, txn)
                return IndexView(txn, self._tables.tables).position()

        with directory.upkeep_lock() as lock:
            lock.take()
            head = make_checkpoint(
                self._disk,
                self._log.files.path,
                take,
                store_id=directory.store_id,
                segment_size=directory.identity.segment_size,
                now_ms=now_ms,
            )
            if head is not None:
                files = self._log.files
                base = first_kept(
                    files.bases(),
                    needed=head.base,
                    end=head.end,
                    followed=directory.followed(),
                    retention=self.state.retention,
                    now_ms=now_ms,
                    written_ms=files.first_written_ms,
                )
                self._log.trim(base)

    def cut_back(self, end: int) -> None:
        """Drop what the leader does not have, from log offset *end* on."""
        with self.replaced():
            roll_back(self.directory, end)

    @contextlib.contextmanager
    def replaced(self) -> Iterator[None]:
        """A block that puts other parts in the place of these; if it fails, these go on."""
        self._tables.close()
        try:
            yield
        finally:
            self.reopen()

    def reopen(self) -> None:
        """Have the parts in force open, if they are not."""
        self._tables.close()
        self.state = self.directory.read_state()
        self._log = self.directory.log(self.state.log)
        self._tables = LmdbTables(self.directory.index_path(self.state.index))
        with self._tables.closed_if_failed():
            self.position = position_of(self._tables)

    def close(self) -> None:
        """Let go, with all that was taken on the disk."""
        try:
            with contextlib.suppress(StoreError, OSError):  # a recovery, next time
                self._sync()
                self._tables.sync()
                self.directory.write_state(
                    replace(self.state, closed_at=position_of(self._tables).end)
                )
        finally:
            self._tables.close()
            self._users.close()

    def _write(self, base: int, data: bytes, offset: int) -> None:
        fd = self._disk.open(self._log.files.path / segment_name(base), create=True)
        try:
            self._disk.truncate(fd, offset)  # left by a kill before its records were applied
            self._disk.write(fd, data, offset)
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    def _sync(self) -> None:
        if self.position != START:
            self._log.sync_segment(self.position.base)

    def _move(self, position: Position, records: list[Record]) -> None:
        try:
            with self._tables.begin(write=True) as txn:
                applier = Applier(txn, self._tables.tables)
                for record in records:
                    apply_record(record, self._log.file(position.base), applier)
                applier.finish(position)
        except lmdb.Error as error:
            raise index_error(error, self._tables.path) from error
        self.position = position

    def _out_of_step(self, offset: int, what: str) -> OutOfStep:
        return OutOfStep(
            f"{self.directory.path}: handed {what}, but its log ends at {self.position.end}",
            path=str(self.directory.path),
            offset=offset,
            end=self.position.end,
        )
