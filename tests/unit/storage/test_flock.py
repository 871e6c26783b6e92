"""`bide.storage.flock`: held by one process, or shared; and never by a child for its parent."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from bide.storage.flock import Flock
from bide.storage.parts import Parts
from bide.storage.store import Store
from tests.unit.storage.children import GUARD_S, Child, Early, in_child
from tests.unit.storage.histories import do, put, waiting_args
from tests.unit.storage.opened import made, opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def flock(path: Path) -> Iterator[Flock]:
    with Flock(path) as flock:
        yield flock


def is_free(path: Path) -> bool:
    with Flock(path) as other:
        return other.try_take()


def holding(path: Path, *, shared: bool = False) -> Child:
    """A process that holds it, until it is told to go."""

    def hold(pipe: Connection) -> None:
        with Flock(path) as flock:
            flock.take(shared=shared)
            pipe.send("held")
            pipe.recv()

    child = Child(hold)
    assert child.receive() == "held"
    return child


def test_one_holds_it_alone(path: Path, flock: Flock) -> None:
    assert flock.try_take()
    assert flock.try_take()  # what it holds it may have again
    assert not is_free(path)
    flock.close()
    assert is_free(path)


def test_many_share_it_and_none_of_them_has_it_alone(path: Path, flock: Flock) -> None:
    child = holding(path, shared=True)
    flock.take(shared=True)
    assert not flock.try_take()
    child.pipe.send("go")
    child.result()
    assert flock.try_take()


def test_who_tries_in_vain_holds_it_no_longer(path: Path, flock: Flock) -> None:
    child = holding(path, shared=True)
    flock.take(shared=True)
    assert not flock.try_take()
    child.pipe.send("go")
    child.result()
    assert is_free(path)


def test_it_falls_with_its_holder(path: Path) -> None:
    child = holding(path)
    assert not is_free(path)
    child.kill()
    assert is_free(path)


def test_to_take_it_is_to_wait_for_it(path: Path, flock: Flock) -> None:
    child = holding(path)
    with ThreadPoolExecutor(1) as threads:
        taking = threads.submit(flock.take)
        assert not taking.done()
        child.pipe.send("go")
        taking.result(GUARD_S)
    child.result()
    assert not is_free(path)


def test_closed_twice_is_closed(path: Path) -> None:
    flock = Flock(path)
    flock.close()
    taken = os.open(path, os.O_RDONLY)  # has the number that is free now
    flock.close()
    os.fstat(taken)
    os.close(taken)


def test_only_its_owner_may_read_it(path: Path, flock: Flock) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert fcntl.fcntl(flock._fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_a_child_has_no_copy(path: Path, flock: Flock) -> None:
    flock.take()

    def wait(pipe: Connection) -> int:
        pipe.send("up")
        pipe.recv()
        return flock._fd

    child = Child(wait)
    assert child.receive() == "up"
    flock.close()
    assert is_free(path)  # while the child lives
    child.pipe.send("go")
    assert child.result() == -1


def test_a_child_does_not_take_the_lock_from_its_parent(path: Path, flock: Flock) -> None:
    flock.take()
    assert in_child(lambda: is_free(path)) is False
    in_child(flock.close)
    assert not is_free(path)


def test_one_opened_while_a_fork_has_begun_is_not_in_the_child(path: Path) -> None:
    early, opening = Early(), threading.Event()
    taken: list[Flock] = []

    def take() -> None:
        assert early.forking.wait(GUARD_S)
        flock = Flock(path)
        flock.take()
        taken.append(flock)
        opening.set()

    def wait(pipe: Connection) -> None:
        pipe.send("up")
        pipe.recv()

    thread = threading.Thread(target=take)
    thread.start()
    child = Child(wait)
    assert child.receive() == "up"
    assert opening.wait(GUARD_S)
    taken.pop().close()
    thread.join(GUARD_S)
    assert is_free(path)
    child.pipe.send("go")
    child.result()


class Meeting:
    """Parts that are opened, or closed, only once a fork waits for the store's lock."""

    def __init__(self) -> None:
        self.early = Early()
        self.under_lock = threading.Event()

    def meet(self) -> None:
        self.under_lock.set()
        assert self.early.forking.wait(GUARD_S)


def test_a_fork_and_the_first_use_of_a_store_do_not_wait_for_each_other(tmp_path: Path) -> None:
    def scene(_: Connection) -> list[bytes]:
        directory, meeting = made(tmp_path / "store"), Meeting()

        def open_parts() -> Parts:
            meeting.meet()
            return directory.open_parts()

        store = Store(open_parts, path="a store")
        thread = threading.Thread(target=do, args=(store, put(b"thread")))
        thread.start()
        assert meeting.under_lock.wait(GUARD_S)
        in_child(lambda: do(store, put(b"child")))
        thread.join()
        found = waiting_args(store)
        store.close()
        return found

    # In a process of its own, which an alarm ends: what fails here hangs.
    assert sorted(Child(scene).result()) == [b"child", b"thread"]


def test_a_fork_and_the_close_of_a_store_do_not_wait_for_each_other(tmp_path: Path) -> None:
    def scene(_: Connection) -> None:
        directory, meeting = made(tmp_path / "store"), Meeting()
        store = opened(directory)
        do(store, put(b"old"))
        with store.at_rest() as parts:
            close = parts.close

        def meet_and_close() -> None:
            meeting.meet()
            close()

        parts.close = meet_and_close  # type: ignore[method-assign]
        thread = threading.Thread(target=store.close)
        thread.start()
        assert meeting.under_lock.wait(GUARD_S)
        in_child(lambda: None)
        thread.join()

    Child(scene).result()
