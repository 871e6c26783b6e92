"""A backup, and a restore: what comes back, what is refused, what a kill or a full disk leaves."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from bide.errors import (
    CorruptCheckpoint,
    NotAStore,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    UnsupportedFormat,
)
from bide.format.checkpoint import HEAD_SIZE
from bide.storage.backup import backup, restore
from bide.storage.check import check
from bide.storage.directory import Directory
from bide.storage.disk import Disk
from bide.storage.index import META_LOG
from bide.storage.store import Store
from tests.crash.points import PointDisk
from tests.power import forget_boot
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.histories import Dump, do, dump_store, put, run_history, waiting_args
from tests.unit.storage.opened import made, opened, unfinished, upkeep_of


def without_position(tables: Dump) -> Dump:
    """The rows, but where the log goes on: a restored one begins anew."""
    return tables | {"meta": {k: v for k, v in tables["meta"].items() if k != META_LOG}}


def backup_of(directory: Directory, store: Store) -> bytes:
    stream = io.BytesIO()
    steps: list[tuple[int, int]] = []
    head = backup(upkeep_of(directory, store), stream.write, lambda *s: steps.append(s))
    assert steps[-1] == (head.file_size, head.file_size) == (len(stream.getvalue()),) * 2
    return stream.getvalue()


def restored(data: bytes, path: Path, *, disk: Disk | None = None) -> None:
    steps: list[tuple[int, int]] = []
    restore(io.BytesIO(data).read, path, lambda *s: steps.append(s), disk=disk)
    assert steps[-1] == (len(data), len(data))


def goes_on(path: Path) -> None:
    """Use the store at *path* through a put, upkeep, a power cut and a look at all of it."""
    directory = made(path)
    store = opened(directory)
    before = len(waiting_args(store))
    do(store, put(b"after"))
    upkeep_of(directory, store).run(compact=True)
    do(store, put(b"more"))
    store.close()
    forget_boot(path)
    store = opened(directory)
    assert len(waiting_args(store)) == before + 2
    store.close()
    assert check(directory).faults == ()
    assert not unfinished(path)
    names = [one.name for one in path.iterdir()]
    assert sum(name.startswith("log-") for name in names) == 1
    assert sum(name.startswith("index-") for name in names) == 1


def test_what_comes_back_is_what_was_there(tmp_path: Path) -> None:
    directory = made(tmp_path / "one")
    store = opened(directory)
    run_history(store, 3)
    data = backup_of(directory, store)
    expected = dump_store(store)
    do(store, put(b"later"))
    restored(data, tmp_path / "two")
    other = opened(made(tmp_path / "two"))
    assert without_position(dump_store(other)) == without_position(expected)
    other.close()
    store.close()
    assert (tmp_path / "two").stat().st_mode & 0o777 == 0o700
    files = [one for one in (tmp_path / "two").rglob("*") if one.is_file()]
    assert {one.stat().st_mode & 0o777 for one in files} == {0o600}
    goes_on(tmp_path / "two")
    goes_on(tmp_path / "one")


def test_the_same_store_goes_back_to_what_it_was(tmp_path: Path) -> None:
    directory = made(tmp_path / "store")
    store = opened(directory)
    do(store, put(b"one"))
    data = backup_of(directory, store)
    do(store, put(b"two"))
    upkeep_of(directory, store).run()
    store.close()
    restored(data, directory.path)
    store = opened(directory)
    assert waiting_args(store) == [b"one"]
    again = backup_of(directory, store)
    store.close()
    restored(again, tmp_path / "third")
    goes_on(directory.path)
    goes_on(tmp_path / "third")


def test_a_store_that_never_had_a_job_has_no_backup(tmp_path: Path) -> None:
    directory = made(tmp_path / "store")
    store = opened(directory)
    with pytest.raises(NotAStore, match="nothing to back up"):
        backup_of(directory, store)
    store.close()


# ---------------------------------------------------------------- refusals


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    """A backup of the store at *tmp_path* / "store", which has gone on since."""
    directory = made(tmp_path / "store")
    store = opened(directory)
    for number in range(30):
        do(store, put(b"%d" % number * 50))
    made_of = backup_of(directory, store)
    do(store, put(b"since"))
    store.close()
    return made_of


def refused(data: bytes, path: Path, kind: type[StoreError], match: str | None = None) -> None:
    """The restore is refused, and what was at *path* is as it was."""
    is_new = not path.exists()
    with pytest.raises(kind, match=match):
        restored(data, path)
    assert not unfinished(path)
    if is_new:
        return
    store = opened(made(path))
    assert len(waiting_args(store)) == 31
    store.close()


def test_every_byte_that_is_cut_off_is_missed(tmp_path: Path, data: bytes) -> None:
    sizes = {0, 1, 100, HEAD_SIZE - 1, HEAD_SIZE, HEAD_SIZE + 1, len(data) - 5, len(data) - 1}
    for size in sizes:
        refused(data[:size], tmp_path / "store", CorruptCheckpoint)
        refused(data[:size], tmp_path / f"new-{size}", CorruptCheckpoint)
    refused(data + b"x", tmp_path / "store", CorruptCheckpoint, "more follows")


def test_every_part_that_is_damaged_is_found(tmp_path: Path, data: bytes) -> None:
    offsets = [*range(90), 2_000, HEAD_SIZE - 1, *range(HEAD_SIZE, len(data), 997), len(data) - 1]
    for offset in offsets:
        damaged = bytearray(data)
        damaged[offset] ^= 1 << offset % 8
        with pytest.raises((CorruptCheckpoint, UnsupportedFormat)):
            restored(bytes(damaged), tmp_path / "store")
    refused(data[::-1], tmp_path / "store", CorruptCheckpoint, "not a checkpoint")


def test_another_store_s_backup_is_refused(tmp_path: Path, data: bytes) -> None:
    damaged = data.replace(b"\x1f" * 16, b"\x2f" * 16, 1)
    refused(damaged, tmp_path / "store", CorruptCheckpoint)  # the head is under a check
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "file").touch()
    with pytest.raises(NotAStore, match="another program's"):
        restored(data, tmp_path / "foreign")


def test_a_store_in_use_is_refused(tmp_path: Path, data: bytes) -> None:
    store = opened(made(tmp_path / "store"))
    do(store, put(b"in use"))
    with pytest.raises(StoreLocked, match="stop them"):
        restored(data, tmp_path / "store")
    assert len(waiting_args(store)) == 32
    store.close()


# ---------------------------------------------------------------- kills and failing disks


def killed_at(at: int, work: Callable[[Disk], None]) -> bool:
    """Do *work* in a child whose disk kills it at point *at*; whether it got that far."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work(PointDisk(at))
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in {0, -signal.SIGKILL}
    return code != 0


@pytest.mark.parametrize("place", ["store", "new"])
def test_a_restore_killed_at_any_point_leaves_the_old_store_or_the_new(
    tmp_path: Path, data: bytes, place: str
) -> None:
    path, at, seen = tmp_path / place, 0, set()
    while killed_at(at, lambda disk: restored(data, path, disk=disk)):
        at += 1
        if (path / "bide.json").exists():
            store = opened(made(path))
            seen.add(len(waiting_args(store)))
            store.close()
            assert check(made(path)).faults == ()
            assert not unfinished(path)
    assert at > 15
    assert seen <= {30, 31}
    store = opened(made(path))
    assert len(waiting_args(store)) == 30
    store.close()
    goes_on(path)


def test_a_backup_killed_at_any_point_leaves_the_store_whole(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "store"

    def work(disk: Disk) -> None:
        directory = made(path, disk=disk)
        store = opened(directory)
        backup(upkeep_of(directory, store), lambda _part: None, lambda *_: None)
        store.close()

    at = 0
    while killed_at(at, work):
        at += 1
        store = opened(made(path))
        assert len(waiting_args(store)) == 31
        store.close()
    assert at > 5
    goes_on(path)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_at_any_call_of_a_restore(tmp_path: Path, data: bytes, code: int) -> None:
    path, disk = tmp_path / "store", FaultyDisk()
    for at in range(10_000):
        disk.fail(code, at=at)
        try:
            restored(data, path, disk=disk)
        except (StoreFull, StoreFailed):
            disk.heal()
        else:
            if len(disk.calls) <= at:
                break
        with contextlib.closing(opened(made(path))) as store:
            assert len(waiting_args(store)) in {30, 31}
    else:
        pytest.fail("it never came to its end")
    disk.heal()
    assert not disk.descriptors
    goes_on(path)
