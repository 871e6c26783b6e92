"""A file that processes hold, alone or together, and that the kernel lets go of for the dead."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import Self
from weakref import WeakSet

from bide.storage.disk import FILE_MODE
from bide.storage.fork import watch_forks


class Flock:
    """An open file to lock. It stays with this process: a forked child lets go of its copy."""

    def __init__(self, path: Path) -> None:
        self._fd = -1
        with _flocks.opening:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            _flocks.all.add(self)

    def take(self, *, shared: bool = False) -> None:
        """Hold it, alone or with others that share it; waits until that can be."""
        fcntl.flock(self._fd, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)

    def try_take(self) -> bool:
        """Hold it alone, if nobody else holds it now; else let go of what was held."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Let go; twice is harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Flocks:
    """The locks that this process has open, for a fork to find them all.

    They are opened under a store's lock, which a fork takes. So they can't be
    opened in a block that is `unforked`: that comes before all other locks.
    This one comes after them.
    """

    def __init__(self) -> None:
        self.opening = threading.Lock()
        self.all: WeakSet[Flock] = WeakSet()
        watch_forks(self)

    def before_fork(self) -> None:
        self.opening.acquire()

    def after_fork_in_parent(self) -> None:
        self.opening.release()

    def after_fork_in_child(self) -> None:
        self.opening.release()
        for flock in self.all:
            flock.close()  # not unlocked: that would be the parent's too


_flocks = _Flocks()
