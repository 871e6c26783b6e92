"""Where the log ends, moved on purpose; the index moves with it, always.

None of these is for a store in use: each has it alone, makes an index that
reflects the log up to the new end, and lets ``state.json`` name that. Only
then is the log cut, so a kill leaves the old end or the new one.
"""

from __future__ import annotations

import contextlib
from itertools import chain

import lmdb
from msgspec.structs import replace

from bide.errors import CorruptRecord, LogTrimmed, OutOfStep
from bide.format.record import Record
from bide.format.segment import segment_name
from bide.format.state import State
from bide.storage.checkpoint import newest_checkpoint
from bide.storage.directory import Directory
from bide.storage.environment import LmdbTables, index_error
from bide.storage.log_files import START, LogFiles, Position
from bide.storage.recovery import position_of, rebuild


def roll_back(directory: Directory, end: int) -> Position:
    """Have the log end at offset *end*, and the index reflect that; it only shrinks.

    For a store that this process has alone (`Directory.alone`).

    Raises:
        LogTrimmed: *end* lies before the checkpoint, or before the log's start.
        OutOfStep: It lies past the log's end, or within a record.
    """
    state = directory.read_state()
    log = directory.log(state.log)
    new = replace(
        state,
        index=max(directory.free_index(), state.index + 1),  # one that was lost counts too
        boot=directory.boot_id(),
        closed_at=None,
    )
    start = checkpoint_position(directory, state.log)
    if end < start.end:
        raise LogTrimmed(
            f"{directory.path}: the log cannot be rolled back to {end}: what is known of it "
            f"begins at {start.end}",
            path=str(directory.path),
            offset=end,
            start=start.end,
        )
    try:
        reached = _index_at(directory, new, end)
    except BaseException:
        directory.disk.remove(directory.index_path(new.index))
        raise
    directory.write_state(new)
    directory.disk.remove(directory.index_path(state.index))
    log.cut(reached)
    if reached == START:  # the first segment goes too, else a recovery would find its records
        for base in log.files.bases():
            directory.disk.remove(log.files.path / segment_name(base))
        directory.disk.sync_directory(log.files.path)
    return reached


def _index_at(directory: Directory, new: State, end: int) -> Position:
    """Make the index that *new* names, as it was when the log ended at *end*."""
    log = directory.log(new.log)
    tables, start = directory.load_index(new)
    with contextlib.closing(tables):
        reached = start
        try:
            if end > start.end:
                reached = rebuild(log, tables, Position(0, end, 0), start=start)
        except CorruptRecord:
            # Damaged, which this says too; or whole, and ends before.
            for _, reached in log.read(start=start):  # noqa: B007  the last one is wanted
                pass
        except lmdb.Error as error:
            raise index_error(error, tables.path) from error
    if reached.end != end:
        raise OutOfStep(
            f"{directory.path}: no record of the log ends at {end}; it was read up to "
            f"{reached.end}",
            path=str(directory.path),
            offset=end,
            end=reached.end,
        )
    return reached


def roll_forward(directory: Directory) -> Position:
    """Have the index reflect every whole record that the log's files hold.

    After the index was lost, or is behind: the end only grows. For a store
    that this process has alone.
    """
    state = directory.read_state()
    new = directory.recover(state)
    directory.write_state(new)
    if new.index != state.index:  # else it was lost, and the new one has its number
        directory.disk.remove(directory.index_path(state.index))
    with contextlib.closing(LmdbTables(directory.index_path(new.index))) as tables:
        return position_of(tables)


def checkpoint_position(directory: Directory, log: int) -> Position:
    """Where the newest checkpoint stands; the log's start if there is none."""
    checkpoint = newest_checkpoint(directory.disk, directory.log_path(log))
    if checkpoint is None:
        return START
    with contextlib.closing(checkpoint):
        return checkpoint.position


class LogReader:
    """The records of a log, one by one, up to the end that it had when this was opened.

    Args:
        end: The log's end.
    """

    def __init__(self, files: LogFiles, end: Position) -> None:
        self._files = files
        self.end = end
        bases = files.bases()
        self.start = bases[0] if bases else 0
        start = files.start_of(bases[0]) if bases else START
        self._records = files.read(end, start=start)

    def read(self) -> Record | None:
        """The next record; None at the end."""
        found = next(self._records, None)
        return None if found is None else found[0]

    def skip(self, count: int) -> int:
        """Pass over *count* records; returns how many there were."""
        return sum(1 for _ in range(count) if self.read() is not None)

    def seek(self, offset: int) -> None:
        """Go on with the record that starts at *offset*.

        Raises:
            LogTrimmed: The log begins behind it.
            OutOfStep: No record starts there.
        """
        if offset < self.start:
            raise LogTrimmed(
                f"{self._files.path}: offset {offset} is gone: the log begins at {self.start}",
                path=str(self._files.path),
                offset=offset,
                start=self.start,
            )
        bases = [base for base in self._files.bases() if base <= offset]
        start = self._files.start_of(bases[-1]) if bases else START
        records = self._files.read(self.end, start=start)
        for record, position in records:
            if record.offset == offset:
                self._records = chain([(record, position)], records)
                return
            if record.offset > offset:
                break
        if offset == self.end.end:
            self._records = iter(())
            return
        raise OutOfStep(
            f"{self._files.path}: no record starts at {offset}",
            path=str(self._files.path),
            offset=offset,
            end=self.end.end,
        )
