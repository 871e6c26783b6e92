"""A store's parts in use by this process, which its lock on *users* tells the others."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from bide.errors import StoreError, StoreFailed
from bide.format.state import State
from bide.storage.ballast import Ballast
from bide.storage.disk import mapped_errors, store_error
from bide.storage.environment import LmdbTables
from bide.storage.flock import Flock
from bide.storage.log import SegmentLog
from bide.storage.log_files import START
from bide.storage.parts import Parts
from bide.storage.recovery import position_of


class Home(Protocol):
    """What open parts ask of their directory."""

    path: Path

    @property
    def is_suspect(self) -> bool: ...
    def locked(self) -> contextlib.AbstractContextManager[None]: ...
    def read_state(self) -> State: ...
    def write_state(self, state: State) -> None: ...
    def mark_suspect(self) -> None: ...


class OpenParts(Parts):
    """A store's parts in use by this process, which its lock on *users* tells the others."""

    def __init__(
        self,
        directory: Home,
        environment: LmdbTables,
        log: SegmentLog,
        users: Flock,
        ballast: Ballast,
    ) -> None:
        super().__init__(environment, log)
        self._directory = directory
        self._tables = environment
        self._segments = log
        self._users = users
        self._ballast = ballast

    def close(self) -> None:
        """Let go; the last who does leaves the index on the disk, good also for the next boot."""
        try:
            # What fails here costs the next boot a recovery, and no one anything else.
            with contextlib.suppress(OSError, StoreError), self._directory.locked():
                if self._users.try_take() and not self._directory.is_suspect:
                    self._close_whole()
        finally:
            self.release()

    def release(self) -> None:
        try:
            super().release()
        finally:
            self._users.close()
            self._ballast.close()

    def check(self) -> None:
        try:  # not `mapped_errors`, which costs each commit more than this
            self._ballast.check()
        except OSError as error:
            raise store_error(error, self._directory.path) from error

    def has_room(self) -> bool:
        try:
            return self._ballast.is_whole()
        except OSError as error:
            raise store_error(error, self._directory.path) from error

    def make_room(self) -> bool:
        with mapped_errors(self._directory.path):
            return self._ballast.give_up()

    def distrust(self) -> None:
        with contextlib.suppress(OSError):  # a disk that takes no note has failed for good
            self._directory.mark_suspect()

    def _close_whole(self) -> None:
        directory = self._directory
        state = directory.read_state()
        position = position_of(self._tables)
        if position != START:
            try:  # processes that were killed may have left records of theirs unsynced
                self._segments.sync_segment(position.base)
            except StoreFailed:
                self.distrust()
                raise
        self._tables.sync()
        directory.write_state(replace(state, closed_at=position.end))
