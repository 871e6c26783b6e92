"""One call of a store, as it waits in line to be committed with others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from bide.errors import BideError, JobError, StoreError
from bide.format.commit import Entry, encode_rows
from bide.model.commands import Answer, Command, Decide, Put
from bide.model.machine import decide
from bide.storage.apply import Applier
from bide.storage.index import IndexView

TURN_S = 1.0
"""After so long a caller looks for itself, should whoever was to wake it have been interrupted."""


class Caller:
    """One call of `Store.submit`, in the line.

    Args:
        committed: Called once it is committed, before it is synced; it must not raise.
    """

    __slots__ = ("_turn", "answers", "commands", "committed", "done", "error", "now_ms", "synced")

    def __init__(
        self,
        commands: Sequence[Command],
        now_ms: int,
        committed: Callable[[], object] | None = None,
    ) -> None:
        self.commands = commands
        self.now_ms = now_ms
        self.committed = committed
        self.answers: list[Answer | BideError] = []
        self.error: BaseException | None = None
        self.done = False
        """Committed, or refused with *error*."""
        self.synced = False
        """Whoever committed it has put it on the disk, too."""
        self._turn = held_lock()

    def carry_out(self, view: IndexView, applier: Applier, entries: list[Entry]) -> None:
        """Decide the commands, one by one, and add the facts to *entries*."""
        self.answers = [
            _carry_out(command, self.now_ms, view, applier, entries) for command in self.commands
        ]

    def wait(self) -> None:
        """Until somebody wakes it, or for a while."""
        self._turn.acquire(timeout=TURN_S)

    def wake(self) -> None:
        """Have it look again."""
        try:
            self._turn.release()
        except RuntimeError:  # it was woken, and has not looked yet
            return

    def weight(self) -> tuple[int, int]:
        """Jobs and bytes that this adds to a commit, at least."""
        puts = [command.jobs for command in self.commands if isinstance(command, Put | Decide)]
        return sum(map(len, puts)), sum(len(new.args) for jobs in puts for new in jobs)


def held_lock() -> threading.Lock:
    """A lock to wait for, until somebody releases it."""
    lock = threading.Lock()
    lock.acquire()
    return lock


def takes_space(group: Sequence[Caller]) -> bool:
    """Whether something is put; all else makes room, or as good as none."""
    for caller in group:  # no generator: an interrupt in one may be lost
        for command in caller.commands:
            if isinstance(command, (Put, Decide)):
                return True
    return False


def refuse(group: Sequence[Caller], error: BaseException) -> None:
    for caller in group:
        caller.error = error
        caller.done = True


def _carry_out(
    command: Command,
    now_ms: int,
    view: IndexView,
    applier: Applier,
    entries: list[Entry],
) -> Answer | BideError:
    """Decide one command, applying each fact before the next is asked for."""
    before = len(entries)
    decision = decide(command, view, now_ms)
    try:
        while True:
            fact = next(decision)
            rows = encode_rows(fact)
            applier.apply(fact, rows)
            entries.append((fact, rows))
    except StopIteration as stop:
        answer: Answer = stop.value
        return answer
    except (JobError, StoreError) as error:
        assert len(entries) == before, "a refused command has changed something"
        return error
