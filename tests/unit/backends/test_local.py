"""`bide.backends.local`: one store for each directory in a process, however it is named or used."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from bide.backends import local
from bide.backends.embedded import Embedded
from bide.backends.local import open_local
from bide.backends.port import Backend
from bide.errors import NotAStore, StoreClosed, StoreError
from bide.format.identity import decode_identity
from bide.model.job import JobRef, NewJob
from bide.storage.store import Store
from bide.testing import ManualClock
from tests.unit.storage.children import GUARD_S, in_child

CLOCK = ManualClock()


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """Whoever opens in a test closes in it, and then the process has none of its stores left."""
    before = dict(local._shared._open)
    yield
    assert local._shared._open == before


def open_at(path: Path, **options: Any) -> Backend:
    return open_local(path, CLOCK, sync="never", **options)


def store_of(backend: Backend) -> Store:
    return cast("Embedded", backend)._shared_store


def put(backend: Backend) -> int:
    (result,) = backend.put([NewJob(queue="q", task="t", args=b"", due_ms=0)])
    return result.id


def has(backend: Backend, job_id: Any) -> bool:
    return backend.get(JobRef(id=job_id)) is not None


def test_what_is_opened_twice_is_one_store_until_the_last_one_closes(tmp_path: Path) -> None:
    one, two, three = (open_at(tmp_path / "store") for _ in range(3))
    store = store_of(one)
    assert store_of(two) is store_of(three) is store
    job_id = put(one)
    one.close()
    one.close()  # counts once
    with pytest.raises(StoreClosed):
        one.stats()
    assert has(two, job_id)
    two.close()
    assert has(three, job_id)
    three.close()
    with pytest.raises(StoreClosed):
        store.commit((), 0)
    again = open_at(tmp_path / "store")
    assert store_of(again) is not store
    assert has(again, job_id)
    again.close()


def test_two_directories_are_two_stores(tmp_path: Path) -> None:
    one, other = open_at(tmp_path / "one"), open_at(tmp_path / "other")
    job_id = put(one)
    assert store_of(one) is not store_of(other)
    assert not has(other, job_id)
    one.close()
    assert put(other) == 1
    other.close()


@pytest.mark.parametrize(
    "name", ["link", "./store", "other/../store", "link/../store", "deep/link"]
)
def test_other_paths_to_a_directory_share_its_store(tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store")
    (tmp_path / "other").mkdir()
    (tmp_path / "deep").symlink_to(tmp_path)
    first = open_at(tmp_path / "store")
    second = open_at(tmp_path / name)
    assert store_of(first) is store_of(second)
    assert has(second, put(first))
    assert has(first, put(second))
    first.close()
    assert put(second) == 3
    second.close()


def test_a_link_is_no_other_store_for_other_processes(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store")
    first = open_at(tmp_path / "store")
    put(first)

    def child() -> int:
        second = open_at(tmp_path / "link")
        return put(second)

    assert in_child(child) == 2
    assert has(first, 2)
    first.close()


def test_a_link_to_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError):
        open_at(tmp_path / "link", create=False)
    with pytest.raises(StoreError):
        open_at(tmp_path / "link")


def test_a_directory_that_was_moved_is_one_store_under_both_names(tmp_path: Path) -> None:
    first = open_at(tmp_path / "store")
    job_id = put(first)
    (tmp_path / "store").rename(tmp_path / "moved")
    second = open_at(tmp_path / "moved")  # LMDB would refuse to have it open twice
    assert store_of(second) is store_of(first)
    assert has(second, job_id)
    second.close()
    first.close()
    third = open_at(tmp_path / "moved")
    assert has(third, job_id)
    third.close()


def test_another_store_in_the_place_of_a_moved_one_is_another(tmp_path: Path) -> None:
    first = open_at(tmp_path / "store")
    put(first)
    put(first)
    (tmp_path / "store").rename(tmp_path / "moved")
    second = open_at(tmp_path / "store")
    assert store_of(second) is not store_of(first)
    assert put(second) == 1
    assert put(first) == 3
    first.close()
    assert has(second, 1)
    second.close()


def test_a_store_made_anew_where_one_was_deleted_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the new directory is given the old one's number, as file systems like to do."""
    monkeypatch.setattr(local, "_identify", lambda path: (1, 2))
    path = tmp_path / "store"
    first = open_at(path)
    put(first)
    shutil.rmtree(path)
    second = open_at(path)
    assert store_of(second) is not store_of(first)
    assert put(second) == 1
    with pytest.raises(StoreError):
        put(first)  # what is gone is not taken for stored
    assert put(second) == 2
    first.close()
    second.close()


def test_who_cannot_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        open_at(tmp_path / "none", create=False)
    assert list(tmp_path.iterdir()) == []


def test_threads_that_open_and_close_find_it_open_or_make_it_anew(tmp_path: Path) -> None:
    together = threading.Barrier(8)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            together.wait(GUARD_S)
            for _ in range(25):
                backend = open_at(tmp_path / "store")
                put(backend)
                backend.close()
        except BaseException as error:  # noqa: BLE001  shown below
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD_S)
    assert failures == []
    backend = open_at(tmp_path / "store")
    assert backend.stats().queues[0].put_total == 200
    backend.close()


def test_no_descriptor_is_left_behind(tmp_path: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("counts descriptors in /proc")

    def use() -> int:
        one, two = open_at(tmp_path / "store"), open_at(tmp_path / "store")
        put(one)
        put(two)
        worker = one.attend(("q",))
        worker.leave()
        one.close()
        two.close()
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    use()
    assert use() == use()


def test_the_options_of_a_store_are_those_it_was_made_with(tmp_path: Path) -> None:
    open_at(tmp_path / "store", segment_size=8192).close()
    again = open_at(tmp_path / "store", segment_size=4096)
    again.close()
    identity = decode_identity((tmp_path / "store" / "bide.json").read_bytes())
    assert identity.segment_size == 8192


def test_the_space_of_what_was_cancelled_is_used_again(tmp_path: Path) -> None:
    """Delayed jobs come and go, with no worker up: the index does not grow with them."""
    backend = open_at(tmp_path / "store")
    jobs = [
        NewJob(queue="q", task="t", args=bytes(500), due_ms=1 << 50, key=str(n))
        for n in range(2_000)
    ]
    sizes: list[int] = []
    for _ in range(8):
        results = backend.put(jobs)
        assert backend.cancel([JobRef(id=result.id) for result in results]) == (None,) * len(jobs)
        sizes.append((tmp_path / "store" / "index-1" / "data.mdb").stat().st_size)
    assert sizes[-1] <= 2 * sizes[0], sizes
    (queue,) = backend.stats().queues
    assert (queue.waiting, queue.cancelled_total) == (0, 8 * len(jobs))
    backend.close()


def test_what_was_put_without_waiting_is_on_the_disk_behind_a_sync(tmp_path: Path) -> None:
    backend = open_at(tmp_path / "store")
    new = NewJob(queue="q", task="t", args=b"", due_ms=0)
    backend.put([new], wait=False)
    store = store_of(backend)
    assert store._synced_end < store.end
    backend.sync()  # as it was opened: never
    assert store._synced_end < store.end
    backend.sync("always")
    assert store._synced_end == store.end
    backend.close()
