"""An index is compacted while others use it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bide.format.state import State
from bide.storage.checkpoint import list_checkpoints, new_checkpoint_path
from bide.storage.directory import Directory
from bide.storage.disk import OsDisk
from bide.storage.environment import LmdbTables
from bide.storage.log_files import START
from bide.storage.store import Store
from bide.storage.upkeep import Upkeep
from tests.unit.storage.children import GUARD_S, Child
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.histories import do, dump_store, put, run_history, waiting_args
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


def at_the_move(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Do *action* once the new index is built, but for what is put meanwhile."""
    move = Upkeep._move

    def act_and_move(self: Upkeep, *args: Any) -> Any:
        action()
        return move(self, *args)

    monkeypatch.setattr(Upkeep, "_move", act_and_move)


def test_what_is_put_meanwhile_is_in_the_new_index(
    directory: Directory, store: Store, upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store)
    at_the_move(monkeypatch, lambda: run_history(store, 5))
    upkeep.run(compact=True)
    assert environment_of(store).path == directory.index_path(2)
    run_history(store, 6)


def test_those_who_wait_for_the_move_go_on_in_the_new_index(
    directory: Directory, store: Store, upkeep: Upkeep
) -> None:
    fill(store)
    stop = threading.Event()
    errors: list[BaseException] = []
    counts = [0, 0, 0]

    def put_on(number: int) -> None:
        try:
            while not stop.is_set():
                do(store, put(b"thread", queue=f"q{number}"))
                counts[number] += 1
        except BaseException as error:  # noqa: BLE001  the test looks at it
            errors.append(error)

    threads = [threading.Thread(target=put_on, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            upkeep.run(compact=True)
    finally:
        stop.set()
        for thread in threads:
            thread.join(GUARD_S)
    assert not errors
    assert directory.read_state().index == 11
    for number, count in enumerate(counts):
        assert len(waiting_args(store, f"q{number}")) == count


def test_a_fork_while_an_index_is_built_leaves_the_child_able_to_use_it(
    directory: Directory, store: Store, upkeep: Upkeep, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 3)
    built, forking = threading.Event(), threading.Event()

    def wait_for_the_fork() -> None:
        built.set()
        forking.wait(0.5)  # that it does not come is what is right

    at_the_move(monkeypatch, wait_for_the_fork)
    thread = threading.Thread(target=upkeep.run, kwargs={"compact": True})
    thread.start()
    assert built.wait(GUARD_S)

    child = Child(lambda _: [result.id for result in do(store, put(b"child"))])
    forking.set()
    thread.join(GUARD_S)
    assert child.result() == [4]
    do(store, put(b"parent"))
    assert waiting_args(store)[-2:] == [b"child", b"parent"]
    assert indexes(directory.path) == ["index-2"]


def test_what_a_compaction_that_died_has_left_goes_with_the_next(
    directory: Directory, store: Store, upkeep: Upkeep
) -> None:
    fill(store)
    for number in (2, 5):
        directory.index_path(number).mkdir()
        LmdbTables(directory.index_path(number)).close()
    new_checkpoint_path(log_of(directory)).write_bytes(b"x" * 100_000)
    upkeep.run(compact=True)
    assert indexes(directory.path) == ["index-2"]
    assert not unfinished(directory.path)


def test_who_died_between_the_move_and_the_state_is_followed(
    directory: Directory, store: Store, upkeep: Upkeep
) -> None:
    fill(store)
    state = directory.read_state()

    def end(state: State) -> None:
        os._exit(7)

    def die() -> None:
        theirs = opened(directory)
        dying = upkeep_of(directory, theirs)
        directory.write_state = end  # type: ignore[method-assign]
        dying.run(compact=True)

    child = Child(lambda _: die())
    assert child.wait() == 7
    assert directory.read_state() == state
    assert indexes(directory.path) == ["index-1", "index-2"]
    do(store, put(b"followed"))
    assert environment_of(store).path == directory.index_path(2)
    upkeep.run(compact=True)
    assert indexes(directory.path) == ["index-3"]
    assert dump_store(store)["jobs"]
    with store.view() as view:
        assert view.position() != START
