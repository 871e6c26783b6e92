"""What happens in one run, as a list of steps: each has its own seed, and means something alone.

So a script from which steps were taken out is a script, which is how a
failure is made short.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import get_args

from tests.sim.disk import Fault, Kind, When

PROCESS_COUNT = 4

COMMANDS = {"put": 30, "work": 30, "change": 10, "expire": 6, "late": 3, "tick": 8}
"""What a process asks of the store, and how often."""

EVENTS = {
    "clock": 6,
    "kill": 4,
    "stop": 4,
    "stop_all": 1,
    "upkeep": 5,
    "power": 2,
    "damage": 1,
    "full": 1,
    "write_back": 1,
}

FAULT_KINDS: dict[Kind, int] = {"kill": 9, "power": 4, "EIO": 4, "ENOSPC": 3}


@dataclass(frozen=True)
class Step:
    """One thing that a process does, or that befalls the machine."""

    number: int
    kind: str
    process: int
    seed: int
    fault: Fault | None = None
    meanwhile: Step | None = None
    """Done by another process while this one calls the disk, at call *meanwhile_at*."""
    meanwhile_at: int = 0

    def __str__(self) -> str:
        text = f"{self.number:5} {self.kind} by {self.process}"
        if self.fault is not None:
            text += f", {self.fault}"
        if self.meanwhile is not None:
            inner = str(self.meanwhile).split(maxsplit=1)[1]
            text += f"; at disk call {self.meanwhile_at}: {inner}"
        return text


def make_script(seed: int, step_count: int) -> list[Step]:
    """The steps that *seed* stands for."""
    random = Random(seed)
    faults = random.choice([0.02, 0.08, 0.2])  # quiet worlds live long, wild ones die often
    return [_make_step(random, number, faults) for number in range(step_count)]


def choose(random: Random, weights: dict[str, int]) -> str:
    return random.choices(list(weights), list(weights.values()))[0]


def pick_steps(script: Iterable[Step], numbers: Iterable[int] | None) -> list[Step]:
    """The steps with these *numbers*; None: all."""
    if numbers is None:
        return list(script)
    kept = set(numbers)
    return [step for step in script if step.number in kept]


def _make_step(random: Random, number: int, faults: float) -> Step:
    kind = choose(random, COMMANDS | EVENTS)
    process = random.randrange(PROCESS_COUNT)
    meanwhile = None
    if random.random() < 0.15:
        other = (process + random.randrange(1, PROCESS_COUNT)) % PROCESS_COUNT
        fault = _make_fault(random) if random.random() < faults else None
        meanwhile = Step(number, choose(random, COMMANDS), other, random.getrandbits(32), fault)
    return Step(
        number,
        kind,
        process,
        random.getrandbits(32),
        _make_fault(random) if random.random() < faults else None,
        meanwhile,
        _call_number(random),
    )


def _make_fault(random: Random) -> Fault:
    kind = random.choices(list(FAULT_KINDS), list(FAULT_KINDS.values()))[0]
    when: When = random.choice(get_args(When))
    return Fault(_call_number(random), kind, when)


def _call_number(random: Random) -> int:
    # A put takes about four calls; to open, to recover and to make a checkpoint, many more.
    return random.randrange(random.choice([3, 6, 6, 20, 60]))
