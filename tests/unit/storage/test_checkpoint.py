"""`bide.storage.checkpoint`: what was copied is there again, or the damage is named."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from bide.errors import CorruptCheckpoint, NotAStore, StoreError
from bide.format.checkpoint import HEAD_SIZE, checkpoint_name
from bide.storage import checkpoint as checkpoint_module
from bide.storage.checkpoint import (
    Checkpoint,
    copy_image,
    list_checkpoints,
    new_checkpoint_path,
    newest_checkpoint,
    put_in_force,
    seal,
)
from bide.storage.disk import Disk, OsDisk
from bide.storage.environment import LmdbTables
from bide.storage.log_files import START, Position
from bide.storage.store import Store
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.histories import (
    STORE_ID,
    disk_store,
    do,
    dump,
    dump_store,
    put,
    run_history,
)

DISK = OsDisk()


def make(store: Store, path: Path, *, disk: Disk = DISK) -> Path:
    """A checkpoint of *store* in directory *path*, in force."""
    new = new_checkpoint_path(path)
    fd = disk.open(new, create=True)
    with store.snapshot() as snapshot:
        position = snapshot.view.position()
        copy_image(disk, fd, snapshot.environment, snapshot.txn)
    head = seal(disk, fd, position=position, store_id=STORE_ID, segment_size=4096, now_ms=9)
    disk.close(fd)
    return put_in_force(disk, new, head)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = disk_store(tmp_path)
    run_history(store, 3)
    return store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoints"
    path.mkdir()
    return path


def load(file: Path, path: Path) -> LmdbTables:
    path.mkdir()
    checkpoint = Checkpoint(DISK, file)
    try:
        return LmdbTables.load(DISK, path, checkpoint.image())
    finally:
        checkpoint.close()


def test_the_tables_are_there_again(store: Store, path: Path, tmp_path: Path) -> None:
    expected = dump_store(store)
    with store.view() as view:
        position = view.position()
    file = make(store, path)
    do(store, put(b"later"))
    tables = load(file, tmp_path / "loaded")
    assert dump(tables) == expected
    tables.close()
    checkpoint = Checkpoint(DISK, file)
    assert checkpoint.position == position
    assert checkpoint.head.made_ms == 9
    checkpoint.close()


def test_all_of_the_file_is_given_out(store: Store, path: Path) -> None:
    file = make(store, path)
    checkpoint = Checkpoint(DISK, file)
    assert b"".join(checkpoint.data()) == file.read_bytes()
    assert len(file.read_bytes()) == checkpoint.head.file_size
    checkpoint.close()


def test_a_file_that_was_there_before_leaves_nothing(store: Store, path: Path) -> None:
    expected = make(store, path).read_bytes()
    new_checkpoint_path(path).write_bytes(b"left by one that died" * 100_000)
    assert make(store, path).read_bytes() == expected


def read_all(file: Path) -> None:
    checkpoint = Checkpoint(DISK, file)
    try:
        for _ in checkpoint.image():
            pass
    finally:
        checkpoint.close()


def test_damage_anywhere_is_found_and_named(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_module, "CHUNK_SIZE", 1 << 20)
    file = make(store, path)
    data = bytearray(file.read_bytes())
    for place in [*range(0, HEAD_SIZE, 97), *range(HEAD_SIZE, len(data) - 8, 997)]:
        data[place] ^= 1 << place % 8
        file.write_bytes(data)
        with pytest.raises(CorruptCheckpoint, match=str(file)) as caught:
            read_all(file)
        assert caught.value.path == str(file)
        data[place] ^= 1 << place % 8
    for place in range(len(data) - 4, len(data)):
        data[place] ^= 1
        file.write_bytes(data)
        with pytest.raises(CorruptCheckpoint, match="table of checks"):
            read_all(file)
        data[place] ^= 1
    file.write_bytes(data)
    read_all(file)


def test_every_kind_of_cut_is_found(store: Store, path: Path) -> None:
    file = make(store, path)
    data = file.read_bytes()
    for size in [0, 7, 8, HEAD_SIZE - 1, HEAD_SIZE, len(data) // 2, len(data) - 4, len(data) - 1]:
        file.write_bytes(data[:size])
        with pytest.raises(CorruptCheckpoint, match=str(file)):
            Checkpoint(DISK, file)


def test_a_cut_after_it_was_opened_is_found(store: Store, path: Path) -> None:
    file = make(store, path)
    data = file.read_bytes()
    for size in (HEAD_SIZE, len(data) - 4):
        file.write_bytes(data)
        checkpoint = Checkpoint(DISK, file)
        with file.open("r+b") as other:
            other.truncate(size)
        with pytest.raises(CorruptCheckpoint, match=str(file)):
            list(checkpoint.image())
        checkpoint.close()


def test_one_that_is_missing_is_a_typed_error(path: Path) -> None:
    with pytest.raises(NotAStore):
        Checkpoint(DISK, path / "none")


def test_the_newest_is_found(store: Store, path: Path) -> None:
    assert newest_checkpoint(DISK, path) is None
    first = make(store, path)
    do(store, put(b"more"))
    data = first.read_bytes()
    second = make(store, path)
    assert not first.exists()
    first.write_bytes(data)  # who made the second may have died before it could remove this
    (path / "00000000000000000000.log").write_bytes(b"")
    checkpoint = newest_checkpoint(DISK, path)
    assert checkpoint is not None
    assert checkpoint.path == second
    checkpoint.close()
    do(store, put(b"and more"))
    make(store, path)
    assert list_checkpoints(DISK, path) == [store.end]


def test_the_head_is_on_the_disk_after_all_else(store: Store, path: Path) -> None:
    disk = FaultyDisk()
    make(store, path, disk=disk)
    changes = [call for call in disk.calls if call in {"write", "sync", "rename", "sync_directory"}]
    assert changes == ["write", "sync", "write", "sync", "rename", "sync_directory"]


def test_one_that_can_not_be_read_leaks_nothing(store: Store, path: Path) -> None:
    file = make(store, path)
    for call in range(4):
        disk = FaultyDisk()
        disk.fail(errno.EIO, at=call)
        with contextlib.suppress(OSError, StoreError):
            Checkpoint(disk, file).close()
        assert not disk.descriptors, call


def test_an_empty_index_has_a_checkpoint_too(path: Path, tmp_path: Path) -> None:
    store = disk_store(tmp_path)
    file = make(store, path)
    assert file.name == checkpoint_name(0)
    tables = load(file, tmp_path / "loaded")
    assert not any(dump(tables).values())
    tables.close()
    checkpoint = Checkpoint(DISK, file)
    assert checkpoint.position == START == Position()
    checkpoint.close()
    store.close()
