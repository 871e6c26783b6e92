"""Backup, compaction and a follower beside processes that put and work; and kills in between."""

from __future__ import annotations

import random
from pathlib import Path

import bide
from tests.crash.processes import Child, check_store, putter, worker
from tests.crash.test_kill import stored


def care(path: Path, *args: str) -> None:
    child = Child(path, "bide.cli", *args)
    child.rest()
    assert child.process.returncode == 0, args


def test_a_backup_of_a_busy_store_is_one_of_its_states(tmp_path: Path) -> None:
    path, file, new = tmp_path / "store", tmp_path / "file", tmp_path / "new"
    putters = [putter(path, first, 1) for first in (0, 1_000_000)]
    said = [words for child in putters for words in child.read(200)]
    pairs = {(int(number), int(job_id)) for number, job_id in said}
    accepted = {pair for pair in pairs if pair[0] % 3}  # the others are due at once, and run
    working = worker(path)
    for number in range(3):
        care(path, "backup", str(file.with_suffix(f".{number}")))
        care(path, "compact")
    after = [words for child in putters for words in child.read(20)]
    assert after
    for child in putters:
        child.kill()
        child.rest()
    working.stop()
    everything = {pair for pair in stored(path) if pair[0] % 3}
    for number in range(3):
        care(new, "restore", str(file.with_suffix(f".{number}")))
        restored = {pair for pair in stored(new) if pair[0] % 3}
        assert accepted <= restored
        last = max(job_id for _, job_id in restored)
        assert restored == {pair for pair in everything if pair[1] <= last}, "no state of it"
        care(new, "check", str(new))
    check_store_after_restore(new)
    with bide.App(new.as_uri()) as app:
        app.stats()


def check_store_after_restore(path: Path) -> None:
    care(path, "compact")
    care(path, "check", str(path))


def test_a_follower_and_its_leader_killed_at_random_moments(tmp_path: Path) -> None:
    chance = random.Random(5)
    path, copy = tmp_path / "store", tmp_path / "copy"
    first = putter(path, 0, 1)
    first.read(1)
    first.kill()
    first.rest()
    for round_number in range(4):
        putting = putter(path, (round_number + 1) * 1_000_000, 3)
        putting.read(1)
        following = Child(path, "bide.cli", "follow", str(path), str(copy))
        following.read(1)
        putting.read(chance.randrange(1, 300))
        for child in chance.sample([putting, following], 2):
            child.kill()
            child.rest()
    care(path, "follow", "--once", str(path), str(copy))
    care(copy, "check", str(copy))
    care(copy, "promote", str(copy))
    assert stored(copy) == stored(path)
    check_store(copy)
