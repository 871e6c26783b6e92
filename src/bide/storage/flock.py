"""A file that processes hold, alone or together, and that the kernel lets go of for the dead."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Self

from bide.storage.disk import FILE_MODE
from bide.storage.fork import watch_forks


class Flock:
    """An open file to lock. It stays with this process: a forked child lets go of its copy."""

    def __init__(self, path: Path) -> None:
        self._fd = -1
        watch_forks(self)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

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

    def before_fork(self) -> None:
        """Nothing moves."""

    def after_fork_in_parent(self) -> None:
        """Nothing has moved."""

    def after_fork_in_child(self) -> None:
        self.close()  # not unlocked: that would be the parent's too

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
