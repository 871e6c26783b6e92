"""The law that the index is what its log makes of empty tables."""

from typing import Any, cast

from bide.backends.port import Backend
from bide.storage.recovery import rebuild
from bide.storage.store import Store
from bide.storage.tables import TABLE_NAMES, Environment, MemoryTables

Rows = dict[str, list[tuple[bytes, bytes]]]


def rows_of(environment: Environment) -> Rows:
    """Every row of every table, in order."""
    tables: Rows = {}
    with environment.begin(write=False) as txn:
        for name in TABLE_NAMES:
            rows = tables[name] = []
            cursor = txn.cursor(db=environment.tables[name])
            found = cursor.set_range(b"\0")
            while found:
                rows.append((bytes(cursor.key()), bytes(cursor.value())))
                found = cursor.next()
    return tables


def assert_log_makes_index(backend: Backend) -> Rows:
    """Compare the index with what the log makes; returns its rows."""
    store: Store = cast("Any", backend)._shared_store
    with store.view() as view:
        position = view.position()
        parts = store._parts
        assert parts is not None
        environment, log = parts.environment, parts.log
        index = rows_of(environment)
        rebuilt = MemoryTables()
        assert rebuild(log, rebuilt, position) == position
        made = rows_of(rebuilt)
    for name in TABLE_NAMES:
        assert made[name] == index[name], f"table {name} differs"
    return index
