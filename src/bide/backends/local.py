"""The embedded engine on a directory, shared by any number of processes of one machine."""

from __future__ import annotations

import threading
from pathlib import Path

from bide.backends.embedded import Embedded
from bide.backends.port import Backend, Sync
from bide.clock import Clock, random_token
from bide.format.identity import SEGMENT_SIZE, Identity
from bide.storage.directory import open_directory
from bide.storage.fork import ForkOrder, watch_forks
from bide.storage.presence import DiskPresence
from bide.storage.store import Store


class _Shared:
    """The stores that this process has open, by directory: LMDB allows each once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[int, int, str], tuple[Store, int]] = {}
        watch_forks(self, ForkOrder.STORES)

    def take(self, path: Path, *, create: bool, segment_size: int) -> tuple[Store, Path]:
        identity = Identity(store_id=random_token(), segment_size=segment_size)
        directory = open_directory(path, create=create, new_identity=identity)
        with self._lock:
            name = (*_identify(directory.path), directory.identity.store_id)
            store, users = self._open.get(name, (None, 0))
            if store is None:
                store = Store(directory.open_parts, path=str(directory.path))
            self._open[name] = (store, users + 1)
            return store, directory.path

    def give_back(self, store: Store) -> None:
        with self._lock:
            for name, (candidate, users) in self._open.items():
                if candidate is store:
                    if users > 1:
                        self._open[name] = (store, users - 1)
                        return
                    del self._open[name]
                    break
            store.close()

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock.release()


_shared = _Shared()


def open_local(
    path: Path,
    clock: Clock,
    *,
    sync: Sync = "always",
    create: bool = True,
    segment_size: int = SEGMENT_SIZE,
) -> Backend:
    """The store in directory *path*.

    Args:
        create: Make it if nothing is there; False: `NotAStore` then.
        segment_size: Bytes after which the log goes on in a new file, for a store that is made.
    """
    path = path.absolute()
    store, directory = _shared.take(path, create=create, segment_size=segment_size)
    closed = False

    def close() -> None:
        nonlocal closed
        if not closed:
            closed = True
            _shared.give_back(store)

    presence = DiskPresence(directory / "owners", clock.monotonic)
    return Embedded(store, presence, clock, sync=sync, on_close=close)


def _identify(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
