"""The embedded engine in this process's memory: for tests, and gone with the process."""

from __future__ import annotations

from bide.backends.embedded import Embedded
from bide.backends.port import Backend
from bide.clock import Clock
from bide.storage.log import MemoryLog
from bide.storage.parts import Parts
from bide.storage.presence import MemoryPresence
from bide.storage.store import Store
from bide.storage.tables import MemoryTables


def open_memory(clock: Clock) -> Backend:
    """A new, empty store."""
    tables, log = MemoryTables(), MemoryLog()
    store = Store(lambda: Parts(tables, log), path="memory:")
    return Embedded(store, MemoryPresence(), clock, sync="never", on_close=store.close)
