"""`bide.storage.store`: an interrupt hits the thread that commits for others.

Their commands are done exactly once all the same; and those of the thread
that was interrupted at most once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

import bide
from bide.errors import StoreFull
from bide.storage.caller import Caller
from bide.storage.log import SegmentLog
from bide.storage.parts import Parts
from bide.storage.store import Store, Sync
from tests.unit.storage.histories import check_tables, disk_store, dump_store, put, waiting_args

SOURCE = str(Path(bide.__file__).parent)
STEPS_MAX = 2_000


class Interrupt:
    """Raises KeyboardInterrupt at the *n*-th entry or return of bide's functions.

    There, in CPython, a signal's handler runs and an exception sent from
    another thread arrives.
    """

    def __init__(self, at: int) -> None:
        self.at = at
        self.step = 0
        self.where = ""

    def __enter__(self) -> Self:
        sys.settrace(self._trace)
        return self

    def __exit__(self, *args: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_lines = False
        if event in {"call", "return"}:
            self.step += 1
            if self.step == self.at:
                sys.settrace(None)
                self.where = f"{event} of {frame.f_code.co_name}"
                raise KeyboardInterrupt
        return self._trace


def finish(store: Store, caller: Caller) -> None:
    """What the thread of *caller* does once it gets the lock."""
    with store._lock:
        for _ in range(9):
            if caller.done:
                return
            store._commit_group()
    raise AssertionError("it would wait for ever")


def leave_alone(store: Store) -> None:
    """Have them committed together."""


def refuse_large(store: Store) -> None:
    """Have every commit fail that holds LARGE, so that each caller is tried alone."""
    log = store._open().log
    append = log.append

    def refuse(body: bytes, *rest: Any) -> Any:
        if b"LARGE" in body:
            raise StoreFull("no space", path="")
        return append(body, *rest)

    vars(log)["append"] = refuse


def run_interrupted(path: Path, at: int, arrange: Callable[[Store], object], sync: Sync) -> bool:
    """Commit for two others, interrupted at step *at*; False if there is no such step."""
    store = disk_store(path)
    store.submit([put(b"old")], 0, sync="never")
    arrange(store)
    calls = [[put(b"a"), put(b"b", b"c")], [put(b"LARGE")], [put(b"d")]]
    others = [Caller(commands, 0) for commands in calls]
    store._line.extend(others)
    interrupt = Interrupt(at)
    is_interrupted = False
    try:
        with interrupt:
            store.submit([put(b"own")], 0, sync=sync)
    except KeyboardInterrupt:
        is_interrupted = True
    assert not store._lead.locked()
    for other in others:
        finish(store, other)
    found = waiting_args(store)
    expected = [b"a", b"b", b"c", b"d", b"old"]
    expected += [] if arrange is refuse_large else [b"LARGE"]
    # One that was interrupted may have put its own job, or not.
    expected += [b"own"] if b"own" in found or not is_interrupted else []
    assert sorted(found) == sorted(expected), interrupt.where
    check_tables(dump_store(store))
    store.close()
    return is_interrupted


@pytest.mark.parametrize("sync", ["never", "always"])
@pytest.mark.parametrize("arrange", [leave_alone, refuse_large], ids=["together", "each alone"])
def test_others_are_done_once_wherever_the_interrupt_comes(
    tmp_path: Path, arrange: Callable[[Store], object], sync: Sync
) -> None:
    count = 0
    while run_interrupted(tmp_path / str(count), count + 1, arrange, sync):
        count += 1
        assert count < STEPS_MAX
    assert count > 50


class _EndingTransaction:
    """A transaction that is interrupted just before, or just behind, its end."""

    def __init__(self, txn: Any, *, before: bool) -> None:
        self._txn = txn
        self._before = before

    def __enter__(self) -> Any:
        self._txn.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        if self._before:
            self._txn.__exit__(KeyboardInterrupt, None, None)
            raise KeyboardInterrupt
        self._txn.__exit__(*args)
        raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._txn, name)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = disk_store(tmp_path)
    store.submit([put(b"old")], 0, sync="never")
    yield store
    store.close()


@pytest.mark.parametrize("before", [True, False], ids=["before the commit", "behind it"])
@pytest.mark.parametrize("others_since", ["none", "one commit", "a roll"])
def test_an_interrupted_commit_is_found_done_or_not(
    tmp_path: Path,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    *,
    before: bool,
    others_since: str,
) -> None:
    # Another process may commit between the interrupt and the look at what came of it.
    parts = store._open()
    environment, log = parts.environment, parts.log
    assert isinstance(log, SegmentLog)
    begin = environment.begin
    stranger = SegmentLog(
        log._disk, tmp_path / "log", store_id=log.files.store_id, segment_size=log._segment_size
    )

    def begin_ending(*, write: bool) -> Any:
        monkeypatch.setattr(environment, "begin", begin_look)
        return _EndingTransaction(begin(write=write), before=before)

    def begin_look(*, write: bool) -> Any:
        monkeypatch.setattr(environment, "begin", begin)
        if others_since != "none":
            stand_in = Store(lambda: Parts(environment, stranger), path="another process")
            size = 20_000 if others_since == "a roll" else 7
            for _ in range(2):
                stand_in.submit([put(b"x" * size)], 0, sync="never")
        return begin(write=write)

    monkeypatch.setattr(environment, "begin", begin_ending)
    other = Caller([put(b"other")], 0)
    store._line.append(other)
    with pytest.raises(KeyboardInterrupt):
        store.submit([put(b"own")], 0, sync="never")
    finish(store, other)
    found = waiting_args(store)
    assert found.count(b"other") == 1
    assert found.count(b"own") <= 1
    stranger.close()


def test_a_put_of_many_is_whole_or_not_there(tmp_path: Path) -> None:
    for at in range(1, STEPS_MAX, 3):
        store = disk_store(tmp_path / str(at))
        store._open()
        try:
            with Interrupt(at):
                store.submit([put(b"1", b"2", b"3"), put(b"4")], 0, sync="never")
        except KeyboardInterrupt:
            while store._line:
                finish(store, store._line[0])
        else:
            store.close()
            break
        assert waiting_args(store) in ([], [b"1", b"2", b"3", b"4"])
        store.close()
    else:
        raise AssertionError("the interrupt never missed")


def test_the_trace_is_where_it_is_thought_to_be() -> None:
    with pytest.raises(KeyboardInterrupt), Interrupt(1):
        Caller([put(b"")], 0)
