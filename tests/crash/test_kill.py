"""SIGKILL at random moments: every accepted job is there once, and runs; none twice at once."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

import bide
from bide import State
from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker
from tests.crash.processes import Child, check_store, completions, putter, worker

FIRST_OF_NEXT = 1_000_000


def stored(path: Path) -> list[tuple[int, int]]:
    """(number, job id) of every job of task *note* in the store."""
    app = bide.App(path.as_uri())

    @app.task(name="tests.crash.app.note")
    def note(number: int, work: int) -> None: ...

    pairs: list[tuple[int, int]] = []
    for state in State:
        after: str | None = None
        while True:
            page = app.jobs(state, limit=1000, after=after)
            assert not page.unreadable
            for info in page.jobs:
                args, kwargs = note.arguments.decode(info.job.args, None)  # type: ignore[arg-type]
                pairs.append((kwargs.get("number", args[0]), info.job.id))
            after = page.next
            if after is None:
                break
    app.close()
    return pairs


@pytest.mark.parametrize("seed", [1, 2])
def test_eight_putters_killed_at_random_moments_lose_and_double_nothing(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    path = tmp_path / "store"
    accepted: list[list[str]] = []
    putters: list[Child] = []
    for index in range(8):
        batch = 1 if index % 2 else 7
        putters.append(putter(path, index * FIRST_OF_NEXT, batch))
    for child in chance.sample(putters, len(putters)):
        accepted += child.read(chance.randrange(1, 400))
        child.kill()
    for child in putters:
        accepted += child.rest()

    pairs = [(int(number), int(job_id)) for number, job_id in accepted]
    kept = stored(path)
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) <= set(kept), "an accepted job is lost"
    numbers = Counter(number for number, _ in kept)
    assert max(numbers.values()) == 1, "a job is there twice"
    # One batch for each process may have been stored and not yet told of.
    assert len(kept) - len(pairs) <= 4 * 7 + 4
    check_store(path)


def test_killed_workers_lose_nothing_and_no_job_runs_twice_at_once(tmp_path: Path) -> None:
    chance = random.Random(3)
    path = tmp_path / "store"
    # More than nine workers can tell of before their pipes are full: each finds some left.
    count = 9_000
    with bide.App(path.as_uri()) as app:

        @app.task(name="tests.crash.app.note", max_retries=100)
        def note(number: int, work: int) -> None: ...

        app.enqueue_many(note.request(number, 10_000) for number in range(count))

    lines: list[list[str]] = []
    killed_ns: dict[int, int] = {}
    workers = [worker(path, "--threads", "3") for _ in range(3)]
    for _ in range(6):
        victim = workers.pop(chance.randrange(len(workers)))
        lines += victim.read(chance.randrange(1, 300))
        killed_ns[victim.pid] = time.monotonic_ns()
        victim.kill()
        lines += victim.rest()
        workers.append(worker(path, "--threads", "3"))
    for child in workers:
        child.process.terminate()
        lines += child.rest()
    last = worker(path, "--burst")
    lines += last.rest()
    assert last.process.returncode == 0

    check_runs(lines, count, killed_ns)
    done = Counter(completions(path))
    assert len(done) == count
    assert max(done.values()) == 1, "a job was settled twice"
    assert not stored(path)
    check_store(path)


def check_runs(lines: list[list[str]], count: int, killed_ns: dict[int, int]) -> None:
    """Each job ran; it ran again only after the kill of the process that had it."""
    runs: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    ends: set[tuple[int, int]] = set()
    for words in lines:
        if words and words[0] in {"start", "end"}:
            number, _, attempt, pid, at_ns = map(int, words[1:])
            if words[0] == "start":
                runs[number].append((at_ns, pid, attempt))
            else:
                ends.add((number, attempt))
    assert set(runs) == set(range(count)), "a job never ran"
    for number, starts in runs.items():
        starts.sort()
        for (_, pid, attempt), (next_ns, _, next_attempt) in pairwise(starts):
            assert pid in killed_ns, f"job {number} was taken from a live worker"
            assert next_ns > killed_ns[pid], f"job {number} ran twice at once"
            assert next_attempt == attempt + 1, f"job {number}: its killed run does not count"
        assert (number, starts[-1][2]) in ends


def test_a_killed_workers_started_job_runs_again_at_once_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with bide.App(path.as_uri()) as app:

        @app.task(name="tests.crash.app.block")
        def block(number: int) -> None: ...

        first = worker(path, "--threads", "1")
        app.enqueue_many(block.request(number) for number in range(3))
        (started,) = first.read_starts(1)
        other = worker(path, "--threads", "4")
        # Two more were due; the first worker has one thread, so the other takes them.
        taken = other.read_starts(2)
        first.kill()
        first.rest()
        (again,) = other.read_starts(1)
        assert again[1:3] == started[1:3]
        assert (started[3], again[3]) == ("1", "2")
        assert {words[3] for words in taken} == {"1"}
        other.process.terminate()
        other.rest()


def test_a_job_that_kills_its_worker_ends_in_the_dead_letter_list(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with bide.App(path.as_uri()) as app:

        @app.task(name="tests.crash.app.fatal", max_retries=2)
        def fatal() -> None: ...

        handle = fatal.enqueue()
        for _ in range(3):
            child = worker(path, "--threads", "1")
            child.rest()
            assert child.process.returncode == -9
        Worker(app, WorkerOptions(burst=True)).run()
        info = handle.get()
        assert info is not None
        assert info.state is State.FAILED
        assert [error.attempt for error in info.job.errors] == [1, 2, 3]
        assert "its worker died" in info.job.errors[-1].text
