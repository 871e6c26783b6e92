"""What a fork must not tear: locks, LMDB and the lock files of living workers.

`os.register_at_fork` knows no way back, so it is told once, here, and the
objects that care come and go in a weak table: the one piece of state that
this package keeps for the whole process.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Protocol
from weakref import WeakKeyDictionary


class ForkAware(Protocol):
    """Something to be brought through a fork."""

    def before_fork(self) -> None:
        """In the parent: come to rest, and stay so."""
        ...

    def after_fork_in_parent(self) -> None:
        """Go on."""
        ...

    def after_fork_in_child(self) -> None:
        """Let go of what is the parent's; no other thread exists here."""
        ...


class ForkOrder(IntEnum):
    """Who comes to rest before whom: what takes another's lock under its own, before it."""

    APP = 0
    STORES = 1
    STORE = 2
    SEAT = 3


_aware: WeakKeyDictionary[ForkAware, ForkOrder] = WeakKeyDictionary()
_resting: list[ForkAware] = []
_forking = threading.Lock()
"""Held through a fork, and by whoever must not be forked in two."""


def watch_forks(thing: ForkAware, order: ForkOrder = ForkOrder.SEAT) -> None:
    """Have *thing* told of every fork, for as long as anyone else holds it."""
    _aware[thing] = order


@contextlib.contextmanager
def unforked() -> Iterator[None]:
    """A block that no fork comes into. Keep it short, and fork nothing in it."""
    with _forking:
        yield


def _all_aware(order: ForkOrder) -> list[ForkAware]:
    # By keyrefs, which copies in one step: other threads may add to it meanwhile.
    things = [thing for ref in _aware.keyrefs() if (thing := ref()) is not None]
    return [thing for thing in things if _aware.get(thing) is order]


def _before() -> None:
    _forking.acquire()
    for order in ForkOrder:  # asked for anew each time: an App may have opened its store meanwhile
        for thing in _all_aware(order):
            thing.before_fork()
            _resting.append(thing)  # now, not all at once: what did not come to rest is not woken


def _wake_all(wake: Callable[[ForkAware], None]) -> None:
    """Wake all that rest, also when one of them fails: the others' locks must not stay taken."""
    try:
        while _resting:
            wake(_resting.pop())
    finally:
        if _resting:
            _wake_all(wake)


def _in_parent() -> None:
    try:
        _wake_all(lambda thing: thing.after_fork_in_parent())
    finally:
        _forking.release()


def _in_child() -> None:
    try:
        _wake_all(lambda thing: thing.after_fork_in_child())
    finally:
        _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
