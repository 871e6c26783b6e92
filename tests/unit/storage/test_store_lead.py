"""`bide.storage.store`: one leads the line through commit and sync, the others wait for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from bide.storage import caller as caller_module
from bide.storage.caller import Caller
from tests.unit.storage.children import GUARD_S
from tests.unit.storage.histories import memory_store, put, waiting_args
from tests.unit.storage.test_store import ArrivalLine
from tests.unit.storage.test_store_sync import Gate, SyncedLog


def test_who_comes_during_a_sync_shares_the_next_commit_and_its_sync() -> None:
    log = SyncedLog()
    store = memory_store(log)
    line = store._line = ArrivalLine()
    gate = Gate(log)
    with ThreadPoolExecutor(max_workers=9) as threads:
        first = threads.submit(store.submit, [put(b"")], 0, sync="always")
        assert gate.entered.wait(GUARD_S)
        assert line.arrived.acquire(timeout=GUARD_S)
        others = [threads.submit(store.submit, [put(b"")], 0, sync="always") for _ in range(8)]
        for _ in others:
            assert line.arrived.acquire(timeout=GUARD_S)
        assert len(line) == 8
        gate.go.set()
        for one in (first, *others):
            assert len(one.result(GUARD_S)) == 1
    assert log.sync_count == 2


def test_who_need_not_wait_for_the_disk_does_not_wait_for_who_does() -> None:
    log = SyncedLog()
    store = memory_store(log)
    line = store._line = ArrivalLine()
    gate = Gate(log)
    told: list[str] = []
    with ThreadPoolExecutor(max_workers=2) as threads:
        first = threads.submit(store.submit, [put(b"1")], 0, sync="always")
        assert gate.entered.wait(GUARD_S)
        assert line.arrived.acquire(timeout=GUARD_S)
        second = threads.submit(
            store.submit, [put(b"2")], 0, sync="always", committed=lambda: told.append("2")
        )
        assert line.arrived.acquire(timeout=GUARD_S)
        store.submit([put(b"3")], 0, sync="never")
        assert waiting_args(store) == [b"1", b"2", b"3"]  # it took along who waits
        assert not first.done()
        gate.go.set()
        first.result(GUARD_S)
        second.result(GUARD_S)
    assert told == ["2"]
    assert log.sync_count == 2


def test_who_is_never_woken_looks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SyncedLog()
    store = memory_store(log)
    line = store._line = ArrivalLine()
    gate = Gate(log)
    monkeypatch.setattr(Caller, "wake", lambda _: None)
    monkeypatch.setattr(caller_module, "TURN_S", 0.001)
    with ThreadPoolExecutor(max_workers=2) as threads:
        first = threads.submit(store.submit, [put(b"1")], 0, sync="always")
        assert gate.entered.wait(GUARD_S)
        assert line.arrived.acquire(timeout=GUARD_S)
        second = threads.submit(store.submit, [put(b"2")], 0, sync="always")
        assert line.arrived.acquire(timeout=GUARD_S)
        gate.go.set()
        first.result(GUARD_S)
        second.result(GUARD_S)
    assert log.synced_end == log.end
