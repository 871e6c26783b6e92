"""Making the index anew from the log, which is the truth.

A killed *process* needs nothing of this: the page cache has every write,
and the next transaction cuts what was not committed. After a crash of the
*machine* the index is what its unsynced pages happen to be, so it is thrown
away and made from the log, which ends at its last whole record.
"""

from __future__ import annotations

from bide.errors import CorruptIndex, CorruptRecord
from bide.format.commit import decode_commit
from bide.storage.apply import Applier
from bide.storage.log import START, Log, Position
from bide.storage.tables import Environment

RECORDS_PER_TRANSACTION = 1_000


def rebuild(log: Log, environment: Environment, until: Position | None = None) -> Position:
    """Apply the log, from its start, to empty tables.

    Args:
        until: Where to stop; None: at the last whole record.

    Returns:
        The end of what was applied.

    Raises:
        CorruptRecord: The log is damaged, at *path* and *offset*.
    """
    records = log.read(until)
    last = START
    while True:
        with environment.begin(write=True) as txn:
            applier = Applier(txn, environment.tables)
            end: Position | None = None
            for _, (record, position) in zip(range(RECORDS_PER_TRANSACTION), records, strict=False):
                try:
                    entries = decode_commit(record.body)
                except (CorruptRecord, CorruptIndex) as error:
                    path = log.file(position.base)
                    raise CorruptRecord(
                        f"{path}: record at {record.offset}: {error}",
                        path=path,
                        offset=record.offset,
                    ) from error
                for fact, rows in entries:
                    applier.apply(fact, rows)
                end = position
            if end is None:
                return last
            applier.finish(end)
            last = end
