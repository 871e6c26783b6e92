"""`bide.storage.store`: when a call is answered, and when the log is on the disk."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bide.errors import StoreClosed, StoreError, StoreFailed
from bide.storage.log import MemoryLog
from bide.storage.log_files import Position
from bide.storage.store import Store, Sync
from tests.unit.storage.children import GUARD_S
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.histories import disk_store, do, memory_store, put, waiting_args
from tests.unit.storage.test_store import ArrivalLine


class SyncedLog(MemoryLog):
    """A log in memory that knows what would be on the disk."""

    def __init__(self) -> None:
        self.end = self.synced_end = self.sync_count = 0
        self.before_sync: Callable[[], object] = dict
        self.in_sync: Callable[[], object] = dict

    def append(self, body: bytes, at: Position, now_ms: int) -> Position:
        after = super().append(body, at, now_ms)
        self.end = after.end
        return after

    def sync(self, end: int = 0) -> None:
        self.before_sync()
        goal = self.end
        self.in_sync()  # what is appended now may be missed by this sync
        self.sync_count += 1
        self.synced_end = goal


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def store(tmp_path: Path, disk: FaultyDisk) -> Iterator[Store]:
    """A store that has put a job, with nothing left to sync."""
    store = disk_store(tmp_path, disk=disk)
    store.submit([put(b"old")], 0, sync="always")
    disk.calls.clear()
    disk.synced.clear()
    yield store
    disk.heal()
    store.close()


# ---------------------------------------------------------------- always


def test_always_syncs_once_for_each_call_before_it_returns(store: Store, disk: FaultyDisk) -> None:
    for count in range(1, 6):
        store.submit([put(b"1"), put(b"2", b"3")], 0, sync="always")
        assert disk.count("sync") == count
        assert disk.calls[-1] == "sync"


def test_always_without_a_change_syncs_nothing(store: Store, disk: FaultyDisk) -> None:
    store.submit([], 0, sync="always")
    assert disk.count("sync") == 0


def test_always_covers_what_was_put_before_it(store: Store, disk: FaultyDisk) -> None:
    for _ in range(3):
        store.submit([put(b"")], 0, sync="never")
    store.submit([], 0, sync="always")
    assert disk.count("sync") == 1
    store.submit([], 0, sync="always")
    assert disk.count("sync") == 1


def test_callers_that_arrive_together_share_a_sync() -> None:
    log = SyncedLog()
    store = memory_store(log)
    line = store._line = ArrivalLine()
    with ThreadPoolExecutor(max_workers=20) as threads:
        with store._lock:  # until all of them are in the line
            callers = [
                threads.submit(store.submit, [put(b"")], 0, sync="always") for _ in range(20)
            ]
            for _ in callers:
                assert line.arrived.acquire(timeout=GUARD_S)
        for caller in callers:
            assert len(caller.result(GUARD_S)) == 1
    assert log.sync_count == 1
    assert log.synced_end == log.end


def test_who_commits_during_a_sync_waits_for_the_next_one() -> None:
    log = SyncedLog()
    store = memory_store(log)
    started, go = threading.Event(), threading.Event()

    def hold() -> None:
        log.in_sync = dict
        started.set()
        assert go.wait(GUARD_S)

    log.in_sync = hold
    with ThreadPoolExecutor(max_workers=9) as threads:
        first = threads.submit(store.submit, [put(b"")], 0, sync="always")
        assert started.wait(GUARD_S)
        first_end = log.end
        ends = [store.commit([put(b"")], 0)[1] for _ in range(8)]  # the disk holds up no commit
        waiting = [threads.submit(store.persist, end, "always") for end in ends]
        assert not first.done()
        go.set()
        first.result(GUARD_S)
        for one in waiting:
            one.result(GUARD_S)
    assert first_end < log.end == log.synced_end
    assert log.sync_count == 2


def test_many_threads_and_every_answer_is_on_the_disk() -> None:
    log = SyncedLog()
    store = memory_store(log)

    def put_and_look(number: int) -> bool:
        _, end = store.commit([put(b"%d" % number)], 0)
        store.persist(end, "always")
        return log.synced_end >= end

    with ThreadPoolExecutor(max_workers=16) as threads:
        assert all(threads.map(put_and_look, range(400)))
    assert log.sync_count <= 400
    store.close()


# ---------------------------------------------------------------- a sync nobody waits for


class Gate:
    """Holds a log within its next sync, once."""

    def __init__(self, log: SyncedLog) -> None:
        self.entered, self.go = threading.Event(), threading.Event()
        self._log = log
        log.in_sync = self._hold

    def _hold(self) -> None:
        self._log.in_sync = dict
        self.entered.set()
        assert self.go.wait(GUARD_S)


class SyncLine:
    """Tells when a log has synced."""

    def __init__(self, log: SyncedLog) -> None:
        self.done = threading.Semaphore(0)
        self._sync = log.sync
        log.sync = self._do  # type: ignore[method-assign]

    def _do(self, end: int = 0) -> None:
        self._sync(end)
        self.done.release()

    def wait(self) -> None:
        assert self.done.acquire(timeout=GUARD_S)


@pytest.fixture
def no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval that no test sees the end of."""
    monkeypatch.setattr("bide.storage.ticker.SYNC_INTERVAL_S", 8 * GUARD_S)


@pytest.mark.usefixtures("no_interval")
def test_soon_syncs_at_once_and_holds_up_nobody() -> None:
    log = SyncedLog()
    store = memory_store(log)
    synced, gate = SyncLine(log), Gate(log)
    store.commit([put(b"")], 0)
    store.persist_soon("always")
    assert gate.entered.wait(GUARD_S)
    for _ in range(8):
        store.commit([put(b"")], 0)
        store.persist_soon("always")
    assert log.sync_count == 0
    gate.go.set()
    synced.wait()
    synced.wait()
    assert log.sync_count == 2
    assert log.synced_end == log.end
    store.close()


@pytest.mark.usefixtures("no_interval")
def test_soon_cuts_an_interval_short() -> None:
    log = SyncedLog()
    store = memory_store(log)
    synced = SyncLine(log)
    store.submit([put(b"")], 0, sync="interval")
    assert log.sync_count == 0
    store.commit([put(b"")], 0)
    store.persist_soon("always")
    synced.wait()
    assert log.synced_end == log.end
    assert not store._ticker._hurry.is_set()  # the next interval is a whole one
    store.close()


@pytest.mark.usefixtures("no_interval")
def test_a_put_shares_the_sync_of_what_was_settled() -> None:
    log = SyncedLog()
    store = memory_store(log)
    gate = Gate(log)
    store.commit([put(b"")], 0)
    store.persist_soon("always")
    assert gate.entered.wait(GUARD_S)
    ends = [store.commit([put(b"")], 0)[1] for _ in range(8)]
    store.persist_soon("always")
    with ThreadPoolExecutor(max_workers=8) as threads:
        waiting = [threads.submit(store.persist, end, "always") for end in ends]
        gate.go.set()
        for one in waiting:
            one.result(GUARD_S)
    assert log.synced_end == log.end
    assert log.sync_count == 2
    store.close()


@pytest.mark.usefixtures("no_interval")
def test_soon_has_nothing_to_do_where_a_put_has_synced(store: Store, disk: FaultyDisk) -> None:
    store.submit([put(b"")], 0, sync="interval")
    store.submit([put(b"")], 0, sync="always")
    store.persist_soon("always")
    store.close()
    assert store._ticker._thread is not None
    store._ticker._thread.join(GUARD_S)
    assert disk.count("sync") == 1


def test_many_who_need_the_thread_at_once_start_one(store: Store) -> None:
    before = threading.enumerate()
    with ThreadPoolExecutor(max_workers=16) as threads:
        with store._lock:  # until all of them may have found none
            callers = [threads.submit(store.persist_soon, "always") for _ in range(16)]
            assert store._ticker._dirty.wait(GUARD_S)
        for caller in callers:
            caller.result(GUARD_S)
        started = [x for x in threading.enumerate() if x not in before and x.name == "bide-sync"]
    assert started == [store._ticker._thread]


def test_a_thread_that_was_made_and_not_started_is_replaced(store: Store, disk: FaultyDisk) -> None:
    store._ticker._thread = threading.Thread()  # an interrupt came in between
    store.commit([put(b"")], 0)
    store.persist_soon("always")
    assert disk.synced.wait(GUARD_S)


def test_close_waits_for_the_sync_under_way_and_syncs_the_rest() -> None:
    log = SyncedLog()
    store = memory_store(log)
    gate = Gate(log)
    store.commit([put(b"")], 0)
    store.persist_soon("always")
    assert gate.entered.wait(GUARD_S)
    store.commit([put(b"")], 0)
    closing = threading.Thread(target=store.close)
    closing.start()
    gate.go.set()
    closing.join(GUARD_S)
    assert not closing.is_alive()
    assert log.synced_end == log.end
    assert store._ticker._thread is not None
    store._ticker._thread.join(GUARD_S)
    assert not store._ticker._thread.is_alive()


# ---------------------------------------------------------------- interval, never, close


def test_interval_syncs_without_another_call(store: Store, disk: FaultyDisk) -> None:
    for _ in range(3):  # the thread behind it goes on
        store.submit([put(b"")], 0, sync="interval")
        assert disk.synced.wait(GUARD_S)
        with store._sync_lock:
            assert disk.count("sync") == 1
        disk.synced.clear()
        disk.calls.clear()


def test_interval_starts_one_thread_which_ends_with_the_store(store: Store) -> None:
    store.submit([put(b"")], 0, sync="interval")
    ticker = store._ticker._thread
    assert ticker is not None
    assert ticker.daemon
    store.submit([put(b"")], 0, sync="interval")
    assert store._ticker._thread is ticker
    store.close()
    ticker.join(GUARD_S)
    assert not ticker.is_alive()


def test_never_leaves_it_to_the_kernel(store: Store, disk: FaultyDisk) -> None:
    for _ in range(5):
        store.submit([put(b"")], 0, sync="never")
        store.persist_soon("never")
    assert disk.count("sync") == 0
    assert store._ticker._thread is None


def test_close_syncs_what_is_left(store: Store, disk: FaultyDisk) -> None:
    store.submit([put(b"")], 0, sync="never")
    store.close()
    assert disk.count("sync") == 1
    assert not disk.descriptors
    store.close()
    assert disk.count("sync") == 1


@pytest.mark.parametrize("sync", ["always", "interval"])
def test_what_is_committed_while_a_store_closes_is_synced_or_refused(sync: str) -> None:
    log = SyncedLog()
    store = memory_store(log)
    store.submit([put(b"")], 0, sync="never")
    late: list[threading.Thread] = []
    refused: list[StoreClosed] = []

    def submit_late() -> None:
        try:
            store.submit([put(b"late")], 0, sync="always" if sync == "always" else "interval")
        except StoreClosed as error:
            refused.append(error)

    def race() -> None:
        log.before_sync = log.in_sync = dict
        late.append(threading.Thread(target=submit_late))
        late[0].start()

    log.in_sync = race
    store.close()
    late[0].join(GUARD_S)
    assert not late[0].is_alive()
    assert log.synced_end == log.end
    assert refused or log.sync_count > 1


# ---------------------------------------------------------------- a sync that fails


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_closes_the_store_and_is_never_retried(
    store: Store, disk: FaultyDisk, code: int
) -> None:
    disk.fail(code, method="sync")
    with pytest.raises(StoreFailed, match="may be lost"):
        store.submit([put(b"lost?")], 0, sync="always")
    disk.heal()
    with pytest.raises(StoreClosed, match="sync failed"):
        store.submit([put(b"")], 0, sync="always")
    with pytest.raises(StoreClosed), store.view():
        pass
    with pytest.raises(StoreError):
        store.persist(store.end, "always")
    store.close()
    assert disk.count("sync") == 1


def test_every_caller_of_a_failed_sync_hears_of_it() -> None:
    log = SyncedLog()
    store = memory_store(log)

    def fail() -> None:
        raise StoreFailed("sync failed", path="")

    log.before_sync = fail
    ends = [store.commit([put(b"")], 0)[1] for _ in range(8)]
    with ThreadPoolExecutor(max_workers=8) as threads:
        callers = [threads.submit(store.persist, end, "always") for end in ends]
        assert all(isinstance(caller.exception(GUARD_S), StoreFailed) for caller in callers)


@pytest.mark.parametrize("sync", ["always", "interval"])
def test_a_failed_sync_that_nobody_waits_for_is_told_by_the_next_call(
    store: Store, disk: FaultyDisk, sync: Sync
) -> None:
    disk.fail(errno.EIO, method="sync")
    _, end = store.commit([put(b"")], 0)
    store.persist_soon(sync)
    assert disk.synced.wait(GUARD_S)
    with store._sync_lock:  # held until the failure is noted
        disk.heal()
    with pytest.raises(StoreClosed, match="sync failed"):
        store.submit([put(b"")], 0, sync="interval")
    with pytest.raises(StoreFailed):
        store.persist(end, "always")
    assert disk.count("sync") == 1


def test_a_failed_sync_fails_the_close(store: Store, disk: FaultyDisk) -> None:
    store.submit([put(b"")], 0, sync="never")
    disk.fail(errno.EIO, method="sync")
    with pytest.raises(StoreFailed, match="may be lost"):
        store.close()
    assert not disk.descriptors
    store.close()


@pytest.mark.parametrize("is_broken", [True, False], ids=["broken before", "broken by close"])
def test_a_closed_store_never_says_that_it_has_synced(
    store: Store, disk: FaultyDisk, *, is_broken: bool
) -> None:
    _, end = store.commit([put(b"")], 0)
    disk.fail(errno.EIO, method="sync")
    if is_broken:
        with pytest.raises(StoreFailed):
            store.submit([put(b"")], 0, sync="always")
        store.close()
    else:
        with pytest.raises(StoreFailed):
            store.close()
    with pytest.raises(StoreError):
        store.persist(end, "always")  # of a thread that had committed, and was slow


def test_what_was_acknowledged_is_there_after_a_failed_sync(
    tmp_path: Path, store: Store, disk: FaultyDisk
) -> None:
    store.submit([put(b"safe")], 0, sync="always")
    disk.fail(errno.EIO, method="sync")
    with pytest.raises(StoreFailed):
        store.submit([put(b"unsure")], 0, sync="always")
    store.close()
    again = disk_store(tmp_path)
    do(again, put(b"new"))
    assert waiting_args(again)[:2] == [b"old", b"safe"]
    assert waiting_args(again)[-1] == b"new"
    again.close()
