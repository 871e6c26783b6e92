"""Work whose every disk call is, in turn, the last: killed there, or refused by the disk."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bide.storage.disk import OsDisk
from tests.unit.storage.children import Child

METHODS = (
    *("open", "open_to_read", "close", "size", "end", "write", "read", "truncate", "reserve"),
    *("sync", "sync_directory", "names", "make_directory", "rename", "remove"),
)

Before = Callable[[str, int], object]


class _Killed(BaseException):
    """Has the process die, once half of a write is done."""


@contextmanager
def hooked(before: Before) -> Iterator[None]:
    """Every disk of the block calls *before*, with a call's method and number, before each call.

    What it raises, the call raises, with half of its bytes written if it is a write.
    """
    originals = {name: getattr(OsDisk, name) for name in METHODS}
    depth = count = 0

    def hook(name: str) -> Callable[..., Any]:
        method = originals[name]

        def hooking(self: OsDisk, *args: Any, **options: Any) -> Any:
            nonlocal depth, count
            if depth:
                return method(self, *args, **options)
            depth += 1
            try:
                count += 1
                try:
                    before(name, count - 1)
                except BaseException as error:
                    if name == "write":
                        fd, data, offset = args
                        method(self, fd, data[: len(data) // 2], offset)
                    elif name == "close":
                        method(self, *args)  # Linux closes it, whatever it says
                    if isinstance(error, _Killed):
                        os.kill(os.getpid(), signal.SIGKILL)
                    raise
                return method(self, *args, **options)
            finally:
                depth -= 1

        return hooking

    try:
        for name in METHODS:
            setattr(OsDisk, name, hook(name))
        yield
    finally:
        for name, method in originals.items():
            setattr(OsDisk, name, method)


def is_killed(work: Callable[[], object], at: int) -> bool:
    """Do *work* in a child that is killed at its disk call *at*; whether it came to that."""

    def dying(_: object) -> None:
        def die(name: str, number: int) -> None:
            if number == at:
                raise _Killed

        with hooked(die):
            work()

    child = Child(dying)
    try:
        is_well, value = child.receive()
    except EOFError:
        assert child.wait() == -signal.SIGKILL
        return True
    child.wait()
    assert is_well, value
    return False


@contextmanager
def failing(errno: int, at: int) -> Iterator[list[str]]:
    """A block in which disk call *at* fails with *errno*; the calls, filled in as they come."""
    calls: list[str] = []

    def fail(name: str, number: int) -> None:
        calls.append(name)
        if number == at:
            raise OSError(errno, os.strerror(errno))

    with hooked(fail):
        yield calls
