"""Runs of worlds, and failures made short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.sim.script import make_script, pick_steps
from tests.sim.world import World

STEPS = 400
TRIES_MAX = 300
"""Runs that a failure is made shorter by, at most."""


@dataclass(frozen=True)
class Failure:
    """A promise that was broken in a world."""

    seed: int
    step_count: int
    numbers: tuple[int, ...]
    """The steps of the script that lead to it."""
    text: str
    told: tuple[str, ...]
    """What happened, step by step."""


def run(seed: int, step_count: int = STEPS, numbers: Sequence[int] | None = None) -> Failure | None:
    """Run the script of *seed*, or those of its steps; None if every promise was kept."""
    told: list[str] = []
    script = pick_steps(make_script(seed, step_count), numbers)
    try:
        World(told.append).run(script)
    except Exception as error:  # noqa: BLE001  whatever it is, no promise names it
        kept = tuple(step.number for step in script)
        text = f"{type(error).__name__}: {error}"
        return Failure(seed, step_count, kept, text, tuple(told))
    return None


def shrink(failure: Failure) -> Failure:
    """The shortest script found that still fails, by leaving out ever smaller parts."""
    best, tries = failure, 0
    size = len(best.numbers) // 2
    while size and tries < TRIES_MAX:
        start = 0
        while start < len(best.numbers) and tries < TRIES_MAX:
            tries += 1
            rest = best.numbers[:start] + best.numbers[start + size :]
            shorter = run(failure.seed, failure.step_count, rest)
            if shorter is None:
                start += size
            else:
                best = shorter
        size //= 2
    return best
