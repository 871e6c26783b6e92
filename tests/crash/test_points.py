"""Killed at each call that changes the disk, in turn: what was acknowledged is there, once."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from bide.format.row import decode_u64
from bide.storage.check import check, read_rows
from bide.storage.check import dump_rows as dump
from bide.storage.directory import Directory, open_directory
from bide.storage.disk import OsDisk
from tests.crash.points import IDENTITY, PointDisk, live
from tests.power import forget_boot

EVERY = 7
"""Of the points, one in so many is tried by default; ``--all-points`` tries each."""


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The points of a whole life, by name."""
    disk = PointDisk()
    live(tmp_path_factory.mktemp("whole") / "store", disk, lambda _what, _ids: None)
    return disk.points


def run_to_its_end(path: Path, at: int, how: str) -> tuple[int, dict[str, set[int]]]:
    """How the child that lives in *path* ended, and the ids that it has told of."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read_fd)

            def tell(what: str, ids: list[int]) -> None:
                os.write(write_fd, json.dumps([what, ids]).encode() + b"\n")

            live(path, PointDisk(at, how), tell)
            code = 0
        finally:
            os._exit(code)
    os.close(write_fd)
    told: dict[str, set[int]] = defaultdict(set)
    with os.fdopen(read_fd, "rb") as lines:
        for line in lines:
            what, ids = json.loads(line)
            told[what].update(ids)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), told


def live_ids(directory: Directory, scratch: Path) -> set[int]:
    dump(directory, scratch)
    return {decode_u64(key) for table, key, _ in read_rows(scratch) if table == "jobs"}


def assert_whole(path: Path, told: dict[str, set[int]], scratch: Path, where: str) -> None:
    directory = open_directory(path, create=True, new_identity=IDENTITY)
    parts = directory.open_parts()  # recovers, if need be
    parts.close()
    assert check(directory).faults == (), where
    there = live_ids(directory, scratch)
    assert told["put"] - told["end"] <= there, f"{where}: a job is lost"
    assert not told["ended"] & there, f"{where}: a job that has ended is back"
    left = [name for name in os.listdir(path) if name.endswith(".new")]  # noqa: PTH208
    assert not left, f"{where}: {left} is left"


def points_of(names: list[str], *, every: int) -> list[tuple[int, str]]:
    points = [(at, "before") for at in range(len(names))]
    points += [(at, "within") for at, name in enumerate(names) if name == "write"]
    return points[::every]


@pytest.mark.parametrize("then", ["opened", "power cut"])
def test_killed_at_a_point(
    tmp_path: Path, names: list[str], request: pytest.FixtureRequest, then: str
) -> None:
    assert threading.active_count() == 1, "a fork would leave the others behind"
    assert len(names) > 100
    every = 1 if request.config.getoption("--all-points") else EVERY
    for at, how in points_of(names, every=every):
        path = tmp_path / f"{at}-{how}"
        code, told = run_to_its_end(path, at, how)
        where = f"point {at} ({names[at]}), {how}"
        assert code == -signal.SIGKILL, where
        if then == "power cut" and (path / "state.json").exists():
            forget_boot(path)
        assert_whole(path, told, tmp_path / "rows", where)


def test_the_points_are_all_the_calls_that_change_the_disk() -> None:
    reading = {"open_to_read", "close", "size", "end", "read", "names"}
    changing = {name for name in vars(OsDisk) if not name.startswith("_")} - reading
    assert changing == {name for name in vars(PointDisk) if not name.startswith("_")}
