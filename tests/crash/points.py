"""A life of a store, and a disk that kills its process at one of the calls that change it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from bide.format.identity import Identity
from bide.model import commands as c
from bide.model.job import JobId, JobRef, Lease, NewJob, OwnerId
from bide.storage.directory import open_directory
from bide.storage.disk import Disk, OsDisk
from bide.storage.store import Store
from bide.storage.upkeep import Upkeep

IDENTITY = Identity(store_id="5e" * 16, segment_size=4096)
Tell = Callable[[str, list[int]], None]


class PointDisk(OsDisk):
    """The real disk. Each call that changes it is a point; it ends the process at one of them.

    Args:
        at: The point, counted from 0; below 0: none.
        how: "before" the call, or "within" it: half of a write is made.
    """

    def __init__(self, at: int = -1, how: str = "before") -> None:
        self.points: list[str] = []
        self._at = at
        self._how = how

    def _reaches(self, name: str) -> bool:
        self.points.append(name)
        is_here = len(self.points) - 1 == self._at
        if is_here and self._how == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        return is_here

    def open(self, path: Path, *, create: bool) -> int:
        if create and not path.exists():
            self._reaches(f"create {path.name}")
        return super().open(path, create=create)

    def write(self, fd: int, data: bytes, offset: int) -> None:
        if self._reaches("write"):
            super().write(fd, data[: len(data) // 2], offset)
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(fd, data, offset)

    def truncate(self, fd: int, size: int) -> None:
        self._reaches("truncate")
        super().truncate(fd, size)

    def reserve(self, fd: int, size: int) -> None:
        self._reaches("reserve")
        super().reserve(fd, size)

    def sync(self, fd: int) -> None:
        self._reaches("sync")
        super().sync(fd)

    def sync_directory(self, path: Path) -> None:
        self._reaches(f"sync directory {path.name}")
        super().sync_directory(path)

    def make_directory(self, path: Path) -> None:
        self._reaches(f"make directory {path.name}")
        super().make_directory(path)

    def rename(self, old: Path, new: Path) -> None:
        self._reaches(f"rename {old.name} to {new.name}")
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._reaches(f"remove {path.name}")
        super().remove(path)


def live(path: Path, disk: Disk, tell: Tell) -> None:
    """Make a store, work in it over several segments, keep it up, close it, open it again.

    *tell* is called with what is about to end, and with what was acknowledged.
    """
    with _opened(path, disk) as (store, upkeep):
        _put(store, 40, tell)
        owner = _submit(store, c.Register("token", "host", 1, ("q",)))
        assert isinstance(owner, int)
        _settle(store, OwnerId(owner), 20, tell)
        upkeep.run()
        _put(store, 40, tell)
        _settle(store, OwnerId(owner), 10, tell)
        upkeep.run(compact=True)
        _cancel(store, tell)
    with _opened(path, disk) as (store, upkeep):
        _put(store, 20, tell)
        upkeep.run()


@contextlib.contextmanager
def _opened(path: Path, disk: Disk) -> Iterator[tuple[Store, Upkeep]]:
    directory = open_directory(path, create=True, new_identity=IDENTITY, disk=disk)
    store = Store(directory.open_parts, path=str(path))
    yield store, Upkeep(directory, store, lambda: 0, lambda: 0.0)
    store.close()


def _submit(store: Store, command: c.Command) -> object:
    (answer,) = store.submit((command,), 0, sync="always")
    assert not isinstance(answer, Exception)
    return answer


def _put(store: Store, count: int, tell: Tell) -> None:
    for _ in range(0, count, 10):
        jobs = [NewJob(queue="q", task="t", args=bytes(100), due_ms=0, key=None) for _ in range(10)]
        results = _submit(store, c.Put(tuple(jobs)))
        assert isinstance(results, tuple)
        tell("put", [result.id for result in results if isinstance(result, c.PutResult)])


def _settle(store: Store, owner: OwnerId, count: int, tell: Tell) -> None:
    leases = _submit(store, c.Reserve(owner, ("q",), count))
    assert isinstance(leases, tuple)
    ids = [lease.job.id for lease in leases if isinstance(lease, Lease)]
    done = tuple(c.Settlement(job_id, 1, c.Completed()) for job_id in ids)
    tell("end", [*ids])
    _submit(store, c.Settle(owner, done))
    tell("ended", [*ids])


def _cancel(store: Store, tell: Tell) -> None:
    with store.view() as view:
        ids = [row[2] for row in view.due("q", 0, 5)]
    tell("end", [*ids])
    _submit(store, c.Cancel(tuple(JobRef(id=JobId(job_id)) for job_id in ids)))
    tell("ended", [*ids])
