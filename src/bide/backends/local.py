"""The embedded engine on a directory, shared by any number of processes of one machine."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from bide.backends.embedded import Embedded
from bide.backends.port import Backend, Sync
from bide.clock import Clock, random_token
from bide.errors import StoreLocked
from bide.format.identity import SEGMENT_SIZE, Identity
from bide.storage.directory import Directory, open_directory
from bide.storage.fork import ForkOrder, watch_forks
from bide.storage.presence import DiskPresence
from bide.storage.store import Store
from bide.storage.upkeep import Upkeep


class _Use:
    """A store that is open, and by how many backends."""

    def __init__(self, store: Store, read_only: bool) -> None:
        self.store = store
        self.read_only = read_only
        self.count = 0


class _Shared:
    """The stores that this process has open, by directory: LMDB allows each once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[int, int, str], _Use] = {}
        watch_forks(self, ForkOrder.STORES)

    def take(
        self, path: Path, *, create: bool, segment_size: int, read_only: bool
    ) -> tuple[Store, Directory]:
        identity = Identity(store_id=random_token(), segment_size=segment_size)
        directory = open_directory(path, create=create, new_identity=identity, read_only=read_only)
        with self._lock:
            name = (*_identify(directory.path), directory.identity.store_id)
            use = self._open.get(name)
            if use is None:
                opener = directory.open_to_read if read_only else directory.open_parts
                store = Store(opener, path=str(directory.path))
                use = self._open[name] = _Use(store, read_only)
            elif use.read_only and not read_only:
                raise StoreLocked(
                    f"{path}: this process has it open to read alone: close that first",
                    path=str(path),
                )
            use.count += 1
            return use.store, directory

    def give_back(self, store: Store) -> None:
        with self._lock:
            for name, use in self._open.items():
                if use.store is store:
                    use.count -= 1
                    if use.count:
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
    read_only: bool = False,
    segment_size: int = SEGMENT_SIZE,
) -> Backend:
    """The store in directory *path*.

    Args:
        create: Make it if nothing is there; False: `NotAStore` then.
        read_only: Change nothing; a call that would raises `StoreReadOnly`.
        segment_size: Bytes after which the log goes on in a new file, for a store that is made.
    """
    path = path.absolute()
    store, directory = _shared.take(
        path, create=create, segment_size=segment_size, read_only=read_only
    )
    closed = False

    def close() -> None:
        nonlocal closed
        if not closed:
            closed = True
            _shared.give_back(store)

    presence = DiskPresence(directory.owners, clock.monotonic)
    upkeep = None if read_only else Upkeep(directory, store, clock.now_ms, clock.monotonic)
    return Embedded(store, presence, clock, sync=sync, on_close=close, upkeep=upkeep)


@contextlib.contextmanager
def open_upkeep(path: Path, clock: Clock) -> Iterator[Upkeep]:
    """The upkeep of the store in directory *path*, which must be there."""
    store, directory = _shared.take(
        path.absolute(), create=False, segment_size=SEGMENT_SIZE, read_only=False
    )
    try:
        yield Upkeep(directory, store, clock.now_ms, clock.monotonic)
    finally:
        _shared.give_back(store)


def existing_directory(path: Path) -> Directory:
    """The directory of the store at *path*, which must be there."""
    identity = Identity(store_id=random_token())
    return open_directory(path.absolute(), create=False, new_identity=identity, read_only=True)


def _identify(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino
