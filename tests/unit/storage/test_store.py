"""`bide.storage.store`: callers share commits, and each gets its own answers."""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bide.errors import (
    BideError,
    CorruptIndex,
    JobError,
    KeyTaken,
    LeaseLost,
    StoreClosed,
    StoreError,
    StoreFailed,
    StoreFull,
)
from bide.model import commands as c
from bide.model.job import JobRef, OwnerId
from bide.storage import store as store_module
from bide.storage.log import MemoryLog
from bide.storage.log_files import Position
from bide.storage.store import Store
from tests.unit.storage.children import GUARD_S
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.histories import (
    check_tables,
    disk_store,
    do,
    dump_store,
    memory_store,
    put,
    waiting_args,
)


class ScriptedLog(MemoryLog):
    """A log in memory that notes its commits, and does what it is told before each."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.before_append: Callable[[bytes], object] = len

    def append(self, body: bytes, at: Position, now_ms: int) -> Position:
        self.before_append(body)
        self.bodies.append(body)
        return super().append(body, at, now_ms)


class ArrivalLine(deque[Any]):
    """The line of a store, which lets a test wait for arrivals."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = threading.Semaphore(0)

    def append(self, caller: object, /) -> None:
        super().append(caller)
        self.arrived.release()


class Crowd:
    """Callers that arrive, in a known order, while a first one commits."""

    def __init__(self, store: Store, log: ScriptedLog) -> None:
        self.store = store
        self.line = ArrivalLine()
        store._line = self.line
        self._log = log
        self._committing, self._go = threading.Event(), threading.Event()
        self._threads = ThreadPoolExecutor(max_workers=40)
        log.before_append = self._stop_once

    def _stop_once(self, body: bytes) -> None:
        self._log.before_append = len
        self._committing.set()
        assert self._go.wait(GUARD_S)

    def first(self, *commands: c.Command) -> Future[Any]:
        """A caller that is now in the middle of its commit."""
        caller = self.join(*commands)
        assert self._committing.wait(GUARD_S)
        return caller

    def join(self, *commands: c.Command) -> Future[Any]:
        """A caller that is now in the line."""
        caller = self._threads.submit(self.store.submit, commands, 1_000, sync="never")
        assert self.line.arrived.acquire(timeout=GUARD_S)
        return caller

    def go(self) -> None:
        self._go.set()
        self._threads.shutdown()


@pytest.fixture
def log() -> ScriptedLog:
    return ScriptedLog()


@pytest.fixture
def store(log: ScriptedLog) -> Iterator[Store]:
    store = memory_store(log)
    yield store
    if store._broken is None and not store._closed:
        check_tables(dump_store(store))
    store.close()


# ---------------------------------------------------------------- sharing a commit


def test_callers_that_arrive_together_share_a_commit(store: Store, log: ScriptedLog) -> None:
    crowd = Crowd(store, log)
    first = crowd.first(put(b"first"))
    others = [crowd.join(put(b"%d" % number, b"%d too" % number)) for number in range(30)]
    crowd.go()
    assert [[one.id for one in first.result()[0]]] == [[1]]
    ids = [[result.id for result in caller.result()[0]] for caller in others]
    assert ids == [[2 * number + 2, 2 * number + 3] for number in range(30)]  # as they arrived
    assert len(log.bodies) == 2
    assert waiting_args(store)[:3] == [b"first", b"0", b"0 too"]


def test_each_caller_keeps_its_own_time(store: Store) -> None:
    for now_ms in (5_000, 4_000):
        store.submit([put(b"")], now_ms, sync="never")
    with store.view() as view:
        jobs = [view.job(job_id) for _, _, job_id in view.waiting("q", 0, 10, 10)]
    assert [job.put_ms for job in jobs if job] == [5_000, 4_000]


def test_a_group_is_bounded(
    store: Store, log: ScriptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "GROUP_JOBS_MAX", 5)
    crowd = Crowd(store, log)
    crowd.first(put(b"first"))
    callers = [crowd.join(put(*[b""] * count)) for count in (2, 3, 1, 4, 9, 1)]
    crowd.go()
    assert [len(caller.result()[0]) for caller in callers] == [2, 3, 1, 4, 9, 1]
    assert len(log.bodies) == 1 + 4  # 2 + 3, 1 + 4, 9 alone though too many, 1


def test_a_group_is_bounded_in_bytes(
    store: Store, log: ScriptedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "GROUP_SIZE_MAX", 100)
    crowd = Crowd(store, log)
    crowd.first(put(b"first"))
    for size in (60, 40, 1, 500, 10, 80):
        crowd.join(put(bytes(size)))
    crowd.go()
    assert len(log.bodies) == 1 + 4  # 60 + 40, 1, 500, 10 + 80


def test_reading_callers_leave_no_record(store: Store, log: ScriptedLog) -> None:
    assert do(store, c.Expire(OwnerId(7), frozenset(), "", 1)) == 0
    assert do(store, c.Cancel(())) == ()
    assert log.bodies == []


# ---------------------------------------------------------------- refusals and failures


def test_a_refused_command_is_an_answer_and_undoes_nothing(store: Store) -> None:
    put_it, refused, put_more, lost = store.submit(
        [put(b"1", key="k"), put(b"2", b"3", key="k"), put(b"4"), c.Reserve(OwnerId(9), ("q",), 1)],
        1_000,
        sync="never",
    )
    assert isinstance(refused, KeyTaken)
    assert isinstance(lost, LeaseLost)
    assert not isinstance(put_it, BideError)
    assert not isinstance(put_more, BideError)
    assert waiting_args(store) == [b"1", b"4"]


def test_a_refusal_reaches_only_its_caller(store: Store, log: ScriptedLog) -> None:
    crowd = Crowd(store, log)
    crowd.first(put(b"first", key="k"))
    callers = [crowd.join(put(b"%d" % n, key="k" if n % 2 else None)) for n in range(10)]
    crowd.go()
    for number, caller in enumerate(callers):
        assert isinstance(caller.result()[0], JobError) == bool(number % 2)
    assert waiting_args(store) == [b"first", b"0", b"2", b"4", b"6", b"8"]
    assert len(log.bodies) == 2


def test_one_callers_failure_does_not_undo_the_others(store: Store, log: ScriptedLog) -> None:
    def refuse_large(body: bytes) -> None:
        if b"LARGE" in body:
            raise StoreFull("no space", path="a store")

    crowd = Crowd(store, log)
    crowd.first(put(b"first"))
    callers = [crowd.join(put(b"LARGE" if number == 2 else b"%d" % number)) for number in range(5)]
    log.before_append = refuse_large
    crowd.go()
    for number, caller in enumerate(callers):
        if number == 2:
            with pytest.raises(StoreFull):
                caller.result()
        else:
            assert len(caller.result()[0]) == 1
    assert waiting_args(store) == [b"first", b"0", b"1", b"3", b"4"]
    log.before_append = len
    assert do(store, put(b"after"))


def test_a_failure_undoes_the_whole_call(store: Store, log: ScriptedLog) -> None:
    do(store, put(b"old", key="k"))
    before = dump_store(store)

    def fail(body: bytes) -> None:
        raise StoreFull("no space", path="a store")

    log.before_append = fail
    with pytest.raises(StoreFull):
        store.submit([put(b"new"), c.Cancel((JobRef(queue="q", key="k"),))], 0, sync="never")
    assert dump_store(store) == before


def test_our_own_bug_undoes_its_caller_and_no_other(store: Store, log: ScriptedLog) -> None:
    def trip(body: bytes) -> None:
        assert b"BUG" not in body

    crowd = Crowd(store, log)
    crowd.first(put(b"first"))
    bug, fine = crowd.join(put(b"BUG")), crowd.join(put(b"fine"))
    log.before_append = trip
    crowd.go()
    with pytest.raises(AssertionError):
        bug.result()
    fine.result()
    assert waiting_args(store) == [b"first", b"fine"]


@pytest.mark.parametrize("method", ["write", "end", "truncate"])
def test_a_full_disk_fails_the_put_and_not_the_store(tmp_path: Path, method: str) -> None:
    disk = FaultyDisk()
    store = disk_store(tmp_path, disk=disk, segment_size=64)
    do(store, put(b"before"))
    disk.fail(errno.ENOSPC, method=method)
    with pytest.raises(StoreFull, match="free space"):
        do(store, put(b"refused"))
    disk.heal()
    do(store, put(b"after"))
    assert waiting_args(store) == [b"before", b"after"]
    store.close()


# ---------------------------------------------------------------- the end of a store


def test_a_closed_store_refuses_everything(store: Store) -> None:
    do(store, put(b""))
    store.close()
    store.close()
    with pytest.raises(StoreClosed, match="a store"):
        do(store, put(b""))
    with pytest.raises(StoreClosed), store.view():
        pass


def test_a_store_that_was_never_used_opens_nothing() -> None:
    def fail() -> Any:
        raise AssertionError("opened")

    Store(fail, path="").close()


def test_a_store_that_cannot_be_opened_says_so_each_time(tmp_path: Path) -> None:
    tries = 0

    def open_parts() -> Any:
        nonlocal tries
        tries += 1
        raise CorruptIndex("damaged", path="here")

    store = Store(open_parts, path="here")
    for _ in range(2):
        with pytest.raises(CorruptIndex):
            do(store, put(b""))
        with pytest.raises(CorruptIndex), store.view():
            pass
    assert tries == 4
    store.close()


@pytest.mark.parametrize("method", ["write", "read"])
def test_a_broken_store_stays_broken_and_says_why(tmp_path: Path, method: str) -> None:
    disk = FaultyDisk()
    store = disk_store(tmp_path, disk=disk)
    do(store, put(b"safe"))
    disk.fail(errno.EIO, method=method)
    with pytest.raises(StoreFailed, match="Input/output"):
        do(store, put(b"lost"))
    disk.heal()
    for _ in range(2):
        with pytest.raises(StoreClosed, match=r"closed itself.*Input/output") as caught:
            do(store, put(b"refused"))
        assert isinstance(caught.value.__cause__, StoreFailed)
        with pytest.raises(StoreClosed, match="closed itself"), store.view():
            pass
    store.close()
    reopened = disk_store(tmp_path)
    do(reopened, put(b"and on"))
    assert waiting_args(reopened) == [b"safe", b"and on"]
    reopened.close()


def test_all_who_wait_hear_of_a_break(store: Store, log: ScriptedLog) -> None:
    def fail(body: bytes) -> None:
        raise StoreFailed("the disk is gone", path="a store")

    crowd = Crowd(store, log)
    first = crowd.first(put(b"first"))
    callers = [crowd.join(put(b"")) for _ in range(5)]
    log.before_append = fail
    crowd.go()
    first.result()
    for caller in callers:
        with pytest.raises(StoreError, match="the disk is gone"):
            caller.result()
