"""Making the index anew from the log, which is the truth.

A killed *process* needs nothing of this: the page cache has every write,
and the next transaction cuts what was not committed. After a crash of the
*machine* the index is what its unsynced pages happen to be, so it is thrown
away and made from the newest checkpoint and the log behind it, which ends
at its last whole record.
"""

from __future__ import annotations

from bide.errors import CorruptIndex, CorruptRecord
from bide.format.commit import decode_commit
from bide.format.record import Record
from bide.format.segment import HEAD_SIZE
from bide.storage.apply import Applier
from bide.storage.environment import LmdbTables
from bide.storage.index import META_LOG, IndexView, encode_position
from bide.storage.log import Log
from bide.storage.log_files import START, LogFiles, Position
from bide.storage.tables import Environment

RECORDS_PER_TRANSACTION = 1_000


def rebuild(
    log: Log,
    environment: Environment,
    until: Position | None = None,
    *,
    start: Position = START,
) -> Position:
    """Apply the log to tables.

    Args:
        environment: The tables as they were at *start*: empty, for the log's own start.
        until: Where to stop; None: at the last whole record.

    Returns:
        The end of what was applied.

    Raises:
        CorruptRecord: The log is damaged, at *path* and *offset*.
    """
    records = log.read(until, start=start)
    last = start
    while True:
        with environment.begin(write=True) as txn:
            applier = Applier(txn, environment.tables)
            end: Position | None = None
            for _, (record, position) in zip(range(RECORDS_PER_TRANSACTION), records, strict=False):
                apply_record(record, log.file(position.base), applier)
                end = position
            if end is None:
                return last
            applier.finish(end)
            last = end


def apply_record(record: Record, path: str, applier: Applier) -> None:
    """Apply the facts of one record; *path* names its segment in errors."""
    try:
        entries = decode_commit(record.body)
    except (CorruptRecord, CorruptIndex) as error:
        raise CorruptRecord(
            f"{path}: record at {record.offset}: {error}", path=path, offset=record.offset
        ) from error
    for fact, rows in entries:
        applier.apply(fact, rows)


def resume(tables: LmdbTables, files: LogFiles, position: Position) -> Position:
    """Where the log goes on behind a checkpoint at *position*, noted in its tables.

    In another segment, if the log was begun anew there, as by a restore.
    """
    bases = files.bases()
    if position.base in bases or position.end not in bases:
        return position
    position = Position(position.end, position.end + HEAD_SIZE, position.chain)
    with tables.begin(write=True) as txn:
        txn.put(META_LOG, encode_position(position), db=tables.tables["meta"])
    return position


def position_of(environment: Environment) -> Position:
    """The end of the log that an index reflects."""
    with environment.begin(write=False) as txn:
        return IndexView(txn, environment.tables).position()
