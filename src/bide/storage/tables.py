"""Ordered tables under transactions: what the index asks of whatever keeps it.

The protocols are the few calls of py-lmdb's that `bide.storage.index` uses,
so LMDB's own objects fill them with nothing in between. `MemoryTables`
fills them with dicts and sorted lists, for a store that lives in memory.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, Self

import msgspec

from bide.storage.disk import Disk

Table = Any
"""A table's handle, as an `Environment` gives it: opaque."""

TableName = Literal["jobs", "due", "leases", "failed", "keys", "owners", "counts", "meta", "queues"]
TABLE_NAMES: tuple[TableName, ...] = (
    "jobs",
    "due",
    "leases",
    "failed",
    "keys",
    "owners",
    "counts",
    "meta",
    "queues",
)


class Cursor(Protocol):
    """A place in a table."""

    def set_range(self, key: bytes, /) -> bool:
        """Go to the first row at or after *key*; False if there is none."""
        ...

    def next(self) -> bool: ...
    def key(self) -> bytes: ...
    def value(self) -> bytes: ...
    def putmulti(
        self, items: Sequence[tuple[bytes, bytes]], /, *, append: bool = ...
    ) -> tuple[int, int]:
        """Write rows as `Transaction.put` does, many in one call.

        Returns:
            How many were taken, and how many of them were written.
        """
        ...

    def close(self) -> None: ...


class Transaction(Protocol):
    """Reads of one moment; if writing, changes that become true together."""

    def get(self, key: bytes, /, *, db: Table) -> bytes | None: ...
    def put(self, key: bytes, value: bytes, /, *, append: bool = ..., db: Table) -> bool:
        """Write a row. *append* promises that *key* is the table's last, and packs pages full."""
        ...

    def delete(self, key: bytes, /, *, db: Table) -> bool: ...
    def cursor(self, *, db: Table) -> Cursor: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *args: object) -> None:
        """Commit, or abort if an exception is passing."""
        ...


class Environment(Protocol):
    """The tables of one store."""

    @property
    def tables(self) -> Mapping[TableName, Table]: ...
    def begin(self, *, write: bool) -> Transaction: ...
    def copy(self, txn: Transaction, disk: Disk, fd: int, offset: int) -> None:
        """Write an image of the tables, as *txn* sees them, to a file from *offset* on."""
        ...

    def sync(self) -> None:
        """Put everything committed so far on the disk."""
        ...

    def close(self) -> None: ...


class _MemoryTable:
    __slots__ = ("keys", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.keys: list[bytes] = []


class _MemoryCursor:
    __slots__ = ("_index", "_table", "_txn")

    def __init__(self, txn: _MemoryTransaction, table: _MemoryTable) -> None:
        self._txn = txn
        self._table = table
        self._index = 0

    def set_range(self, key: bytes, /) -> bool:
        self._index = bisect_left(self._table.keys, key)
        return self._index < len(self._table.keys)

    def next(self) -> bool:
        self._index += 1
        return self._index < len(self._table.keys)

    def key(self) -> bytes:
        return self._table.keys[self._index]

    def value(self) -> bytes:
        return self._table.rows[self.key()]

    def putmulti(
        self, items: Sequence[tuple[bytes, bytes]], /, *, append: bool = False
    ) -> tuple[int, int]:
        put = self._txn.put
        written = sum(put(key, value, append=append, db=self._table) for key, value in items)
        return len(items), written

    def close(self) -> None:
        """Nothing to give back."""


class _MemoryTransaction:
    """Changes the tables at once, and knows how to take each change back."""

    __slots__ = ("_undo",)

    def __init__(self) -> None:
        self._undo: list[tuple[_MemoryTable, bytes, bytes | None]] = []

    def get(self, key: bytes, /, *, db: _MemoryTable) -> bytes | None:
        return db.rows.get(key)

    def put(self, key: bytes, value: bytes, /, *, append: bool = False, db: _MemoryTable) -> bool:
        if append and db.keys and key <= db.keys[-1]:
            return False
        self._undo.append((db, key, db.rows.get(key)))
        self._set(db, key, value)
        return True

    def delete(self, key: bytes, /, *, db: _MemoryTable) -> bool:
        if key not in db.rows:
            return False
        self._undo.append((db, key, db.rows[key]))
        self._set(db, key, None)
        return True

    def cursor(self, *, db: _MemoryTable) -> Cursor:
        return _MemoryCursor(self, db)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        if args[0] is not None:
            for table, key, value in reversed(self._undo):
                self._set(table, key, value)
        self._undo.clear()

    @staticmethod
    def _set(table: _MemoryTable, key: bytes, value: bytes | None) -> None:
        # Keys and rows are asked each for itself: an interrupt may have come between.
        index = bisect_left(table.keys, key)
        is_listed = index < len(table.keys) and table.keys[index] == key
        if value is None:
            table.rows.pop(key, None)
            if is_listed:
                del table.keys[index]
        else:
            if not is_listed:
                table.keys.insert(index, key)
            table.rows[key] = value


class MemoryTables:
    """An `Environment` in this process's memory. One thread at a time may use it."""

    def __init__(self) -> None:
        self.tables: Mapping[TableName, Table] = {name: _MemoryTable() for name in TABLE_NAMES}

    def begin(self, *, write: bool) -> Transaction:
        del write
        return _MemoryTransaction()

    def copy(self, txn: Transaction, disk: Disk, fd: int, offset: int) -> None:
        del txn  # whoever has it is alone
        rows = {name: table.rows for name, table in self.tables.items()}
        disk.write(fd, msgspec.msgpack.encode(rows), offset)

    @classmethod
    def load(cls, image: Iterable[bytes]) -> MemoryTables:
        """The tables that `copy` wrote."""
        loaded = cls()
        rows = msgspec.msgpack.decode(b"".join(image), type=dict[str, dict[bytes, bytes]])
        for name, table in loaded.tables.items():
            table.rows = rows[name]
            table.keys = sorted(table.rows)
        return loaded

    def sync(self) -> None:
        """Nothing outlives the process."""

    def close(self) -> None:
        """Nothing to give back."""
