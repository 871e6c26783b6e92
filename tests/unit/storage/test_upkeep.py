"""`bide.storage.upkeep`: checkpoints are made when due, segments go, the index becomes small."""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import lmdb
import pytest
from msgspec.structs import replace

from bide.errors import StoreClosed, StoreError, StoreFailed, StoreFull
from bide.format.checkpoint import checkpoint_end
from bide.format.state import Retention
from bide.model import commands as c
from bide.model.job import JobRef
from bide.storage import upkeep as upkeep_module
from bide.storage.checkpoint import list_checkpoints
from bide.storage.directory import Directory
from bide.storage.disk import OsDisk
from bide.storage.store import Store
from bide.storage.upkeep import RETRY_S, Upkeep
from tests.unit.storage.children import GUARD_S, Child, in_child
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.histories import do, put, run_history, waiting_args
from tests.unit.storage.opened import (
    assert_whole,
    environment_of,
    indexes,
    made,
    opened,
    unfinished,
    upkeep_of,
)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def directory(tmp_path: Path, disk: FaultyDisk) -> Directory:
    return made(tmp_path / "store", disk=disk)


@pytest.fixture
def store(directory: Directory, disk: FaultyDisk, tmp_path: Path) -> Iterator[Store]:
    store = opened(directory)
    yield store
    disk.heal()
    if not store.is_closed and store._broken is None:
        assert_whole(directory, store, tmp_path / "scratch")
    store.close()


@pytest.fixture
def upkeep(directory: Directory, store: Store) -> Upkeep:
    return upkeep_of(directory, store)


def fill(store: Store, count: int = 40) -> None:
    for number in range(count):
        do(store, put(b"%d" % number * 100))


def log_of(directory: Directory) -> Path:
    return directory.log_path(directory.read_state().log)


def checkpoints(directory: Directory) -> list[int]:
    return list_checkpoints(OsDisk(), log_of(directory))


# ---------------------------------------------------------------- a round


def test_a_store_without_a_job_needs_no_checkpoint(directory: Directory, upkeep: Upkeep) -> None:
    assert upkeep.run(compact=True).checkpoint is None
    assert not list(log_of(directory).iterdir())


def test_a_round_makes_a_checkpoint_of_what_is_now(
    directory: Directory, store: Store, upkeep: Upkeep
) -> None:
    run_history(store, 1)
    head = upkeep.run().checkpoint
    assert head is not None
    assert (head.end, head.made_ms) == (store.end, 77)
    assert checkpoints(directory) == [store.end]
    assert not unfinished(directory.path)


def test_the_next_checkpoint_takes_the_place_of_the_last(
    directory: Directory, store: Store, upkeep: Upkeep
) -> None:
    for _ in range(3):
        fill(store)
        upkeep.run()
        assert checkpoints(directory) == [store.end]


def test_segments_before_the_checkpoint_go(
    directory: Directory, store: Store, upkeep: Upkeep
) -> None:
    fill(store)
    log = directory.log(1)
    before = log.files.bases()
    kept = upkeep.run()
    (last,) = log.files.bases()
    assert last == before[-1]
    assert kept.trimmed_size == last - before[0] > 0
    fill(store)  # and it goes on


def test_retention_keeps_segments(directory: Directory, store: Store, upkeep: Upkeep) -> None:
    state = replace(directory.read_state(), retention=Retention(size=10_000))
    directory.write_state(state)
    fill(store)
    upkeep.run()
    first, second = directory.log(1).files.bases()[:2]
    assert store.end - first >= 10_000 > store.end - second


def test_followers_keep_segments(directory: Directory, store: Store, upkeep: Upkeep) -> None:
    fill(store)
    bases = directory.log(1).files.bases()
    directory.followers.mkdir()
    (directory.followers / "slow").write_text(f"{bases[2]}\n")
    (directory.followers / "fast").write_text(f"{store.end}\n")
    (directory.followers / "new").write_text("")
    upkeep.run()
    assert directory.log(1).files.bases()[0] == bases[2]


def test_an_index_of_free_pages_is_compacted(
    directory: Directory, store: Store, upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_module, "COMPACT_SIZE_MIN", 1 << 20)
    do(store, put(*[bytes(2000)] * 2000))
    assert upkeep.run().index_size > 1 << 20  # large, and in use
    assert indexes(directory.path) == ["index-1"]
    cancel_all(store)
    kept = upkeep.run()
    assert kept.index_size < kept.index_size_before / 5
    assert indexes(directory.path) == ["index-2"]
    assert directory.read_state().index == 2
    do(store, put(b"after"))
    assert environment_of(store).path == directory.index_path(2)


def cancel_all(store: Store) -> None:
    with store.view() as view:
        ids = [job_id for _, _, job_id in view.waiting("q", 0, 1 << 53, 1 << 20)]
    do(store, c.Cancel(tuple(JobRef(id=job_id) for job_id in ids)))


# ---------------------------------------------------------------- when it is due


class Watched(Upkeep):
    """An upkeep that counts its rounds."""

    rounds = 0

    def _round(self, *, compact: bool) -> Any:
        self.rounds += 1
        return super()._round(compact=compact)


class Time:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def watched(directory: Directory, store: Store, time: Time) -> Watched:
    return Watched(directory, store, lambda: 77, time)


def try_it(upkeep: Watched) -> int:
    """Start a round if one is due; how many there were."""
    upkeep.start_if_due()
    upkeep.join()
    return upkeep.rounds


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep_module, "CHECKPOINT_LOG_SIZE", 10_000)


@pytest.mark.usefixtures("small")
def test_it_is_due_when_the_log_has_grown_enough(store: Store, watched: Watched) -> None:
    assert try_it(watched) == 0
    while store.end < 10_000:
        assert try_it(watched) == 0
        fill(store, 1)
    assert try_it(watched) == 1
    assert try_it(watched) == 1


@pytest.mark.usefixtures("small")
def test_after_one_the_log_grows_by_its_size(
    directory: Directory, store: Store, watched: Watched
) -> None:
    fill(store)
    assert try_it(watched) == 1
    (path,) = log_of(directory).glob("*.checkpoint")
    end = checkpoint_end(path.name)
    assert end is not None
    due = end + max(10_000, path.stat().st_size)
    while store.end < due:
        assert try_it(watched) == 1
        fill(store, 1)
    assert try_it(watched) == 2


@pytest.mark.usefixtures("small")
def test_what_another_process_made_counts(
    directory: Directory, store: Store, watched: Watched
) -> None:
    fill(store)

    def make() -> None:
        theirs = opened(directory)
        upkeep_of(directory, theirs).run()
        theirs.close()

    in_child(make)
    assert try_it(watched) == 0


@pytest.mark.usefixtures("small")
def test_a_damaged_checkpoint_is_replaced_by_the_next(
    directory: Directory, store: Store, watched: Watched
) -> None:
    fill(store)
    assert try_it(watched) == 1
    (path,) = log_of(directory).glob("*.checkpoint")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    fill(store, 1)
    fresh = Watched(directory, store, lambda: 77, Time())
    assert try_it(fresh) == 1
    assert checkpoints(directory) == [store.end]


@pytest.mark.usefixtures("small")
def test_while_another_process_is_at_it_no_thread_is_started_in_vain(
    directory: Directory, store: Store, watched: Watched, time: Time
) -> None:
    fill(store)
    with directory.upkeep_lock() as lock:
        lock.take()
        assert try_it(watched) == 0
        thread = watched._thread
        assert thread is not None
        for _ in range(5):
            fill(store, 1)
            assert try_it(watched) == 0
        assert watched._thread is thread
    time.now_s += RETRY_S
    assert try_it(watched) == 1


@pytest.mark.usefixtures("small")
def test_a_round_waits_for_another_process(directory: Directory, store: Store) -> None:
    fill(store)

    def hold(pipe: Connection) -> None:
        with directory.upkeep_lock() as lock:
            lock.take()
            pipe.send("held")
            pipe.recv()

    child = Child(hold)
    assert child.receive() == "held"
    upkeep = upkeep_of(directory, store)
    thread = threading.Thread(target=upkeep.run)
    thread.start()
    assert checkpoints(directory) == []
    child.pipe.send("go")
    child.result()
    thread.join(GUARD_S)
    assert checkpoints(directory) == [store.end]


# ---------------------------------------------------------------- failures


@pytest.mark.usefixtures("small")
def test_a_failure_is_told_once_and_tried_again_later(
    store: Store,
    disk: FaultyDisk,
    watched: Watched,
    time: Time,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fill(store)
    disk.fail(errno.ENOSPC, method="rename")
    with caplog.at_level(logging.WARNING, logger="bide.store"):
        for _ in range(3):
            assert try_it(watched) == 1
    (record,) = caplog.records
    assert "no checkpoint of" in record.getMessage()
    assert "No space left" in record.getMessage()
    disk.heal()
    assert try_it(watched) == 1
    time.now_s += RETRY_S
    assert try_it(watched) == 2
    assert len(caplog.records) == 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("method", ["names", "open_to_read"])
def test_a_failed_question_is_no_failure_of_who_asks(
    store: Store, disk: FaultyDisk, watched: Watched, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    fill(store)
    disk.fail(errno.EMFILE, method=method)
    with caplog.at_level(logging.WARNING, logger="bide.store"):
        for _ in range(3):
            assert try_it(watched) == 0
    disk.heal()
    assert len(caplog.records) == 1
    watched._not_before_s = 0
    assert try_it(watched) == 1


def calls_of_a_round(path: Path) -> list[str]:
    disk = FaultyDisk()
    directory = made(path, disk=disk)
    store = opened(directory)
    fill(store)
    disk.calls.clear()
    upkeep_of(directory, store).run(compact=True)
    calls = list(disk.calls)
    store.close()
    return calls


ERRORS: dict[int, type[StoreError]] = {errno.ENOSPC: StoreFull, errno.EIO: StoreFailed}


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.__getitem__)
def test_a_failure_of_any_call_leaves_a_whole_store_and_nothing_else(
    tmp_path: Path, code: int
) -> None:
    calls = calls_of_a_round(tmp_path / "whole")
    assert {"open", "write", "sync", "rename", "remove", "make_directory"} < set(calls)
    for number, call in enumerate(calls):
        disk = FaultyDisk()
        directory = made(tmp_path / f"{number}", disk=disk)
        store = opened(directory)
        fill(store)
        upkeep = upkeep_of(directory, store)
        open_before = len(disk.descriptors)
        disk.fail(code, at=number)
        with contextlib.suppress(ERRORS[code], StoreFailed):
            upkeep.run(compact=True)
        disk.heal()
        where = f"{number}: {call}"
        is_in_checkpoint = number < calls.index("make_directory")
        if is_in_checkpoint and call != "remove":
            left = [one for one in unfinished(directory.path) if one.startswith("checkpoint")]
            assert not left, where
        if store._broken is not None:  # its log could not be synced
            assert call in {"sync", "open_to_read"}, where  # or nobody can say whether it was
            store.close()
            store = opened(directory)
        assert len(disk.descriptors) <= open_before, where
        do(store, put(b"after"))
        assert_whole(directory, store, tmp_path / "scratch")
        if call != "remove":  # one that was not finished would be a later one
            assert indexes(directory.path)[-1] == environment_of(store).path.name, where
        upkeep_of(directory, store).run(compact=True)
        assert len(indexes(directory.path)) == 1, where
        assert not unfinished(directory.path), where
        assert waiting_args(store)[-1] == b"after"
        assert_whole(directory, store, tmp_path / "scratch")
        store.close()
        assert not disk.descriptors, where


def test_an_index_that_can_not_be_built_is_a_typed_error_and_goes(
    directory: Directory, store: Store, upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    monkeypatch.setattr(upkeep_module, "CATCH_UP_SIZE", -1)

    def find_no_room(*_: Any, **__: Any) -> None:
        raise lmdb.MapFullError("mdb_put: MDB_MAP_FULL")

    monkeypatch.setattr(upkeep_module, "rebuild", find_no_room)
    with pytest.raises(StoreFull):
        upkeep.run(compact=True)
    assert indexes(directory.path) == ["index-1"]
    monkeypatch.undo()
    upkeep.run(compact=True)


def test_a_log_that_can_not_be_synced_closes_the_store(
    directory: Directory, store: Store, upkeep: Upkeep, disk: FaultyDisk
) -> None:
    fill(store)
    disk.fail(errno.EIO, method="sync")
    with pytest.raises(StoreFailed, match="may be lost"):
        upkeep.run()
    disk.heal()
    with pytest.raises(StoreClosed, match="closed itself"):
        do(store, put(b""))
    assert directory.is_suspect
    assert checkpoints(directory) == []


def test_a_closed_store_has_no_upkeep(store: Store, upkeep: Upkeep) -> None:
    fill(store)
    store.close()
    with pytest.raises(StoreClosed):
        upkeep.run()


def test_a_reader_that_was_killed_holds_no_pages(directory: Directory, store: Store) -> None:
    do(store, put(b"one"))

    def read(pipe: Connection) -> None:
        parts = directory.open_to_read()
        with parts.environment.begin(write=False):
            pipe.send((True, "reading"))
            pipe.recv()

    child = Child(read)
    assert child.receive() == (True, "reading")
    child.kill()
    readers = environment_of(store)._environment.readers
    assert str(child.pid) in readers()
    upkeep_of(directory, store).run()
    assert str(child.pid) not in readers()
