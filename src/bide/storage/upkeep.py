"""What keeps a store small, and quick to recover: checkpoints, retention, compaction.

One process at a time does it, in a thread beside its work. A checkpoint is
made from a snapshot while commits go on; it lets the segments before it go.
An index whose file is mostly free pages is compacted in the way that
recovery makes one: from the checkpoint and the log behind it, in a directory
of its own; the last few records follow under the lock that writers need, and
from then on the old index says where the new one is.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

import lmdb
import msgspec
from msgspec.structs import replace

from bide.errors import StoreError, StoreFailed
from bide.format.checkpoint import CheckpointHead
from bide.format.row import encode_u64
from bide.format.state import Retention, State
from bide.storage.checkpoint import (
    copy_image,
    list_checkpoints,
    make_checkpoint,
    newest_checkpoint,
)
from bide.storage.directory import Directory
from bide.storage.disk import mapped_errors
from bide.storage.environment import LmdbTables, index_error
from bide.storage.fork import unforked
from bide.storage.index import META_MOVED, IndexView
from bide.storage.log import SegmentLog
from bide.storage.log_files import START, Position
from bide.storage.recovery import rebuild
from bide.storage.retention import first_kept
from bide.storage.store import Store

logger = logging.getLogger("bide.store")

CHECKPOINT_LOG_SIZE = 64 << 20
"""A checkpoint is made once the log has grown by this, or by the last checkpoint's own size."""

COMPACT_SIZE_MIN = 16 << 20
COMPACT_USED_MAX = 0.5
"""An index is compacted if its file is as large, and no more of it is in use."""

CATCH_UP_SIZE = 256 << 10
"""Bytes of the log that may be left to apply while writers wait."""

CATCH_UP_ROUNDS = 20

RETRY_S = 30.0


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What one round of upkeep has done; sizes in bytes."""

    checkpoint: CheckpointHead | None = None
    trimmed_size: int = 0
    index_size_before: int = 0
    index_size: int = 0


class Upkeep:
    """The upkeep of the store in one directory, by this process if no other is at it.

    Args:
        now_ms: The time, in Unix ms.
        monotonic: Seconds that never go back.
    """

    def __init__(
        self,
        directory: Directory,
        store: Store,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
    ) -> None:
        self.directory = directory
        self._store = store
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._thread: threading.Thread | None = None
        self._due_at = -1  # the log's end from which the next checkpoint is due; -1: not known
        self._not_before_s = 0.0

    def start_if_due(self) -> None:
        """Begin a round, in a thread, if the log has grown enough."""
        if self._thread is not None and self._thread.is_alive():
            return
        end = self._store.end
        if end < self._due_at or self._monotonic() < self._not_before_s:
            return
        try:
            with mapped_errors(self.directory.path):
                self._due_at = self._find_due()
        except StoreError as error:
            self._put_off(error)
            return
        if end >= self._due_at:
            self._thread = threading.Thread(target=self._run, name="bide-upkeep", daemon=True)
            self._thread.start()

    def run(self, *, compact: bool = False) -> Kept:
        """Do a whole round, waiting for another process that is at it.

        Args:
            compact: Compact the index, however much of it is in use.
        """
        with self._alone(wait=True):
            return self._round(compact=compact)

    def keep(self, retention: Retention) -> None:
        """Say what is kept of the log beyond what the store itself needs, from now on."""
        with self._store.at_rest(), self.directory.locked():
            state = self.directory.read_state()
            self.directory.write_state_changed(replace(state, retention=retention))

    def trimmable(self, retention: Retention | None = None) -> tuple[int, int]:
        """How many segments, and bytes, of the log a round would remove now."""
        with self._store.view() as view:
            position = view.position()
        state = self.directory.read_state()
        log = self.directory.log(state.log)
        bases = [base for base in log.files.bases() if base <= position.base]
        if not bases:
            return 0, 0
        base = self._first_kept(log, position.base, position.end, retention or state.retention)
        return sum(old < base for old in bases), base - bases[0]

    def join(self) -> None:
        """Wait for the round under way."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        # However this ends: while another process is at it, too, no thread is started in vain.
        self._not_before_s = self._monotonic() + RETRY_S
        try:
            with self._alone(wait=False) as is_mine:
                if not is_mine:
                    return
                if self._store.end >= self._find_due():
                    self._round(compact=False)
            self._due_at, self._not_before_s = -1, 0.0
        except StoreError as error:
            self._put_off(error)

    def _put_off(self, error: StoreError) -> None:
        self._not_before_s = self._monotonic() + RETRY_S
        if not self._store.is_closed:
            logger.warning("no checkpoint of %s: %s", self.directory.path, error)

    @contextlib.contextmanager
    def _alone(self, *, wait: bool) -> Iterator[bool]:
        """Whether this process is the one that does it."""
        with mapped_errors(self.directory.path), self.directory.upkeep_lock() as lock:
            if wait:
                lock.take()
                yield True
            else:
                yield lock.try_take()

    def _find_due(self) -> int:
        """The log's end from which the next checkpoint is due."""
        directory = self.directory
        path = directory.log_path(directory.read_state().log)
        ends = list_checkpoints(directory.disk, path)
        if not ends:
            return CHECKPOINT_LOG_SIZE
        with contextlib.suppress(StoreError):  # a damaged one is replaced by the next
            checkpoint = newest_checkpoint(directory.disk, path)
            if checkpoint is not None:
                checkpoint.close()
                return ends[-1] + max(CHECKPOINT_LOG_SIZE, checkpoint.head.file_size)
        return ends[-1]

    def _round(self, *, compact: bool) -> Kept:
        head = self._make_checkpoint()
        if head is None:
            return Kept()
        trimmed = self._trim(head)
        with self._store.at_rest() as parts:
            assert isinstance(parts.environment, LmdbTables)
            parts.environment.forget_dead_readers()
            size, used = parts.environment.size()
        kept = Kept(checkpoint=head, trimmed_size=trimmed, index_size_before=size, index_size=size)
        if compact or (size >= COMPACT_SIZE_MIN and used < size * COMPACT_USED_MAX):
            kept = replace(kept, index_size=self._compact())
        return kept

    def _make_checkpoint(self) -> CheckpointHead | None:
        """None if the store has never had a job."""
        directory = self.directory
        log = directory.log(directory.read_state().log)

        def take(fd: int) -> Position:
            with self._store.snapshot() as snapshot:
                position = snapshot.view.position()
                copy_image(directory.disk, fd, snapshot.environment, snapshot.txn)
            if position != START:
                try:
                    # In force, it must not be ahead of a log that the power has cut.
                    log.sync_segment(position.base)
                except StoreFailed as error:
                    self._store.fail(error)
                    raise
            return position

        return make_checkpoint(
            directory.disk,
            log.files.path,
            take,
            store_id=directory.store_id,
            segment_size=directory.identity.segment_size,
            now_ms=self._now_ms(),
        )

    def _trim(self, head: CheckpointHead) -> int:
        """Remove the segments that nothing needs any more; returns their bytes."""
        state = self.directory.read_state()
        log = self.directory.log(state.log)
        return log.trim(self._first_kept(log, head.base, head.end, state.retention))

    def _first_kept(self, log: SegmentLog, needed: int, end: int, retention: Retention) -> int:
        return first_kept(
            log.files.bases(),
            needed=needed,
            end=end,
            followed=self.directory.followed(),
            retention=retention,
            now_ms=self._now_ms(),
            written_ms=log.files.first_written_ms,
        )

    def _compact(self) -> int:
        """Have a new index take the place of the one in use; returns the size of its file."""
        directory = self.directory
        self._remove_unused()
        state = directory.read_state()
        new = replace(state, index=directory.free_index())
        try:
            with unforked():  # a child's copy of the new tables would keep it from opening them
                size = self._build(new)
        except BaseException as error:
            with contextlib.suppress(StoreError, OSError):
                self._remove_unused()
            if isinstance(error, lmdb.Error):
                raise index_error(error, directory.index_path(new.index)) from error
            raise
        self._remove_unused()
        return size

    def _build(self, new: State) -> int:
        log = self.directory.log(new.log)
        tables, position = self.directory.load_index(new)
        with contextlib.closing(tables):
            for _ in range(CATCH_UP_ROUNDS):
                with self._store.view() as view:
                    end = view.position()
                if end.end - position.end <= CATCH_UP_SIZE:
                    break
                position = rebuild(log, tables, end, start=position)
            return self._move(tables, position, log, new.index)

    def _move(self, tables: LmdbTables, position: Position, log: SegmentLog, number: int) -> int:
        """Let the last records follow, with writers waiting, and point from the old to the new."""
        directory = self.directory
        with self._store.at_rest() as parts, directory.locked():
            environment = parts.environment
            with environment.begin(write=True) as txn:
                end = IndexView(txn, environment.tables).position()
                if end != position:
                    rebuild(log, tables, end, start=position)
                size, _ = tables.size()
                tables.close()  # while nobody can follow: LMDB opens it once in a process
                txn.put(META_MOVED, encode_u64(number), db=environment.tables["meta"])
            directory.write_state(replace(directory.read_state(), index=number))
        return size

    def _remove_unused(self) -> None:
        """Remove the indexes that others took the place of, or that were never finished."""
        directory = self.directory
        # With the store open here and the lock held, nobody makes one to recover.
        with self._store.at_rest() as parts, directory.locked():
            assert isinstance(parts.environment, LmdbTables)
            used = parts.environment.path.name
            numbers = directory.index_numbers()
            (in_force,) = [n for n in numbers if directory.index_path(n).name == used]
            state = directory.read_state()
            directory.write_state_changed(replace(state, index=in_force))
            for number in numbers:
                if number != in_force:
                    directory.disk.remove(directory.index_path(number))
