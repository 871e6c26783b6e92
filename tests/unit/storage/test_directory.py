"""`bide.storage.directory`: opened as it was left, by a clean close, a crash or a failed sync."""

from __future__ import annotations

import contextlib
import errno
import itertools
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from msgspec.structs import replace

from bide.errors import (
    CorruptCheckpoint,
    CorruptRecord,
    NotAStore,
    RecoveryNeeded,
    StoreClosed,
    StoreError,
    StoreFailed,
    StoreReadOnly,
)
from bide.storage.checkpoint import list_checkpoints
from bide.storage.directory import Directory, open_directory
from bide.storage.disk import OsDisk
from bide.storage.environment import LmdbTables
from bide.storage.store import Store
from tests.power import forget_boot
from tests.unit.storage.children import Child
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.histories import do, dump_store, put, run_history, waiting_args
from tests.unit.storage.opened import (
    IDENTITY,
    assert_whole,
    environment_of,
    indexes,
    made,
    opened,
    unfinished,
    upkeep_of,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def directory(path: Path, disk: FaultyDisk) -> Directory:
    return made(path, disk=disk)


@pytest.fixture
def store(directory: Directory) -> Iterator[Store]:
    store = opened(directory)
    run_history(store, 1, 100)
    yield store
    store.close()


def reboot(directory: Directory) -> None:
    """Have the machine started again, whether or not the store was closed before."""
    directory.write_state(replace(directory.read_state(), boot="another boot"))


def user(directory: Directory) -> Child:
    """A process that has the store open, until it is told to go, and puts one job first."""

    def use(pipe: Connection) -> None:
        store = opened(directory)
        do(store, put(b"user"))
        pipe.send("open")
        pipe.recv()
        store.close()

    child = Child(use)
    assert child.receive() == "open"
    return child


def is_suspect(directory: Directory) -> bool:
    return directory.is_suspect


def descriptor_count() -> int:
    return len(list(Path("/dev/fd").iterdir()))


# ---------------------------------------------------------------- a clean close


def test_after_a_clean_close_the_index_is_good_for_the_next_boot(
    directory: Directory, store: Store
) -> None:
    expected, end = dump_store(store), store.end
    store.close()
    assert directory.read_state().closed_at == end
    reboot(directory)
    again = opened(directory)
    assert dump_store(again) == expected
    assert indexes(directory.path) == ["index-1"]  # no other was made
    state = directory.read_state()
    assert state.closed_at is None
    assert state.boot not in {"", "another boot"}
    again.close()


def test_only_the_last_who_closes_makes_it_good(directory: Directory, store: Store) -> None:
    child = user(directory)
    store.close()
    assert directory.read_state().closed_at is None
    child.pipe.send("go")
    child.result()
    assert directory.read_state().closed_at is not None


def test_a_process_that_was_killed_has_not_closed(directory: Directory, store: Store) -> None:
    child = user(directory)
    store.close()
    child.kill()
    assert directory.read_state().closed_at is None
    again = opened(directory)
    assert b"user" in waiting_args(again)
    again.close()
    assert directory.read_state().closed_at is not None


class NotingDisk(OsDisk):
    """Notes which files were synced."""

    def __init__(self) -> None:
        self.synced: list[str] = []

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self.synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs to name a descriptor")
def test_the_last_who_closes_puts_the_log_of_the_dead_on_the_disk(
    directory: Directory, store: Store
) -> None:
    store.close()
    user(directory).kill()  # it had synced nothing
    noting = NotingDisk()
    last = opened(made(directory.path, disk=noting))
    with last.view() as view:
        name = Path(directory.log(1).file(view.position().base)).name
    noting.synced.clear()
    last.close()
    assert noting.synced.index(name) < noting.synced.index("state.json.new")


def test_a_close_that_can_not_sync_the_log_leaves_a_note(
    directory: Directory, store: Store, disk: FaultyDisk
) -> None:
    store.submit([], 0, sync="always")
    disk.fail(errno.EIO, method="sync")
    store.close()  # its own jobs are on the disk
    disk.heal()
    assert directory.is_suspect
    assert directory.read_state().closed_at is None


def test_an_index_that_went_on_after_the_close_is_made_anew(
    directory: Directory, store: Store, path: Path
) -> None:
    expected = dump_store(store)
    store.close()
    state = directory.read_state()
    assert state.closed_at is not None
    directory.write_state(replace(state, closed_at=state.closed_at - 1))
    again = opened(directory)
    assert dump_store(again) == expected
    assert indexes(path) == ["index-2"]
    again.close()


# ---------------------------------------------------------------- recovery


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test_what_was_left_open_by_another_boot_is_recovered(
    directory: Directory, store: Store, path: Path, tmp_path: Path, *, with_checkpoint: bool
) -> None:
    if with_checkpoint:
        upkeep_of(directory, store).run()
        assert directory.log(1).files.bases()[0] > 0  # the log alone would not do
        run_history(store, 2, 30)
    expected = dump_store(store)
    store.close()
    forget_boot(path)
    again = opened(directory)
    assert dump_store(again) == expected
    assert indexes(path) == ["index-2"]
    do(again, put(b"on"))
    assert_whole(directory, again, tmp_path / "scratch")
    again.close()


def test_an_index_that_is_gone_is_made_anew(directory: Directory, store: Store, path: Path) -> None:
    expected = dump_store(store)
    store.close()
    OsDisk().remove(directory.index_path(1))
    again = opened(directory)
    assert dump_store(again) == expected
    again.close()


def test_a_recovery_that_fails_leaves_the_store_as_it_was(
    directory: Directory, store: Store, path: Path
) -> None:
    store.close()
    first = min((path / "log-1").glob("*.log"))
    whole = first.read_bytes()
    first.write_bytes(whole[:100] + b"\xff" + whole[101:])
    forget_boot(path)
    state = directory.read_state()
    for _ in range(3):
        with pytest.raises(CorruptRecord, match=str(first)):
            do(opened(directory), put(b""))
    assert directory.read_state() == state
    assert indexes(path) == ["index-1"]  # each try would leave one more
    first.write_bytes(whole)
    again = opened(directory)
    do(again, put(b""))
    again.close()


def test_a_damaged_checkpoint_is_named(directory: Directory, store: Store, path: Path) -> None:
    upkeep_of(directory, store).run()
    store.close()
    (checkpoint,) = (path / "log-1").glob("*.checkpoint")
    data = bytearray(checkpoint.read_bytes())
    data[5000] ^= 1
    checkpoint.write_bytes(data)
    forget_boot(path)
    with pytest.raises(CorruptCheckpoint, match=str(checkpoint)):
        do(opened(directory), put(b""))
    assert indexes(path) == ["index-1"]


def test_a_failure_of_any_call_of_a_recovery_can_be_tried_again(
    directory: Directory, store: Store, path: Path, disk: FaultyDisk
) -> None:
    upkeep_of(directory, store).run()
    run_history(store, 2, 20)
    expected = dump_store(store)
    store.close()
    for number in itertools.count():
        forget_boot(path)
        disk.fail(errno.ENOSPC, at=number)
        again = opened(directory)
        with contextlib.suppress(StoreError), again.view():
            pass
        call_count = len(disk.calls)
        disk.heal()
        assert dump_store(again) == expected, number
        again.close()
        assert not disk.descriptors, number
        assert len(indexes(path)) == 1
        if number >= call_count:
            break
    assert number > 20


# ---------------------------------------------------------------- a failed sync


def test_a_failed_sync_is_mended_by_the_next_who_opens_alone(
    directory: Directory, store: Store, disk: FaultyDisk, path: Path, tmp_path: Path
) -> None:
    disk.fail(errno.EIO, method="sync")
    with pytest.raises(StoreFailed, match="sync failed"):
        store.submit([put(b"maybe")], 0, sync="always")
    with pytest.raises(StoreClosed):
        do(store, put(b""))
    disk.heal()
    assert directory.is_suspect
    store.close()
    assert directory.read_state().closed_at is None
    again = opened(directory)
    do(again, put(b"on"))
    assert not is_suspect(directory)
    assert indexes(path) == ["index-2"]
    assert_whole(directory, again, tmp_path / "scratch")
    again.close()


def test_a_suspect_store_is_not_opened_beside_others(
    directory: Directory, store: Store, path: Path
) -> None:
    child = user(directory)
    store.close()
    directory.mark_suspect()
    refused = opened(directory)
    with pytest.raises(StoreFailed, match="stop them"):
        do(refused, put(b""))
    assert directory.is_suspect
    child.kill()
    do(refused, put(b""))
    assert not is_suspect(directory)
    refused.close()


def test_a_refused_open_leaks_nothing(directory: Directory, store: Store, disk: FaultyDisk) -> None:
    store.close()
    child = user(directory)
    directory.mark_suspect()
    refused = opened(directory)
    count = descriptor_count()
    for _ in range(5):
        with pytest.raises(StoreFailed):
            do(refused, put(b""))
    assert descriptor_count() == count
    child.kill()
    do(refused, put(b""))
    refused.close()


# ---------------------------------------------------------------- what others left


def test_who_opens_alone_removes_what_others_left(
    directory: Directory, store: Store, path: Path
) -> None:
    expected = dump_store(store)
    store.close()
    for name in ("index-7", "log-3", "index-4.new"):
        (path / name).mkdir()
        (path / name / "data.mdb").write_bytes(b"x")
    (path / "state.json.new").write_bytes(b"half")
    again = opened(directory)
    assert dump_store(again) == expected
    assert sorted(one.name for one in path.iterdir() if one.is_dir()) == [
        "index-1",
        "log-1",
        "owners",
    ]
    assert not unfinished(path)
    again.close()


def test_who_is_not_alone_removes_nothing(directory: Directory, store: Store, path: Path) -> None:
    child = user(directory)
    (path / "index-7").mkdir()
    store.close()
    again = opened(directory)
    do(again, put(b""))
    assert (path / "index-7").exists()
    child.pipe.send("go")
    child.result()
    again.close()


def test_a_segment_that_an_aborted_roll_left_is_removed(
    directory: Directory, store: Store, path: Path
) -> None:
    with store.view() as view:
        position = view.position()
    store.close()
    directory.log(1)._start_segment(position, position.end)
    again = opened(directory)
    with again.view():
        pass
    assert directory.log(1).files.bases()[-1] == position.base
    do(again, put(b"on"))
    again.close()


def test_a_chain_of_moves_is_followed(directory: Directory, store: Store, path: Path) -> None:
    upkeep = upkeep_of(directory, store)
    upkeep.run(compact=True)
    upkeep.run(compact=True)
    assert environment_of(store).path == directory.index_path(3)
    assert list_checkpoints(OsDisk(), path / "log-1") == [store.end]


# ---------------------------------------------------------------- to read only


def reader(directory: Directory) -> Store:
    return Store(directory.open_to_read, path=str(directory.path))


def test_a_busy_store_can_be_read(directory: Directory, store: Store) -> None:
    store.close()  # LMDB is open once in a process, so another one is busy here
    child = user(directory)
    reading = reader(open_directory(directory.path, create=False, new_identity=IDENTITY))
    before = sorted(one.name for one in directory.path.iterdir())
    assert b"user" in waiting_args(reading)
    reading.close()
    assert sorted(one.name for one in directory.path.iterdir()) == before
    child.pipe.send("go")
    child.result()
    assert directory.read_state().closed_at is not None


@pytest.mark.parametrize("cause", ["boot", "suspect", "index"])
def test_one_that_needs_recovery_is_not_read(
    directory: Directory, store: Store, path: Path, cause: str
) -> None:
    store.close()
    match cause:
        case "boot":
            forget_boot(path)
        case "suspect":
            directory.mark_suspect()
        case _:
            OsDisk().remove(directory.index_path(1))
    before = sorted(str(one) for one in path.rglob("*"))
    with pytest.raises(RecoveryNeeded, match=str(path)), reader(directory).view():
        pass
    assert sorted(str(one) for one in path.rglob("*")) == before
    writing = opened(directory)
    do(writing, put(b""))
    writing.close()
    reading = reader(directory)
    with reading.view():
        pass
    reading.close()


def test_nothing_is_read_from_nothing(tmp_path: Path) -> None:
    for create in (True, False):
        with pytest.raises(NotAStore, match="no store there"):
            open_directory(tmp_path / "none", create=create, new_identity=IDENTITY, read_only=True)
    assert not list(tmp_path.iterdir())


def test_a_reader_follows_a_compaction(directory: Directory, store: Store) -> None:
    store.close()

    def compact(pipe: Connection) -> None:
        theirs = opened(directory)
        upkeep = upkeep_of(directory, theirs)
        for _ in range(3):
            pipe.recv()
            upkeep.run(compact=True)
            pipe.send(do(theirs, put(b"new"))[0].id)
        theirs.close()

    child = Child(compact)
    reading = reader(directory)
    for _ in range(3):
        with reading.view():
            pass
        child.pipe.send("go")
        job_id = child.receive()
        with reading.view() as view:
            assert view.job(job_id) is not None
    child.result()
    reading.close()


def test_a_reader_that_opens_as_the_index_moves_finds_the_new_one(
    directory: Directory, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = directory.read_state()
    upkeep_of(directory, store).run(compact=True)
    do(store, put(b"new"))
    store.close()
    states = [old]  # what it read just before the state changed
    read_state = Directory.read_state
    monkeypatch.setattr(
        Directory, "read_state", lambda self: states.pop() if states else read_state(self)
    )
    reading = reader(directory)
    assert b"new" in waiting_args(reading)
    reading.close()


def test_a_follower_is_not_opened_to_write(directory: Directory, store: Store) -> None:
    store.close()
    directory.write_state(replace(directory.read_state(), leader="ssh://there"))
    with pytest.raises(StoreReadOnly, match="ssh://there"):
        do(opened(directory), put(b""))


def test_an_index_that_was_moved_to_nowhere_is_not_taken_for_an_empty_store(
    directory: Directory, store: Store
) -> None:
    expected = dump_store(store)
    upkeep_of(directory, store).run(compact=True)
    store.close()
    directory.index_path(2).rename(directory.path / "kept")
    with pytest.raises(RecoveryNeeded), reader(directory).view():
        pass
    again = opened(directory)
    assert dump_store(again) == expected
    assert isinstance(environment_of(again), LmdbTables)
    again.close()
