"""SIGKILL of a worker exactly between two steps: no job is lost, none doubled, none miscounted."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

import bide
from tests.crash.app import have_family, note, nothing
from tests.crash.dying import POINTS
from tests.crash.processes import Child, check_store, completions, wait_until_gone, worker

SOON_NS = 1_000_000_000

RUNS = {
    "reserving": [1],
    "reserved": [1],
    "starting": [1],
    "started": [2],  # it may have begun: that is an attempt, though here it told of none
    "settling": [1, 2],  # it ran, and its end was not stored
    "settled": [1],
}
"""The attempts of the first job that are told of, by where its first worker dies."""


def put_notes(app: bide.App, count: int) -> list[bide.Handle]:
    """Jobs of task *note*, numbered from 0."""
    task = app.task(name=note.name, max_retries=note.options.max_retries)(note.function)
    return app.enqueue_many(task.request(number, 0) for number in range(count))


def runs(lines: list[list[str]]) -> dict[int, list[int]]:
    """The attempts that were told of, by the jobs' numbers."""
    found: dict[int, list[int]] = {}
    for words in lines:
        if words[0] == "start":
            found.setdefault(int(words[1]), []).append(int(words[3]))
    return found


def check_done(path: Path, count: int) -> None:
    """Each job was settled as done, once, and nothing is left."""
    done = Counter(completions(path))
    assert len(done) == count
    assert max(done.values()) == 1
    with bide.App(path.as_uri()) as app:
        stats = app.stats()
        assert stats.owners == ()
        (queue,) = stats.queues
        assert (queue.waiting, queue.running, queue.failed, queue.failed_total) == (0, 0, 0, 0)
        assert queue.succeeded_total == count
    check_store(path)


def test_every_point_has_an_expectation() -> None:
    assert set(RUNS) == set(POINTS)


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_at_a_step_neither_loses_nor_doubles_its_job(
    tmp_path: Path, point: str
) -> None:
    path = tmp_path / "store"
    with bide.App(path.as_uri()) as app:
        put_notes(app, 3)
    dying = Child(path, "tests.crash.dying", point, "--threads", "1")
    lines = dying.rest()
    assert dying.process.returncode == -signal.SIGKILL, "it did not come to that point"
    other = worker(path, "--burst", "--threads", "1")
    lines += other.rest()
    assert other.process.returncode == 0
    assert runs(lines) == {0: RUNS[point], 1: [1], 2: [1]}
    check_done(path, 3)


def test_jobs_that_a_killed_worker_only_held_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with bide.App(path.as_uri()) as app:
        put_notes(app, 20)
    dying = Child(path, "tests.crash.dying", "reserved", "--threads", "16")
    assert runs(dying.rest()) == {}
    with bide.App(path.as_uri()) as app:
        assert app.stats().queues[0].running == 16
    lines = worker(path, "--burst", "--threads", "1").rest()
    assert runs(lines) == {number: [1] for number in range(20)}
    check_done(path, 20)


def test_a_job_finished_by_a_worker_that_died_is_never_reported_failed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with bide.App(path.as_uri()) as app:
        task = app.task(name=nothing.name, max_retries=0)(nothing.function)
        handle = task.enqueue()
        dying = Child(path, "tests.crash.dying", "settled", "--threads", "1")
        dying.rest()
        assert dying.process.returncode == -signal.SIGKILL
        other = worker(path, "--burst")
        assert "0 succeeded, 0 failed, 0 retried" in " ".join(other.rest()[-1])
        assert handle.get() is None
        assert app.jobs(bide.State.FAILED).jobs == ()
    check_done(path, 1)


@pytest.mark.parametrize("whole_group", [False, True])
def test_a_killed_workers_job_runs_again_within_a_second(
    tmp_path: Path, *, whole_group: bool
) -> None:
    path = tmp_path / "store"
    with bide.App(path.as_uri()) as app:
        task = app.task(name=have_family.name)(have_family.function)
        first = worker(path, "--threads", "1", new_session=True)
        task.enqueue(7)
        (started,) = first.read_starts(1)
        other = worker(path, "--threads", "1")
        (handle,) = put_notes(app, 1)
        wait_until_gone(handle)  # the other has run it, since the first is busy
        killed_ns = time.monotonic_ns()
        if whole_group:
            os.killpg(first.pid, signal.SIGKILL)
        else:  # the process that its task has started lives on, and holds nothing of the worker's
            first.kill()
        assert other.read_starts(1)[0][1:3] == ["0", str(handle.id)]
        (again,) = other.read_starts(1)
        assert int(again[5]) - killed_ns < SOON_NS
        assert again[1:3] == started[1:3]
        assert (started[3], again[3]) == ("1", "2")
        first.rest()
        other.stop()
