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


@dataclass
class Channel:
    """A channel of the only topic, t."""

    made: int
    made_before_id: int
    max_retries: int
    dropped: bool = False


class Taken(Exception):
    """A key is held."""


class Plain:
    """All live jobs, who holds which key, and what has happened in each queue."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.happened: Counter[tuple[str, str]] = Counter()
        self.queues: set[str] = set()
        self.paused: set[str] = set()
        self.channels: dict[str, Channel] = {}
        self.prepared: dict[int, list[New]] = {}

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

    def is_served(self, queue: str) -> bool:
        channel = self.channels.get(queue)
        return queue not in self.paused and not (channel and channel.dropped)

    def next_due(self, queues: list[str]) -> int | None:
        """When the next job for *queues* is due, messages for them included."""
        served = [queue for queue in queues if self.is_served(queue)]
        if any(queue in self.channels for queue in served):
            served.append("t:")
        times = [row.due for queue in served for row in self.in_order(queue, due_by=1 << 60)]
        return min(times, default=None)

    # ------------------------------------------------------------ queues and channels

    def purge(self, queue: str, until: tuple[int, int] | None, below: int | None) -> int:
        """Withdraw what waits or has failed; how many that were."""
        gone = [
            row.id
            for row in self.rows.values()
            if (row.queue, row.where != "running") == (queue, True)
            and (until is None or (row.due, row.id) < until)
            and (below is None or row.id < below)
        ]
        for job_id in gone:
            self.remove(job_id, "cancelled")
        return len(gone)

    def spread(self, now: int, next_id: int) -> int:
        """Give each due message to the channels; the id after those of the copies."""
        open_ones = {name: c for name, c in self.channels.items() if not c.dropped}
        for message in self.in_order("t:", due_by=now) if open_ones else []:
            takers = [
                name
                for name, channel in open_ones.items()
                if channel.made <= message.due or channel.made_before_id <= message.id
            ]
            if not takers:
                first = min((c.made_before_id, c.made, name) for name, c in open_ones.items())
                takers = [first[2]]
            self.remove(message.id, "succeeded")
            for name in sorted(takers):
                terms = open_ones[name]
                self.rows[next_id] = Row(
                    next_id, name, None, message.due, message.priority, terms.max_retries
                )
                self.happened[name, "put"] += 1
                next_id += 1
        return next_id

    def make_channel(self, name: str, max_retries: int, now: int, next_id: int) -> int:
        channel = self.channels.get(name)
        if channel is None or channel.dropped:
            self.channels[name] = Channel(now, next_id, max_retries)
            self.queues.add(name)
        else:
            channel.max_retries = max_retries
        return self.spread(now, next_id) if channel is None else next_id

    def drop_channel(self, name: str, now: int, next_id: int) -> tuple[int, int]:
        """How many jobs went, and the next id."""
        if not self.channels[name].dropped:
            next_id = self.spread(now, next_id)
            self.channels[name].dropped = True
            self.paused.discard(name)
        gone = self.purge(name, None, None)
        if not self.count(name, "running"):
            del self.channels[name]
            self.queues.remove(name)
            for counter in [key for key in self.happened if key[0] == name]:
                del self.happened[counter]
        return gone, next_id

    def doomed(self) -> list[str]:
        """The dropped channels that have something to lose, or nothing to wait for."""
        return [
            name
            for name, channel in self.channels.items()
            if channel.dropped
            and (
                self.count(name, "waiting")
                or self.count(name, "failed")
                or not self.count(name, "running")
            )
        ]

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
            self.queues.add(new.queue.removeprefix(":"))
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
        served = [queue for queue in queues if self.is_served(queue)]
        chosen = [row for queue in served for row in self.in_order(queue, due_by=now)][:limit]
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
