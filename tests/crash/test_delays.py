"""Delayed jobs over the lives of workers: none is lost, early, late or run twice."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

import bide
from bide.model.job import NewJob
from tests.crash.app import note, take_days
from tests.crash.processes import Child, check_store, completions, read_any, worker
from tests.power import forget_boot

HOUR_S = 3_600
DAY_MS = 86_400_000
DAYS_A_SECOND = 20

SOON_NS = 1_000_000_000


def starts(lines: list[list[str]]) -> list[int]:
    """The numbers of the runs that were told of, in order."""
    return [int(words[1]) for words in lines if words[0] == "start"]


def by_clock(start_ms: int, *, rate: float = 1.0) -> tuple[bide.ScaledClock, dict[str, str]]:
    """A clock, and the environment that gives it to a worker."""
    origin_ns = time.monotonic_ns()
    clock = bide.ScaledClock(start_ms=start_ms, rate=rate, origin_ns=origin_ns)
    return clock, {"CRASH_CLOCK": f"{start_ms},{rate},{origin_ns}"}


def test_delays_and_runs_of_many_days_run_once_with_many_workers(tmp_path: Path) -> None:
    """A worker looks around five times in each real second: that is every fourth day here."""
    path = tmp_path / "store"
    count = 16
    clock, env = by_clock(DAY_MS * 20_000, rate=DAYS_A_SECOND * DAY_MS / 1_000)
    with bide.App(path.as_uri(), clock=clock) as app:
        task = app.task(name=take_days.name, max_retries=0)(take_days.function)
        due: dict[int, int] = {}
        for number in range(count):
            info = task.using(delay=(20 + number) * DAY_MS / 1_000).enqueue(number, 6).get()
            assert info is not None
            due[number] = info.job.due_ms
        workers = [worker(path, "--threads", "4", env=env) for _ in range(4)]
        lines: list[list[str]] = []
        for child in workers:
            lines += child.read(1)
        while sum(words[0] == "end" for words in lines) < count:
            lines.append(read_any(workers))
        for child in workers:
            lines += child.stop()
        assert app.stats().queues[0].succeeded_total == count
    for words in lines:
        if words[0] == "start":
            assert int(words[5]) >= due[int(words[1])], f"job {words[1]} ran early"
            assert words[3] == "1"
    assert sorted(starts(lines)) == list(range(count))
    assert len(set(completions(path))) == len(completions(path)) == count


def test_workers_that_stop_die_and_start_lose_and_repeat_no_delayed_job(tmp_path: Path) -> None:
    path = tmp_path / "store"
    count = 300
    with bide.App(path.as_uri()) as app:
        task = app.task(name=note.name)(note.function)
        for number in range(count):
            request = task.using(delay=HOUR_S + number, priority=number % 3).request(number, 0)
            app.enqueue_many([request], sync="never")
        lines: list[list[str]] = []
        for round_number in range(2):
            workers = [worker(path) for _ in range(4)]
            for child in workers:
                child.read(1)
            for child, number in zip(
                workers,
                (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGKILL),
                strict=True,
            ):
                child.process.send_signal(number)
            for child in workers:
                lines += child.rest()
            stats = app.stats()
            assert stats.queues[0].waiting == count, f"lost in round {round_number}"
            assert stats.owners == ()
        assert starts(lines) == []
        _, env = by_clock(app.clock.now_ms() + 2 * HOUR_S * 1_000)
        workers = [worker(path, "--burst", "--threads", "2", env=env) for _ in range(2)]
        for child in workers:
            lines += child.rest()
        assert sorted(starts(lines)) == list(range(count))
        assert {words[3] for words in lines if words[0] == "start"} == {"1"}
        assert app.stats().queues[0].succeeded_total == count
    done = completions(path)
    assert len(done) == len(set(done)) == count
    check_store(path)


@pytest.mark.parametrize("of_the_machine", [False, True])
def test_after_a_restart_overdue_jobs_run_within_a_second_earliest_first(
    tmp_path: Path, *, of_the_machine: bool
) -> None:
    path = tmp_path / "store"
    chance = random.Random(9)
    count = 50
    with bide.App(path.as_uri()) as app:
        task = app.task(name=note.name)(note.function)
        now_ms = app.clock.now_ms()
        ages_s = chance.sample(range(1, 1_000_000), count)
        app.backend.put(
            [
                NewJob(
                    queue="default",
                    task=task.name,
                    args=task.request(number, 0).args,
                    due_ms=now_ms - age_s * 1_000,
                )
                for number, age_s in enumerate(ages_s)
            ]
        )
        expected = sorted(range(count), key=lambda number: -ages_s[number])
    if of_the_machine:  # the index is then made anew from the log
        forget_boot(path)
        (path / "index-1" / "data.mdb").write_bytes(b"what a power cut has left of it")
    first = worker(path, "--threads", "1")
    first.read(1)  # it says so once it has opened the store, and before it looks for jobs
    up_ns = time.monotonic_ns()
    told = first.read_starts(count)
    assert [int(words[1]) for words in told] == expected
    assert int(told[-1][5]) - up_ns < SOON_NS
    first.stop()
    check_store(path)


def test_a_worker_killed_as_jobs_come_due_leaves_them_to_the_others(tmp_path: Path) -> None:
    """The due times lie close together, so the kill falls among them, and into a run."""
    path = tmp_path / "store"
    count = 200
    with bide.App(path.as_uri()) as app:
        task = app.task(name=note.name, max_retries=100)(note.function)
        workers = [worker(path, "--threads", "2") for _ in range(3)]
        for child in workers:
            child.read(1)
        app.enqueue_many(
            [
                task.using(delay=0.3 + number / 1_000).request(number, 200_000)
                for number in range(count)
            ]
        )
        lines: list[list[str]] = []
        victims: list[Child] = workers[:2]
        for child in victims:
            lines += child.read_starts(1)
            child.kill()
            lines += child.rest()
        while len(set(starts(lines))) < count:
            lines.append(read_any(workers[2:]))
        lines += workers[2].stop()
        worker(path, "--burst").rest()  # what had told of its end, and was killed before it counted
        assert app.stats().queues[0].failed_total == 0
    done = completions(path)
    assert len(done) == len(set(done)) == count
    check_store(path)
