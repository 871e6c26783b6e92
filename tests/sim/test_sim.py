"""Simulated worlds keep every promise; and a store that breaks one is caught."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bide.storage import checkpoint, recovery, upkeep
from bide.storage.directory import Directory
from bide.storage.log import SegmentLog
from bide.storage.store import Store
from tests.sim.running import run, shrink

SEEDS = range(25)
FRESH_COUNT = 8
STEPS = 200


@pytest.mark.parametrize("seed", SEEDS)
def test_a_world_keeps_every_promise(seed: int) -> None:
    failure = run(seed, STEPS)
    assert failure is None, failure


@pytest.mark.parametrize("number", range(FRESH_COUNT))
def test_a_fresh_world_keeps_every_promise(number: int) -> None:
    seed = random.SystemRandom().getrandbits(32)
    failure = run(seed, STEPS)
    assert failure is None, f"replay: make sim SEED={seed} STEPS={STEPS}: {failure}"


# ---------------------------------------------------------------- a bug on purpose

Patch = Callable[[pytest.MonkeyPatch], None]


def answers_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "_sync_to", lambda self, end: None)


def syncs_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SegmentLog, "_sync_segment", lambda self, end: None)


def vouches_for_what_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    append = SegmentLog.append

    def boasting(self: SegmentLog, body: bytes, at: Any, now_ms: int) -> Any:
        self._synced = at.end
        return append(self, body, at, now_ms)

    patch.setattr(SegmentLog, "append", boasting)


def trims_before_the_checkpoint_is_in_force(patch: pytest.MonkeyPatch) -> None:
    def too_far(bases: Sequence[int], **_: Any) -> int:
        return bases[-1]

    patch.setattr(upkeep, "first_kept", too_far)
    patch.setattr(checkpoint, "put_in_force", lambda disk, new, head: new)


def trusts_the_index_after_a_power_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Directory, "is_index_good", lambda self, state: True)


def forgets_a_record(patch: pytest.MonkeyPatch) -> None:
    apply_record = recovery.apply_record
    count = [0]

    def forgetful(*args: Any) -> None:
        count[0] += 1
        if count[0] % 7:
            apply_record(*args)

    patch.setattr(recovery, "apply_record", forgetful)


def names_a_checkpoint_before_it_is_on_the_disk(patch: pytest.MonkeyPatch) -> None:
    seal = checkpoint.seal

    class Hasty:
        def __init__(self, disk: Any) -> None:
            self._disk = disk

        def __getattr__(self, name: str) -> Any:
            return (lambda fd: None) if name == "sync" else getattr(self._disk, name)

    patch.setattr(checkpoint, "seal", lambda disk, fd, **rest: seal(Hasty(disk), fd, **rest))


def ignores_a_failed_sync(patch: pytest.MonkeyPatch) -> None:
    sync = SegmentLog._sync_segment

    def ignoring(self: SegmentLog, end: int) -> None:
        with contextlib.suppress(Exception):  # the bug
            sync(self, end)

    patch.setattr(SegmentLog, "_sync_segment", ignoring)


BUGS: Sequence[Patch] = (
    answers_before_the_sync,
    syncs_nothing,
    vouches_for_what_is_not_synced,
    trims_before_the_checkpoint_is_in_force,
    trusts_the_index_after_a_power_cut,
    forgets_a_record,
    names_a_checkpoint_before_it_is_on_the_disk,
    ignores_a_failed_sync,
)
SEEDS_TO_CATCH = 150


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_bug_is_caught(bug: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    assert any(run(seed, STEPS) for seed in range(SEEDS_TO_CATCH)), "nobody has seen it"


def test_a_failure_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    trusts_the_index_after_a_power_cut(monkeypatch)
    failure = next(found for seed in range(SEEDS_TO_CATCH) if (found := run(seed, STEPS)))
    short = shrink(failure)
    assert len(short.numbers) < len(failure.numbers) / 3
    again = run(short.seed, short.step_count, short.numbers)
    assert again is not None
    assert again.text == short.text
