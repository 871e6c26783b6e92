"""What a store of jobs should do, as plainly as it can be said: lists and dicts, no cleverness.

Written from the words of the promises alone. It shares nothing with the machine that it judges.
"""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Literal

Where = Literal["waiting", "running", "failed"]


@dataclass
class Row:
    """One live job."""

    id: int
    queue: str
    key: str | None
    due: int
    priority: int
    max_retries: int
    where: Where = "waiting"
    owner: int = 0
    started: bool = False
    attempts: int = 0
    snoozes: int = 0
    failed_at: int | None = None
    errors: list[int] = field(default_factory=list)


@dataclass
class New:
    """A job to put."""

    queue: str
    key: str | None
    conflict: str
    due: int
    priority: int
    max_retries: int


class Taken(Exception):
    """A key is held."""


class Plain:
    """All live jobs, who holds which key, and what has happened in each queue."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.happened: Counter[tuple[str, str]] = Counter()
        self.queues: set[str] = set()

    # ------------------------------------------------------------ looking

    def in_order(self, queue: str, *, due_by: int) -> list[Row]:
        """The queue's waiting jobs with due times up to *due_by*, in order of service."""
        due = [
            row
            for row in self.rows.values()
            if row.where == "waiting" and row.queue == queue and row.due <= due_by
        ]
        return sorted(due, key=lambda row: (-row.priority, row.due, row.id))

    def held(self, owner: int) -> list[Row]:
        running = [row for row in self.rows.values() if row.where == "running"]
        return sorted((r for r in running if r.owner == owner), key=lambda row: row.id)

    def count(self, queue: str, where: Where) -> int:
        return sum(row.queue == queue and row.where == where for row in self.rows.values())

    # ------------------------------------------------------------ changing

    def put(self, batch: list[New], first_id: int) -> list[tuple[int, str]]:
        """(id, outcome) of each; `Taken`, and nothing has changed, if a key is."""
        before = deepcopy(self.__dict__)
        answers: list[tuple[int, str]] = []
        next_id = first_id
        for new in batch:
            name = None if new.key is None else (new.queue, new.key)
            holder = None if name is None else self.keys.get(name)
            outcome = "put"
            if holder is not None:
                if new.conflict == "raise":
                    self.__dict__ = before
                    raise Taken
                if new.conflict == "skip":
                    answers.append((holder, "skipped"))
                    continue
                outcome = "replaced"
                if self.rows[holder].where == "running":
                    self.rows[holder].key = None
                else:
                    self.remove(holder, "cancelled")
            row = Row(next_id, new.queue, new.key, new.due, new.priority, new.max_retries)
            self.rows[next_id] = row
            if name is not None:
                self.keys[name] = next_id
            self.happened[new.queue, "put"] += 1
            self.queues.add(new.queue)
            answers.append((next_id, outcome))
            next_id += 1
        return answers

    def remove(self, job_id: int, why: str) -> None:
        row = self.rows.pop(job_id)
        self.happened[row.queue, why] += 1
        self.free_key(row)

    def free_key(self, row: Row) -> None:
        if row.key is not None and self.keys.get((row.queue, row.key)) == row.id:
            del self.keys[row.queue, row.key]

    def reserve(self, owner: int, queues: list[str], limit: int, now: int) -> list[Row]:
        chosen = [row for queue in queues for row in self.in_order(queue, due_by=now)][:limit]
        for row in chosen:
            row.where, row.owner, row.started = "running", owner, False
        return chosen

    def fail_attempt(self, row: Row, again: int | None, now: int) -> None:
        """An attempt has failed; the next one is at *again*, if there may be one."""
        row.attempts += 1
        row.errors = [*row.errors, row.attempts][-10:]
        if again is None or row.attempts > row.max_retries:
            row.where, row.failed_at = "failed", now
            self.happened[row.queue, "failed"] += 1
            self.free_key(row)
        else:
            row.where, row.due = "waiting", again
            self.happened[row.queue, "rescheduled"] += 1

    def settle(self, row: Row, outcome: str, due: int, now: int) -> None:
        match outcome:
            case "completed":
                self.remove(row.id, "succeeded")
            case "dropped":
                self.remove(row.id, "cancelled")
            case "retried":
                self.fail_attempt(row, due, now)
            case "exhausted":
                self.fail_attempt(row, None, now)
            case "snoozed":
                row.where, row.due = "waiting", due
                row.snoozes += 1
                self.happened[row.queue, "rescheduled"] += 1
            case "returned":
                row.where = "waiting"

    def go(self, owner: int, now: int) -> None:
        """The owner has died or left. What it had started was an attempt, what it held was not."""
        for row in self.held(owner):
            if row.started:
                self.fail_attempt(row, row.due, now)
            else:
                row.where = "waiting"

    def kick(self, job_id: int, now: int) -> bool:
        row = self.rows[job_id]
        if row.where == "running":
            return False
        if row.where == "failed":
            row.where, row.due, row.attempts, row.failed_at = "waiting", now, 0, None
            if row.key is not None:
                holder = self.keys.setdefault((row.queue, row.key), row.id)
                row.key = row.key if holder == row.id else None
        else:
            row.due = min(row.due, now)
        return True
