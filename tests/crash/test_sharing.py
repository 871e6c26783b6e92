"""Processes that share one directory, each of them putting and working."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from tests.crash.processes import Child, check_store, completions, worker

PROCESSES = 8
EACH = 120


def numbers_of(lines: list[list[str]], word: str) -> Counter[int]:
    return Counter(int(words[1]) for words in lines if words[0] == word)


def check_each_ran_once(path: Path, lines: list[list[str]], count: int) -> None:
    """What was accepted is *count* jobs, and each of them started, ended and counted once."""
    jobs = {words[2] for words in lines if words[0] == "put"}
    assert len(jobs) == count, "an id was given twice"
    accepted = numbers_of(lines, "put")
    assert len(accepted) == count
    for word in ("start", "end"):
        assert numbers_of(lines, word) == accepted
    assert {words[3] for words in lines if words[0] == "start"} == {"1"}
    assert Counter(completions(path)) == Counter(int(job) for job in jobs)
    check_store(path)


def test_eight_processes_put_and_work_and_none_loses_doubles_or_meets_an_error(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    with (tmp_path / "stderr").open("wb") as stderr:
        children = [
            Child(path, "tests.crash.both", str(index * 10_000), str(EACH), stderr=stderr)
            for index in range(PROCESSES)
        ]
        lines = list(itertools.chain.from_iterable(child.rest() for child in children))
    assert (tmp_path / "stderr").read_text(encoding="utf-8") == ""
    assert [child.process.returncode for child in children] == [0] * PROCESSES
    lines += worker(path, "--burst").rest()
    lines = [words for words in lines if words[0] != "bide"]
    check_each_ran_once(path, lines, PROCESSES * EACH)


@pytest.mark.parametrize("way", ["os.fork", "fork", "spawn", "forkserver"])
def test_a_server_forks_its_workers_after_it_has_used_the_app(tmp_path: Path, way: str) -> None:
    """All of master, its busy threads and its children put, and the children work."""
    path = tmp_path / "store"
    with (tmp_path / "stderr").open("wb") as stderr:
        master = Child(path, "tests.crash.prefork", way, stderr=stderr)
        lines = master.rest()
    assert (tmp_path / "stderr").read_text(encoding="utf-8") == ""
    assert master.process.returncode == 0
    told = {words[0]: int(words[1]) for words in lines if words[0] in {"children", "threads"}}
    assert told["children"] > 0
    assert told["threads"] > 0, "no thread used the App while children were made"
    lines += worker(path, "--burst").rest()
    accepted = numbers_of(lines, "put")
    lines = [words for words in lines if words[0] in {"put", "start", "end"}]
    check_each_ran_once(path, lines, accepted.total())
