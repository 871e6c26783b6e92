"""The tables and the log that make up a store: what `bide.storage.store` is handed."""

from __future__ import annotations

from typing import NamedTuple

from bide.storage.index import IndexView
from bide.storage.log import Log
from bide.storage.tables import Environment, Transaction


class Parts:
    """The tables and the log of a store, in use by this process."""

    def __init__(self, environment: Environment, log: Log) -> None:
        self.environment = environment
        self.log = log

    def close(self) -> None:
        """Let go of them; all that was committed is on the disk, or never will be."""
        self.environment.close()
        self.log.close()

    def release(self) -> None:
        """Let go of them while the store goes on elsewhere: of a forked child's copies, say."""
        self.environment.close()
        self.log.close()

    def check(self) -> None:
        """Refuse, with a `StoreError`, to write to what was removed from under this process."""

    def has_room(self) -> bool:
        """Whether a put may take space: none may that is kept for settlements."""
        return True

    def make_room(self) -> bool:
        """Give up what is kept for settlements; False if there is nothing more."""
        return False

    def distrust(self) -> None:
        """Have whoever opens the store next know that a sync has failed."""


class Snapshot(NamedTuple):
    """The store at one moment, while it goes on."""

    environment: Environment
    txn: Transaction
    log: Log
    view: IndexView
