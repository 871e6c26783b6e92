"""`bide.storage.fork`: who is told of a fork, when, and what a failure of one does to the rest."""

from __future__ import annotations

import gc
import sys
import threading
import time

import pytest

from bide.storage import fork as fork_module
from bide.storage.fork import ForkOrder, unforked, watch_forks
from tests.unit.storage.children import GUARD_S, Child, in_child


class Watcher:
    """Notes what it is told."""

    def __init__(
        self,
        name: str,
        told: list[str],
        failing: str = "",
        order: ForkOrder = ForkOrder.STORE,
    ) -> None:
        self.name = name
        self.told = told
        self.failing = failing
        watch_forks(self, order)

    def _note(self, what: str) -> None:
        self.told.append(f"{self.name} {what}")
        if self.failing == what:
            raise RuntimeError(f"{self.name} fails {what}")

    def before_fork(self) -> None:
        self._note("before")

    def after_fork_in_parent(self) -> None:
        self._note("parent")

    def after_fork_in_child(self) -> None:
        self._note("child")


@pytest.fixture
def told() -> list[str]:
    return []


def test_they_rest_in_order_and_wake_in_reverse(told: list[str]) -> None:
    orders = {"c": ForkOrder.SEAT, "a": ForkOrder.APP, "b": ForkOrder.STORES}
    watchers = [Watcher(name, told, order=order) for name, order in orders.items()]
    in_the_child = in_child(lambda: list(told))
    assert told == ["a before", "b before", "c before", "c parent", "b parent", "a parent"]
    assert in_the_child == ["a before", "b before", "c before", "c child", "b child", "a child"]
    assert len(watchers) == 3


def test_each_fork_is_told_anew(told: list[str]) -> None:
    watcher = Watcher("a", told)
    for _ in range(3):
        in_child(lambda: None)
    assert told == ["a before", "a parent"] * 3
    assert in_child(lambda: in_child(lambda: list(told)))[-4:] == [
        "a before",
        "a child",
        "a before",
        "a child",
    ]
    assert watcher.told is told


def test_equals_rest_in_order_of_arrival(told: list[str]) -> None:
    watchers = [Watcher(name, told) for name in "bac"]
    in_child(lambda: None)
    assert told[: len(watchers)] == ["b before", "a before", "c before"]


def test_what_is_made_while_others_come_to_rest_rests_too(told: list[str]) -> None:
    made: list[Watcher] = []

    class Maker(Watcher):
        def before_fork(self) -> None:
            super().before_fork()
            made.append(Watcher("made", told, order=ForkOrder.STORE))

    maker = Maker("maker", told, order=ForkOrder.APP)
    last = Watcher("last", told, order=ForkOrder.SEAT)
    in_child(lambda: None)
    assert told[:3] == [f"{name} before" for name in (maker.name, made[0].name, last.name)]
    assert told[3:] == ["last parent", "made parent", "maker parent"]


def test_what_is_gone_is_not_told(told: list[str]) -> None:
    watcher = Watcher("a", told)
    in_child(lambda: None)
    told.clear()
    del watcher
    gc.collect()
    in_child(lambda: None)
    assert told == []


@pytest.fixture
def complaints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Python says of hooks that fail: it cannot raise it anywhere."""
    heard: list[str] = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda complaint: heard.append(str(complaint.exc_value))
    )
    return heard


@pytest.mark.parametrize("failing", ["parent", "child"])
@pytest.mark.parametrize("number", range(3))
def test_one_that_fails_to_wake_leaves_no_other_asleep(
    told: list[str], complaints: list[str], failing: str, number: int
) -> None:
    watchers = [Watcher(name, told, failing if n == number else "") for n, name in enumerate("abc")]
    in_the_child = in_child(lambda: [*told, *complaints])
    by_whom = {"parent": [*told, *complaints], "child": in_the_child}[failing]
    assert by_whom[3:] == [
        f"c {failing}",
        f"b {failing}",
        f"a {failing}",
        f"{watchers[number].name} fails {failing}",
    ]
    for watcher in watchers:
        watcher.failing = ""
    told.clear()
    in_child(lambda: None)
    assert len(told) == 6  # and the next fork is as ever


@pytest.mark.parametrize("number", range(3))
def test_one_that_does_not_come_to_rest_is_not_woken(
    told: list[str], complaints: list[str], number: int
) -> None:
    watchers = [
        Watcher(name, told, "before" if n == number else "") for n, name in enumerate("abc")
    ]
    in_child(lambda: None)
    rested = list("abc"[:number])
    assert told[number + 1 :] == [f"{name} parent" for name in reversed(rested)]
    assert complaints
    for watcher in watchers:
        watcher.failing = ""
    told.clear()
    in_child(lambda: None)
    assert len(told) == 6


def test_arrivals_during_a_fork_do_not_disturb_it(complaints: list[str]) -> None:
    def arrive() -> None:
        kept: list[Watcher] = []
        for _ in range(300):
            kept = [*kept[-20:], Watcher("", [])]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = threading.Thread(target=arrive)
    thread.start()
    try:
        for _ in range(10):
            in_child(lambda: None)
    finally:
        thread.join(GUARD_S)
        sys.setswitchinterval(interval)
    assert complaints == []


def test_a_thousand_cost_no_more_than_a_moment(told: list[str], complaints: list[str]) -> None:
    # One for each App, store and worker that a process has ever made and still holds.
    watchers = [Watcher(str(number), told) for number in range(1_000)]
    start_s = time.monotonic()
    in_child(lambda: None)
    assert time.monotonic() - start_s < 5
    assert complaints == []
    assert len(told) == 2 * len(watchers)


def test_no_fork_comes_into_what_must_not_be_torn(told: list[str]) -> None:
    inside, leave = threading.Event(), threading.Event()
    order: list[str] = []

    def stay() -> None:
        with unforked():
            inside.set()
            assert leave.wait(GUARD_S)
            order.append("left")

    class Late(Watcher):
        def before_fork(self) -> None:
            order.append("forked")

    late = Late("late", told)
    thread = threading.Thread(target=stay)
    thread.start()
    assert inside.wait(GUARD_S)
    forker = threading.Thread(target=lambda: in_child(lambda: None))
    forker.start()
    leave.set()
    forker.join(GUARD_S)
    thread.join(GUARD_S)
    assert order == ["left", "forked"]
    assert late.name
    assert not fork_module._forking.locked()


def test_a_child_that_dies_at_once_harms_nobody() -> None:
    for _ in range(3):
        child = Child(lambda pipe: pipe.recv())
        child.kill()
