"""A disk without space: a worker keeps its outcomes, and settles each once when there is some."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

import bide
from bide.errors import StoreFull
from bide.jobs.app import App
from bide.model import commands as c
from bide.testing.clock import ManualClock
from bide.worker.worker import WorkerSummary
from tests.mounts import run_on_small_disk
from tests.worker.conftest import MakeApp
from tests.worker.running import PATIENCE_S, Running, Watched, attempts, state, wait


def fill(watched: Watched) -> None:
    watched.refusal = StoreFull("jobs: no space left on the device", path="jobs")


def wait_for_refusals(watched: Watched, count: int = 3) -> None:
    goal = watched.refused_count + count
    watched.wait_until(lambda: watched.refused_count >= goal)


class Gate:
    """A task that waits to be let on, and what its runs were."""

    def __init__(self, app: App, count: int) -> None:
        self.runs: Counter[int] = Counter()
        self.started = threading.Barrier(count + 1)
        self.release = threading.Event()
        self.task = app.task(name="gate", timeout=None, retry_backoff=60, retry_jitter=0)(self._run)

    def _run(self, ctx: bide.Context, number: int) -> object:
        self.runs[number] += 1
        self.started.wait(PATIENCE_S)
        wait(self.release)
        match number:
            case 1:
                return bide.Snooze(60)
            case 2:
                return bide.Cancel()
            case 3:
                raise ValueError("it failed")
            case _:
                return None


def test_outcomes_are_kept_and_each_is_settled_once_when_there_is_space(
    make_app: MakeApp, any_url: str, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    app, watched = make_app(any_url, clock)
    gate = Gate(app, 5)
    handles = [gate.task.enqueue(number) for number in range(5)]
    with caplog.at_level(logging.INFO, "bide.worker"), Running(app, threads=5) as running:
        gate.started.wait(PATIENCE_S)
        fill(watched)
        gate.release.set()
        wait_for_refusals(watched)
        assert watched.settled == []
        assert {state(handle) for handle in handles} == {bide.State.RUNNING}
        (record,) = caplog.records  # said once, not at each try
        assert record.levelname == "ERROR"
        assert "no space left" in record.message
        watched.refusal = None
        watched.wait_until(lambda: len(watched.settled) == 5)
        running.stop()
        assert running.end() == WorkerSummary(succeeded=2, snoozed=1, cancelled=1, retried=1)
    assert [r.message for r in caplog.records if "space" in r.message][1:] == [
        "the store has space again"
    ]
    assert gate.runs == Counter(range(5))
    assert Counter(s.id for s in watched.settled) == Counter(handle.id for handle in handles)
    assert [attempts(handles[number]) for number in (1, 3)] == [0, 1]
    app.cancel(handles[1].id)
    app.cancel(handles[3].id)


def test_each_time_that_it_is_full_is_told(
    make_app: MakeApp, any_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app, watched = make_app(any_url)
    app.task(name="task")(lambda: None)
    with caplog.at_level(logging.INFO, "bide.worker"), Running(app):
        for count in range(1, 4):
            fill(watched)
            wait_for_refusals(watched)
            watched.refusal = None
            app.tasks["task"].enqueue()
            watched.wait_for_settled(c.Completed, count)
    levels = [record.levelname for record in caplog.records]
    assert levels == ["ERROR", "INFO"] * 3


def test_jobs_wait_for_space_and_lose_no_attempt(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    seen: list[int] = []

    @app.task
    def task(ctx: bide.Context) -> None:
        seen.append(ctx.attempt)

    fill(watched)
    with Running(app) as running:
        handles = [task.enqueue() for _ in range(10)]
        wait_for_refusals(watched)
        assert {state(handle) for handle in handles} == {bide.State.READY}
        watched.refusal = None
        watched.wait_until(lambda: len(watched.settled) == 10)
        running.stop()
        assert running.end() == WorkerSummary(succeeded=10)
    assert seen == [1] * 10


def test_limits_are_kept_while_it_is_full(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    started, over = threading.Event(), threading.Event()

    @app.task(timeout=10, max_retries=0)
    def spin() -> None:
        try:
            started.set()
            while True:
                pass
        finally:
            over.set()

    handle = spin.enqueue()
    with Running(app, threads=2) as running:
        wait(started)
        fill(watched)
        wait_for_refusals(watched)
        clock.advance(10)
        wait(over)
        watched.refusal = None
        watched.wait_for_settled(c.Retried, 1)
        running.stop()
        assert running.end() == WorkerSummary(failed=1)
    assert state(handle) is bide.State.FAILED


# ---------------------------------------------------------------- while it comes to its end


def test_a_worker_stopped_while_it_is_full_settles_what_it_has_once_there_is_space(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    gate = Gate(app, 1)
    handle = gate.task.enqueue(0)
    with Running(app) as running:
        gate.started.wait(PATIENCE_S)
        fill(watched)
        running.stop()
        gate.release.set()
        watched.wait_until(lambda: watched.refused_count >= 1)
        watched.refusal = None
        assert running.end() == WorkerSummary(succeeded=1)
    assert state(handle) is None


def test_a_worker_that_finds_no_space_until_its_drain_timeout_says_so_and_loses_no_job(
    make_app: MakeApp, any_url: str, clock: ManualClock
) -> None:
    app, watched = make_app(any_url, clock)
    gate = Gate(app, 1)
    handle = gate.task.enqueue(0)
    with ExitStack() as stack:
        running = stack.enter_context(Running(app, drain_timeout_s=30))
        gate.started.wait(PATIENCE_S)
        fill(watched)
        running.stop()
        watched.wait_for_looks()  # its time counts from when it notices
        gate.release.set()
        watched.wait_until(lambda: watched.refused_count >= 1)
        clock.advance(29)
        watched.wait_for_looks()
        assert running.error is None
        clock.advance(1)
        watched.wait_for_looks()
        clock.advance(1.001)
        with pytest.raises(StoreFull, match="no space left"):
            running.end()
    watched.refusal = None
    assert (state(handle), attempts(handle)) == (bide.State.READY, 1)
    handle.cancel()


# ---------------------------------------------------------------- on a disk that is full indeed

ON_A_SMALL_DISK = """
import logging, sys, threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import bide
from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker

disk = Path(sys.argv[1])
app = bide.App((disk / "store").as_uri())
runs, said = Counter(), Counter()
started, full, refused = threading.Event(), threading.Event(), threading.Event()

class Said(logging.Handler):
    def emit(self, record):
        said[record.levelname] += "space" in record.getMessage()
        if said["ERROR"]:
            refused.set()

@app.task(timeout=None, max_retries=0)
def task(number):
    runs[number] += 1
    started.set()
    assert full.wait(30)
    raise ValueError(str(number) * 4_000)  # kept, so that each end takes space

def fill_and_empty():
    assert started.wait(30)
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            full.set()
    assert refused.wait(30)
    print(app.stats().queues[0].failed_total < 500)
    (disk / "ballast").unlink()

logger = logging.getLogger("bide.worker")
logger.addHandler(Said())
logger.setLevel(logging.INFO)
logger.propagate = False
app.enqueue_many(task.request(number) for number in range(500))
filling = threading.Thread(target=fill_and_empty)
filling.start()
print(Worker(app, WorkerOptions(threads=4, burst=True)).run())
filling.join()
stats = app.stats()
print(stats.queues[0].failed_total, stats.queues[0].failed, len(stats.owners))
print(len(runs), set(runs.values()), said["ERROR"] == said["INFO"] >= 1)
"""


def test_a_worker_waits_out_a_disk_without_a_byte_left(tmp_path: Path) -> None:
    done = run_on_small_disk(tmp_path, 16 << 20, "-c", ON_A_SMALL_DISK, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "True",
        str(WorkerSummary(failed=500)),
        "500 500 0",
        "500 {1} True",
    ]
