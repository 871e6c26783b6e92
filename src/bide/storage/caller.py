"""One call of a store, as it waits in line to be committed with others."""

from __future__ import annotations

from collections.abc import Sequence

from bide.errors import BideError
from bide.model.commands import Answer, Command, Decide, Put


class Caller:
    """One call of `Store.submit`, in the line."""

    __slots__ = ("answers", "commands", "done", "error", "now_ms")

    def __init__(self, commands: Sequence[Command], now_ms: int) -> None:
        self.commands = commands
        self.now_ms = now_ms
        self.answers: list[Answer | BideError] = []
        self.error: BaseException | None = None
        self.done = False

    def weight(self) -> tuple[int, int]:
        """Jobs and bytes that this adds to a commit, at least."""
        puts = [command.jobs for command in self.commands if isinstance(command, Put | Decide)]
        return sum(map(len, puts)), sum(len(new.args) for jobs in puts for new in jobs)


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
