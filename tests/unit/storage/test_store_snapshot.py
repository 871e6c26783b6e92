"""`bide.storage.store`: a snapshot stays as it was, whatever goes on beside it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from bide.errors import StoreClosed, StoreFailed
from bide.storage.directory import Directory
from bide.storage.parts import Snapshot
from bide.storage.store import Store
from tests.unit.storage.children import GUARD_S, Child
from tests.unit.storage.histories import do, dump_store, put, run_history, waiting_args
from tests.unit.storage.opened import environment_of, made, opened, upkeep_of


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return made(tmp_path / "store")


@pytest.fixture
def store(directory: Directory) -> Iterator[Store]:
    store = opened(directory)
    run_history(store, 1, 30)
    yield store
    store.close()


def args_in(snapshot: Snapshot) -> list[bytes]:
    """What the waiting jobs of queue *q* carry, in a snapshot."""
    rows = snapshot.view.waiting("q", 0, 1 << 53, 1 << 20)
    jobs = [snapshot.view.job(job_id) for _, _, job_id in rows]
    return [job.args for job in jobs if job is not None]


def test_what_threads_commit_meanwhile_is_not_in_it(store: Store) -> None:
    expected = waiting_args(store)
    with store.snapshot() as snapshot, ThreadPoolExecutor(4) as threads:
        position = snapshot.view.position()
        for putting in [threads.submit(do, store, put(b"thread")) for _ in range(40)]:
            putting.result(GUARD_S)  # and they do not wait for it
        assert args_in(snapshot) == expected
        assert snapshot.view.position() == position
        assert position.end < store.end
    assert waiting_args(store).count(b"thread") == 40


def test_what_processes_commit_meanwhile_is_not_in_it(directory: Directory, store: Store) -> None:
    def work(pipe: Connection) -> None:
        pipe.recv()
        theirs = opened(directory)
        for _ in range(20):
            do(theirs, put(b"process"))
        pipe.send("done")
        theirs.close()

    children = [Child(work) for _ in range(2)]  # none can be forked while it is read
    expected = waiting_args(store)
    with store.snapshot() as snapshot:
        for child in children:
            child.pipe.send("go")
        assert [child.receive() for child in children] == ["done"] * 2
        assert args_in(snapshot) == expected
    for child in children:
        child.result()
    assert waiting_args(store).count(b"process") == 40


def test_a_close_waits_for_it(store: Store) -> None:
    expected = waiting_args(store)
    with ThreadPoolExecutor(1) as threads:
        with store.snapshot() as snapshot:
            closing = threads.submit(store.close)
            do_while_open(store)
            assert args_in(snapshot)[: len(expected)] == expected
            assert not closing.done()
        closing.result(GUARD_S)
    with pytest.raises(StoreClosed), store.snapshot():
        pass


def do_while_open(store: Store) -> None:
    """A close that waits for a snapshot holds up nobody else."""
    do(store, put(b"still open", queue="other"))


def test_a_fork_waits_for_it(store: Store) -> None:
    with ThreadPoolExecutor(1) as threads:
        with store.snapshot() as snapshot:
            forking = threads.submit(Child, lambda _: waiting_args(store))
            expected = args_in(snapshot)
            assert not forking.done()
        child = forking.result(GUARD_S)
    assert child.result() == expected


def test_one_follows_the_other(store: Store) -> None:
    entered = threading.Event()

    def second() -> int:
        with store.snapshot() as snapshot:
            entered.set()
            return snapshot.view.position().end

    with ThreadPoolExecutor(1) as threads:
        with store.snapshot():
            waiting = threads.submit(second)
            do(store, put(b"between"))
            assert not entered.is_set()
        assert waiting.result(GUARD_S) == store.end


def test_an_error_in_the_block_lets_go_of_all(store: Store) -> None:
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), store.snapshot():
            raise ZeroDivisionError
        with pytest.raises(ZeroDivisionError), store.at_rest():
            raise ZeroDivisionError
    with store.snapshot():
        do(store, put(b""))
    store.close()


def test_a_store_that_can_not_be_opened_has_none(tmp_path: Path) -> None:
    def fail() -> None:
        raise StoreFailed("no", path="here")

    store = Store(fail, path="here")  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(StoreFailed), store.snapshot():
            pass
        with pytest.raises(StoreFailed), store.at_rest():
            pass
    store.close()


def test_at_rest_nothing_is_committed(store: Store) -> None:
    with ThreadPoolExecutor(1) as threads:
        with store.at_rest():
            end = store.end
            putting = threads.submit(do, store, put(b"waits"))
            assert not putting.done()
            assert store.end == end
        putting.result(GUARD_S)
    assert store.end > end


def test_all_ways_in_follow_an_index_that_another_process_moved(
    directory: Directory, store: Store
) -> None:
    def compact(pipe: Connection) -> None:
        theirs = opened(directory)
        upkeep = upkeep_of(directory, theirs)
        while pipe.recv():
            upkeep.run(compact=True)
            pipe.send("moved")
        theirs.close()

    child = Child(compact)
    for number, way in enumerate(("view", "snapshot", "at_rest", "commit"), start=2):
        expected = dump_store(store)
        child.pipe.send(True)
        assert child.receive() == "moved"
        match way:
            case "view":
                with store.view() as view:
                    assert view.moved() is None
            case "snapshot":
                with store.snapshot() as snapshot:
                    assert snapshot.view.moved() is None
            case "at_rest":
                with store.at_rest():
                    pass
            case _:
                do(store, put(b"followed"))
        assert store._parts is not None
        if way == "commit":
            assert len(dump_store(store)["jobs"]) == len(expected["jobs"]) + 1
        else:
            assert dump_store(store) == expected
        assert environment_of(store).path == directory.index_path(number)
    child.pipe.send(False)
    child.result()
