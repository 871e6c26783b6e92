"""What a fork must not tear: locks, LMDB and the lock files of living workers.

`os.register_at_fork` knows no way back, so it is told once, here, and the
objects that care come and go in a weak table: the one piece of state that
this package keeps for the whole process.
"""

from __future__ import annotations

import os
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


_aware: WeakKeyDictionary[ForkAware, None] = WeakKeyDictionary()  # in order of arrival
_resting: list[ForkAware] = []


def watch_forks(thing: ForkAware) -> None:
    """Have *thing* told of every fork, for as long as anyone else holds it.

    They come to rest in the order of these calls: what takes another's lock
    under its own has to come before it.
    """
    _aware[thing] = None


def _before() -> None:
    _resting.extend(_aware)
    for thing in _resting:
        thing.before_fork()


def _in_parent() -> None:
    while _resting:
        _resting.pop().after_fork_in_parent()


def _in_child() -> None:
    while _resting:
        _resting.pop().after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
