"""`bide.storage.store`: parent and child go on after a fork, whatever was under way."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from bide.format.identity import Identity
from bide.storage.directory import open_directory
from bide.storage.recovery import rebuild
from bide.storage.store import Store, Sync
from bide.storage.tables import MemoryTables
from tests.unit.storage.children import GUARD_S, Child, Early, in_child
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.histories import (
    check_tables,
    disk_store,
    do,
    dump,
    dump_store,
    memory_store,
    open_segments,
    put,
    waiting_args,
)

FORKS = 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = disk_store(tmp_path)
    yield store
    with store.view() as view:
        position = view.position()
    expected = dump_store(store)
    check_tables(expected)
    store.close()
    for until in (position, None):
        tables = MemoryTables()
        rebuild(open_segments(tmp_path / "log"), tables, until)
        assert dump(tables) == expected


@pytest.mark.parametrize("sync", ["always", "interval", "never"])
def test_parent_and_child_put_while_a_thread_commits(store: Store, sync: Sync) -> None:
    stop, ready = threading.Event(), threading.Event()
    put_count = 0

    def commit() -> None:
        nonlocal put_count
        while not stop.is_set():
            store.submit([put(b"thread %d" % put_count)], 0, sync=sync)
            put_count += 1
            ready.set()

    def put_three(name: str) -> list[bytes]:
        args = [b"%s %d" % (name.encode(), number) for number in range(3)]
        for one in args:
            store.submit([put(one)], 0, sync=sync)
        return args

    thread = threading.Thread(target=commit)
    thread.start()
    expected: list[bytes] = []
    try:
        assert ready.wait(GUARD_S)
        for number in range(FORKS):
            child = Child(lambda _, number=number: put_three(f"child {number}"))  # type: ignore[misc]
            expected += put_three(f"parent {number}")
            expected += child.result()
    finally:
        stop.set()
        thread.join(GUARD_S)
    expected += [b"thread %d" % number for number in range(put_count)]
    assert sorted(waiting_args(store)) == sorted(expected)


def test_a_fork_waits_for_a_view_to_end(tmp_path: Path) -> None:
    early = Early()
    store = disk_store(tmp_path)
    do(store, put(b"old"))
    inside = threading.Event()
    found: list[int] = []

    def look() -> None:
        with store.view() as view:
            inside.set()
            assert early.forking.wait(GUARD_S)  # the other thread is about to rest in the fork
            found.append(len(view.waiting("q", 0, 1, 10)))

    thread = threading.Thread(target=look)
    thread.start()
    assert inside.wait(GUARD_S)
    ids = in_child(lambda: [result.id for result in do(store, put(b"child"))])
    thread.join(GUARD_S)
    assert (found, ids) == ([1], [2])
    assert waiting_args(store) == [b"old", b"child"]
    store.close()


def test_a_child_of_a_child_puts_too(store: Store) -> None:
    do(store, put(b"parent"))

    def child() -> None:
        do(store, put(b"child"))
        in_child(lambda: do(store, put(b"grandchild")))
        do(store, put(b"child again"))

    in_child(child)
    do(store, put(b"parent again"))
    assert waiting_args(store) == [
        b"parent",
        b"child",
        b"grandchild",
        b"child again",
        b"parent again",
    ]


def test_a_child_that_never_uses_the_store_disturbs_nothing(store: Store) -> None:
    do(store, put(b"1"))
    children = [Child(lambda pipe: pipe.recv()) for _ in range(3)]
    do(store, put(b"2"))
    children.pop().kill()
    for child in children:
        child.pipe.send("go")
        child.result()
    do(store, put(b"3"))
    assert waiting_args(store) == [b"1", b"2", b"3"]


def test_a_child_that_closes_the_store_leaves_it_open_for_the_parent(store: Store) -> None:
    do(store, put(b"1"))
    in_child(store.close)
    do(store, put(b"2"))
    assert waiting_args(store) == [b"1", b"2"]


def test_many_children_at_once(store: Store) -> None:
    do(store, put(b"parent"))

    def put_many(number: int) -> None:
        for turn in range(20):
            store.submit([put(b"%d %d" % (number, turn))], 0, sync="never")

    children = [Child(lambda _, n=n: put_many(n)) for n in range(8)]  # type: ignore[misc]
    put_many(8)
    for child in children:
        child.result()
    expected = [b"%d %d" % (number, turn) for number in range(9) for turn in range(20)]
    assert sorted(waiting_args(store)) == sorted([b"parent", *expected])


def test_a_child_killed_while_it_commits_costs_nothing_acknowledged(store: Store) -> None:
    def put_for_ever(pipe: Connection, name: bytes) -> None:
        for number in itertools.count():
            args = b"%s %d" % (name, number)
            store.submit([put(args)], 0, sync="never")
            pipe.send(args)

    acknowledged: list[bytes] = []
    for name in (b"a", b"b", b"c", b"d", b"e"):
        child = Child(lambda pipe, name=name: put_for_ever(pipe, name))  # type: ignore[misc]
        acknowledged += [child.receive() for _ in range(10)]
        child.kill()
        do(store, put(b"parent " + name))
        acknowledged.append(b"parent " + name)
    found = waiting_args(store)
    assert len(set(found)) == len(found)
    assert set(acknowledged) <= set(found)


def test_a_fork_before_the_first_use(tmp_path: Path) -> None:
    store = disk_store(tmp_path)
    in_child(lambda: do(store, put(b"child")))
    do(store, put(b"parent"))
    assert waiting_args(store) == [b"child", b"parent"]
    store.close()


def test_a_fork_of_a_closed_store(tmp_path: Path) -> None:
    store = disk_store(tmp_path)
    do(store, put(b""))
    store.close()
    assert in_child(lambda: store._closed)


def test_a_child_syncs_what_it_wrote_itself(tmp_path: Path) -> None:
    disk = FaultyDisk()
    store = disk_store(tmp_path, disk=disk)
    store.submit([put(b"")], 0, sync="never")

    def child() -> tuple[int, int]:
        disk.calls.clear()
        store.submit([put(b"")], 0, sync="always")
        always = disk.count("sync")
        store.submit([put(b"")], 0, sync="never")
        store.close()
        return always, disk.count("sync")

    assert in_child(child) == (1, 2)
    store.close()


@pytest.mark.parametrize("sync", ["always", "interval"])
def test_a_sync_nobody_waits_for_comes_in_parent_and_child(tmp_path: Path, sync: Sync) -> None:
    disk = FaultyDisk()
    store = disk_store(tmp_path, disk=disk)

    def put_and_wait() -> bool:
        disk.synced = threading.Event()
        store.submit([put(b"")], 0, sync="never")
        store.persist_soon(sync)
        return disk.synced.wait(GUARD_S)

    do(store, put(b""))
    assert put_and_wait()

    assert in_child(put_and_wait)
    assert put_and_wait()
    store.close()


def test_a_fork_waits_for_the_sync_that_nobody_waits_for(tmp_path: Path) -> None:
    early = Early()
    disk = FaultyDisk()
    store = disk_store(tmp_path, disk=disk)
    do(store, put(b"old"))
    sync, disk.synced = disk.sync, threading.Event()
    is_over: list[bool] = []

    def held(fd: int) -> None:
        disk.sync = sync  # type: ignore[method-assign]
        disk.synced.set()
        assert early.forking.wait(GUARD_S)
        sync(fd)
        is_over.append(True)

    disk.sync = held  # type: ignore[method-assign]
    store.submit([put(b"")], 0, sync="never")
    store.persist_soon("always")
    assert disk.synced.wait(GUARD_S)

    def child() -> list[bool]:
        store.submit([put(b"")], 0, sync="always")
        return is_over

    assert in_child(child) == [True]
    store.submit([put(b"")], 0, sync="always")
    store.close()


def test_a_store_in_memory_is_copied_by_a_fork() -> None:
    store = memory_store()
    do(store, put(b"both"))

    def child() -> list[bytes]:
        do(store, put(b"child"))
        return waiting_args(store)

    assert in_child(child) == [b"both", b"child"]
    do(store, put(b"parent"))
    assert waiting_args(store) == [b"both", b"parent"]


def test_a_directory_opened_before_the_fork_serves_both(tmp_path: Path) -> None:
    identity = Identity(store_id="ab" * 16)
    directory = open_directory(tmp_path / "store", create=True, new_identity=identity)
    store = Store(directory.open_parts, path="")
    do(store, put(b"parent"))
    in_child(lambda: do(store, put(b"child")))
    assert waiting_args(store) == [b"parent", b"child"]
    store.close()
