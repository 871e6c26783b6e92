"""What a store must hold: every command that was carried out, in order, on the plain model.

A command is *acknowledged* once its call has returned, and *durable* once
that call, or a later one, has synced the log. A process that dies takes
nothing acknowledged with it. The power may take what is not durable, but
only from the end backwards: what survives is what was true at some moment.

A command whose process died, or whose disk failed, was never acknowledged,
and may yet have its record in the log: a recovery may find it, as the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from bide.errors import BideError, JobNotFound, KeyTaken, LeaseLost, WrongState
from bide.model import commands as c
from bide.model.job import JobRef
from tests.model.plain import New, Plain, Row, Taken

Answers = list[Any]


class Model(Plain):
    """`Plain`, driven by bide's commands."""

    def __init__(self) -> None:
        super().__init__()
        self.owners: set[int] = set()
        self.next_owner = 1
        self.next_id = 1
        self.args: dict[int, bytes] = {}

    def do(self, command: c.Command, now: int) -> Any:
        """What to expect as an answer: see `plain_answer`."""
        match command:
            case c.Put():
                return self._put(command)
            case c.Register():
                owner, self.next_owner = self.next_owner, self.next_owner + 1
                self.owners.add(owner)
                return owner
            case c.Reserve():
                return self._reserve(command, now)
            case c.Settle():
                return [self._settle(command.owner, one, now) for one in command.settlements]
            case c.Cancel():
                return [self._cancel(ref) for ref in command.refs]
            case c.Move():
                return [self._move(change) for change in command.changes]
            case c.Kick():
                return [self._kick(ref, now) for ref in command.refs]
            case c.Expire():
                return self._expire(command, now)

    def remove(self, job_id: int, why: str) -> None:
        super().remove(job_id, why)
        self.args.pop(job_id, None)

    def _put(self, command: c.Put) -> Any:
        batch = [
            New(job.queue, job.key, job.on_conflict, job.due_ms, job.priority, job.max_retries)
            for job in command.jobs
        ]
        for new in batch:  # told at once, and not by undoing: there is much to undo
            if new.conflict == "raise" and (new.queue, new.key) in self.keys:
                return KeyTaken
        try:
            results = self.put(batch, self.next_id)
        except Taken:
            return KeyTaken
        for (job_id, outcome), job in zip(results, command.jobs, strict=True):
            if outcome != "skipped":
                self.next_id = job_id + 1
                if job_id in self.rows:  # else one behind it in the batch has replaced it
                    self.args[job_id] = job.args
        return results

    def _reserve(self, command: c.Reserve, now: int) -> Any:
        if command.owner not in self.owners:
            return LeaseLost
        rows = self.reserve(command.owner, list(command.queues), command.limit, now)
        return [(row.id, row.attempts + 1, self.args[row.id]) for row in rows]

    def _settle(self, owner: int, settlement: c.Settlement, now: int) -> type[BideError] | None:
        row = self.rows.get(settlement.id)
        if (
            row is None
            or (row.where, row.owner) != ("running", owner)
            or row.attempts + 1 != settlement.attempt
        ):
            return LeaseLost
        outcome = settlement.outcome
        due = getattr(outcome, "due_ms", 0)
        self.settle(row, type(outcome).__name__.lower(), due, now)
        return None

    def find(self, ref: JobRef) -> Row | None:
        job_id = ref.id if ref.key is None else self.keys.get((ref.queue, ref.key))
        return None if job_id is None else self.rows.get(job_id)

    def _cancel(self, ref: JobRef) -> type[BideError] | None:
        row = self.find(ref)
        if row is None:
            return JobNotFound
        self.remove(row.id, "cancelled")
        return None

    def _move(self, change: c.Change) -> type[BideError] | None:
        row = self.find(change.ref)
        if row is None:
            return JobNotFound
        if row.where != "waiting":
            return WrongState
        row.due = row.due if change.due_ms is None else change.due_ms
        row.priority = row.priority if change.priority is None else change.priority
        return None

    def _kick(self, ref: JobRef, now: int) -> type[BideError] | None:
        row = self.find(ref)
        if row is None:
            return JobNotFound
        return None if self.kick(row.id, now) else WrongState

    def _expire(self, command: c.Expire, now: int) -> int:
        if command.owner not in self.owners:
            return 0
        for row in self.held(command.owner)[: command.limit]:
            if (row.id, row.attempts + 1) in command.started:
                self.fail_attempt(row, row.due, now)
            else:
                row.where = "waiting"
        if self.held(command.owner):
            return 1
        self.owners.remove(command.owner)
        return 0


def plain_answer(answer: Any) -> Any:
    """What the store has answered, in the words of `Model.do`."""
    if isinstance(answer, BideError):
        return type(answer)
    if isinstance(answer, tuple):
        return [_plain_part(part) for part in answer]
    return answer


def _plain_part(part: Any) -> Any:
    if isinstance(part, c.PutResult):
        return (part.id, part.outcome)
    if isinstance(part, BideError):
        return type(part)
    return None if part is None else (part.job.id, part.attempt, part.job.args)


@dataclass(frozen=True)
class Commit:
    """Commands that share a transaction, and where the log ends behind them."""

    end: int
    commands: tuple[c.Command, ...]
    now_ms: int


class Oracle:
    """The present, and every moment that may yet turn out to be what survived."""

    def __init__(self) -> None:
        self.model = Model()
        self.end = 0
        self.durable_end = 0
        """A log offset up to which all must survive."""
        self.moment_count = 0
        """Commits in all that were carried out."""
        self._known: list[tuple[int, Model]] = [(0, Model())]  # what recoveries have found
        self._commits: list[Commit] = []
        self._doubts: list[Commit] = []

    def committed(self, commands: Sequence[c.Command], now_ms: int, end: int) -> Answers:
        """Commands were carried out; returns what they must have been answered."""
        if end != self.end:
            assert end > self.end, "the log's end went back"
            self._commits.append(Commit(end, tuple(commands), now_ms))
            self.moment_count += 1
            self.end = end
        return [self.model.do(command, now_ms) for command in commands]

    def doubted(self, commands: Sequence[c.Command], now_ms: int) -> None:
        """A call was not answered: at most its record stands behind the present end."""
        self._doubts.append(Commit(self.end, tuple(commands), now_ms))

    def persisted(self, end: int) -> None:
        self.durable_end = max(self.durable_end, min(end, self.end))

    def candidates(self, end: int, floor: int) -> list[Model]:
        """What a log that ends at *end* may hold, if it holds at least what *floor* says."""
        found = []
        if end >= floor:
            if end in {0, *(commit.end for commit in self._commits)}:
                found.append(self._at(end))
            for doubt in self._doubts:
                if floor <= doubt.end < end:
                    model = self._at(doubt.end)
                    for command in doubt.commands:
                        model.do(command, doubt.now_ms)
                    found.append(model)
        return found

    def recovered(self, model: Model, end: int) -> None:
        """This is what the store holds now, and it is durable."""
        self.model = model
        self.end = self.durable_end = end
        self._known = [known for known in self._known if known[0] < end]
        self._known.append((end, deepcopy(model)))
        self._commits = [commit for commit in self._commits if commit.end < end]
        self._commits.append(Commit(end, (), 0))
        self._doubts.clear()

    def _at(self, end: int) -> Model:
        known_end, model = [known for known in self._known if known[0] <= end][-1]
        model = deepcopy(model)
        for commit in self._commits:
            if known_end < commit.end <= end:
                for command in commit.commands:
                    model.do(command, commit.now_ms)
        return model
