"""Room kept for what ends jobs, on a disk that is full."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from bide.errors import StoreFull
from bide.format.identity import Identity
from bide.model import commands as c
from bide.model.job import JobId, JobRef
from bide.storage.ballast import BALLAST_SIZE, Ballast
from bide.storage.directory import open_directory
from bide.storage.disk import OsDisk
from bide.storage.store import Store
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.histories import do, put, register, waiting_args


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


def size_on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_it_takes_its_space_and_gives_it_up_once(tmp_path: Path, disk: FaultyDisk) -> None:
    path = tmp_path / "ballast"
    ballast = Ballast(disk, path)
    assert ballast.is_whole()
    assert size_on_disk(path) >= BALLAST_SIZE
    assert ballast.give_up()
    assert size_on_disk(path) == 0
    assert not ballast.give_up()
    assert ballast.is_whole()
    ballast.close()


def test_one_process_sees_what_another_gave_up(tmp_path: Path, disk: FaultyDisk) -> None:
    one, other = (Ballast(disk, tmp_path / "ballast") for _ in range(2))
    assert one.is_whole()
    assert other.is_whole()
    assert one.give_up()
    disk.fail(errno.ENOSPC, method="reserve")
    assert not other.is_whole()
    assert not other.give_up()
    disk.heal()
    assert other.is_whole()
    one.close()
    other.close()


def test_a_part_of_it_is_not_kept(tmp_path: Path, disk: FaultyDisk) -> None:
    ballast = Ballast(disk, tmp_path / "ballast")
    disk.fail(errno.ENOSPC, method="reserve")
    assert not ballast.is_whole()
    assert size_on_disk(tmp_path / "ballast") == 0
    ballast.close()


class FullDisk(OsDisk):
    """A disk without a byte left but for what the ballast holds, if *is_full*."""

    def __init__(self, ballast: Path) -> None:
        self._ballast = ballast
        self.is_full = False

    def write(self, fd: int, data: bytes, offset: int) -> None:
        if self.is_full and self._ballast.stat().st_size:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(fd, data, offset)

    def reserve(self, fd: int, size: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().reserve(fd, size)


def test_a_full_disk_lets_jobs_end_and_takes_no_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "store"
    disk = FullDisk(path / "ballast")
    identity = Identity(store_id="ab" * 16)
    directory = open_directory(path, create=True, new_identity=identity, disk=disk)
    store = Store(directory.open_parts, path=str(path))
    do(store, put(b"one", b"two", b"three"))
    owner = do(store, register())
    leases = do(store, c.Reserve(owner, ("q",), 2))
    disk.is_full = True
    with pytest.raises(StoreFull, match="nothing of this call was stored"):
        do(store, put(b"four"))
    done = tuple(c.Settlement(lease.job.id, 1, c.Completed()) for lease in leases)
    assert do(store, c.Settle(owner, done)) == (None, None)
    assert do(store, c.Cancel((JobRef(id=JobId(3)),))) == (None,)
    with pytest.raises(StoreFull, match="kept for jobs to end"):  # the room is not for puts
        do(store, put(b"four"))
    disk.is_full = False
    do(store, put(b"four"))
    assert (path / "ballast").stat().st_size == BALLAST_SIZE
    assert waiting_args(store) == [b"four"]
    store.close()
