"""Processes for tests: forked, spoken with over a pipe, guarded by an alarm."""

from __future__ import annotations

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from bide.storage.fork import ForkOrder, watch_forks

GUARD_S = 30
"""Nothing here takes this long unless it hangs."""


def fork() -> int:
    """`os.fork`, without Python's warning that it is dangerous where threads run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class Child:
    """A forked process that does *work*, which is handed its end of a pipe."""

    def __init__(self, work: Callable[[Connection], object]) -> None:
        self.pipe, theirs = Pipe()
        self.pid = fork()
        if self.pid == 0:
            _run(work, theirs)
        theirs.close()

    def receive(self) -> Any:
        """The next thing that it sends."""
        assert self.pipe.poll(GUARD_S), "no word from the child"
        return self.pipe.recv()

    def result(self) -> Any:
        """What its work returned; or what it raised, as an AssertionError. It has ended then."""
        try:
            is_well, value = self.receive()
        except EOFError:
            value, is_well = f"ended with status {self.wait()}, and without a word", False
        else:
            self.wait()
        assert is_well, f"the child failed:\n{value}"
        return value

    def wait(self) -> int:
        """Its exit code; negative is the signal that ended it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL


def in_child(work: Callable[[], object]) -> Any:
    """What *work* returns in a forked child."""
    return Child(lambda _: work()).result()


class Early:
    """Comes to rest before whatever watches forks after it, and says when."""

    def __init__(self) -> None:
        self.forking = threading.Event()
        watch_forks(self, ForkOrder.APP)

    def before_fork(self) -> None:
        self.forking.set()

    def after_fork_in_parent(self) -> None: ...
    def after_fork_in_child(self) -> None: ...


def _run(work: Callable[[Connection], object], pipe: Connection) -> NoReturn:
    signal.alarm(GUARD_S)
    try:
        message: tuple[bool, object] = (True, work(pipe))
    except BaseException:  # noqa: BLE001  the parent raises it
        message = (False, traceback.format_exc())
    try:
        pipe.send(message)
    finally:
        os._exit(0)
