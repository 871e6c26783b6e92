"""One process of the simulated machine: a store of its own, and maybe a worker."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bide.model import commands as c
from bide.model.job import JobId, JobRef, Lease, NewJob, OwnerId
from bide.storage.log_files import Position
from bide.storage.parts import Parts
from bide.storage.recovery import position_of
from bide.storage.store import Store
from bide.storage.tables import Environment
from bide.storage.upkeep import Upkeep
from tests.sim.disk import ProcessDisk
from tests.sim.machine import PATH, Machine, SimDirectory
from tests.unit.storage.histories import new_job

QUEUES = ("mail", "mail2", "a")
KEYS = ("k", "kk", "\N{SNOWMAN}")
DELAYS_MS = (-1_000, 0, 0, 1, 1_000, 60_000, 3_600_000, 40 * 86_400_000)


class Process:
    """From its start to its death.

    Args:
        on_opened: Told of the index and its position whenever the store was opened.
        on_recovered: The same, of an index made anew.
    """

    def __init__(
        self,
        machine: Machine,
        disk: ProcessDisk,
        *,
        on_opened: Callable[[Environment, Position], None],
        on_recovered: Callable[[Environment, Position], None],
    ) -> None:
        self.disk = disk
        self.directory = SimDirectory(machine, disk, on_recovered)
        self._on_opened = on_opened
        self.store = Store(self._open_parts, path=str(PATH))
        self.upkeep = Upkeep(self.directory, self.store, lambda: 0, lambda: 0.0)
        self.owner: OwnerId | None = None
        self.leases: dict[int, Lease] = {}
        self.started: set[tuple[int, int]] = set()
        """Its board: the runs that have begun."""

    @property
    def is_open(self) -> bool:
        return self.store._parts is not None and self.store._broken is None

    def _open_parts(self) -> Parts:
        parts = self.directory.open_parts()
        self._on_opened(parts.environment, position_of(parts.environment))
        return parts


# ---------------------------------------------------------------- what processes ask for


def make_put(random: Random, now_ms: int, name: str) -> c.Put:
    """Jobs to put, each with arguments that no other job has."""
    count = random.choice([1, 1, 1, 2, 4, 9])
    return c.Put(tuple(_make_job(random, now_ms, f"{name}.{index}") for index in range(count)))


def _make_job(random: Random, now_ms: int, name: str) -> NewJob:
    size = random.choice([0, 0, 0, 40, 600, 1500])
    return new_job(
        name.encode() + bytes(size),
        queue=random.choice(QUEUES),
        due_ms=now_ms + random.choice(DELAYS_MS),
        priority=random.choice([0, 0, 0, -5, 7]),
        key=random.choice(KEYS) if random.random() < 0.4 else None,
        on_conflict=random.choice(["raise", "skip", "replace"]),
        max_retries=random.randrange(3),
    )


def make_outcome(random: Random, now_ms: int) -> c.Outcome:
    due_ms = now_ms + random.choice(DELAYS_MS)
    completed = c.Completed()
    outcomes: list[c.Outcome] = [
        *(completed, completed, completed, completed, c.Dropped()),
        *(c.Retried(due_ms, "no"), c.Retried(due_ms, "no"), c.Exhausted("no")),
        *(c.Snoozed(due_ms), c.Returned()),
    ]
    return random.choice(outcomes)


def make_change(random: Random, now_ms: int, newest_id: int) -> c.Command:
    """A cancel, a move or a kick, of a job that may be there."""

    def ref() -> JobRef:
        if random.random() < 0.4:
            return JobRef(queue=random.choice(QUEUES), key=random.choice(KEYS))
        return JobRef(id=JobId(max(1, newest_id - random.randrange(30))))

    match random.randrange(3):
        case 0:
            return c.Cancel((ref(), ref()))
        case 1:
            due_ms = random.choice([None, now_ms + random.choice(DELAYS_MS)])
            return c.Move((c.Change(ref(), due_ms, random.choice([None, 3])),))
        case _:
            return c.Kick((ref(), ref()))
