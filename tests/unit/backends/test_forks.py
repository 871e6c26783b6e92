"""An App in a process that forks: whatever lock another thread holds, both sides go on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import bide
from bide.backends import local
from bide.backends.embedded import Embedded
from bide.errors import StoreClosed
from tests.unit.storage.children import GUARD_S, Early, in_child


def note(number: int) -> None: ...


@pytest.fixture
def early() -> Early:
    return Early()


@pytest.fixture
def app(early: Early, tmp_path: Path) -> Iterator[bide.App]:
    app = bide.App((tmp_path / "store").as_uri(), sync="never")
    app.task(name="note")(note)
    yield app
    app.close()


def put(app: bide.App) -> int:
    return app.tasks["note"].enqueue(1).id


def store_lock(app: bide.App, name: str) -> Any:
    return getattr(cast("Embedded", app.backend)._shared_store, name)


LOCKS: dict[str, Callable[[bide.App], Any]] = {
    "of the App": lambda app: app._connection._lock,
    "of the open stores": lambda app: local._shared._lock,
    "of the store": lambda app: store_lock(app, "_lock"),
    "of its syncs": lambda app: store_lock(app, "_sync_lock"),
}


@pytest.mark.parametrize(
    "name, is_open",
    [
        ("of the App", False),
        ("of the App", True),
        ("of the open stores", False),
        ("of the open stores", True),
        ("of the store", True),
        ("of its syncs", True),
    ],
)
def test_parent_and_child_go_on_after_a_fork_under_a_held_lock(
    app: bide.App, early: Early, name: str, *, is_open: bool
) -> None:
    used = put(app) if is_open else 0
    lock = LOCKS[name](app)
    inside = threading.Event()

    def hold() -> None:
        with lock:
            inside.set()
            assert early.forking.wait(GUARD_S)  # the other thread is about to rest in the fork

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(GUARD_S)

    def child() -> tuple[int, int]:
        first = put(app)
        with bide.App(app.url) as another:
            another.task(name="note")(note)
            return first, put(another)

    assert in_child(child) == (used + 1, used + 2)
    thread.join(GUARD_S)
    assert put(app) == used + 3
    assert app.stats().queues[0].put_total == used + 3


def test_a_fork_before_the_first_use_opens_a_store_on_each_side(app: bide.App) -> None:
    assert in_child(lambda: put(app)) == 1
    assert put(app) == 2


def test_a_child_that_closes_the_app_leaves_the_parents_open(app: bide.App) -> None:
    put(app)

    def child() -> str:
        app.close()
        with pytest.raises(StoreClosed) as caught:
            put(app)
        return str(caught.value)

    assert "make a new one" in in_child(child)
    assert put(app) == 2


def test_an_app_that_the_parent_closed_is_closed_in_the_child(app: bide.App) -> None:
    put(app)
    app.close()

    def child() -> int:
        with pytest.raises(StoreClosed):
            put(app)
        with bide.App(app.url) as another:
            another.task(name="note")(note)
            return put(another)

    assert in_child(child) == 2


def test_a_child_sees_what_the_parent_puts_and_the_other_way_round(app: bide.App) -> None:
    put(app)
    for turn in range(5):
        child_id = in_child(lambda: put(app))
        assert child_id == 2 * turn + 2
        assert app.get(child_id) is not None
        parent_id = put(app)
        assert in_child(lambda parent_id=parent_id: app.get(parent_id) is not None)  # type: ignore[misc]
