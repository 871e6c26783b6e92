"""Room kept for a full disk: a file that holds nothing, given up for what makes room.

A put can be refused when the disk is full; a settlement, a cancel or a purge
should not be, since it is what the disk waits for. The file's space is
theirs. While it is given up, nothing is put, so that it is not eaten by
puts; it is taken back as soon as the disk has space again.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from bide.storage.disk import Disk

BALLAST_SIZE = 1 << 20
"""Bytes: some ten thousand settlements."""

NO_ROOM = (
    "{path}: no space left on the device: what little there is, is kept for jobs to end; "
    "nothing of this call was stored: free space and try again"
)


class Ballast:
    """The file at *path*. Where the system can't reserve space it keeps none."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._fd = disk.open(path, create=True)

    def check(self) -> None:
        """Raise `FileNotFoundError` if it was removed, as all else must have been."""
        self._disk.size(self._fd)

    def is_whole(self) -> bool:
        """Whether the room is kept; takes it back if there is space."""
        if self._disk.size(self._fd) >= BALLAST_SIZE:
            return True
        try:
            self._disk.reserve(self._fd, BALLAST_SIZE)
            self._disk.truncate(self._fd, BALLAST_SIZE)
        except OSError:
            with contextlib.suppress(OSError):
                self._disk.truncate(self._fd, 0)  # a part of it was taken
            return False
        return True

    def give_up(self) -> bool:
        """Give the room to others; False if it was given up before."""
        if self._disk.size(self._fd) == 0:
            return False
        self._disk.truncate(self._fd, 0)
        return True

    def close(self) -> None:
        with contextlib.suppress(OSError):  # nothing was written to it
            self._disk.close(self._fd)
