"""A task that forks, among the other threads of its worker."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import bide
from bide.model import commands as c
from bide.worker.worker import WorkerSummary
from tests.crash.processes import Child
from tests.unit.storage.children import GUARD_S, fork
from tests.worker.conftest import MakeApp
from tests.worker.forking import have_child
from tests.worker.running import Running, burst, wait

CHILDREN = 8

one_at_a_time = threading.Lock()


@pytest.fixture(autouse=True)
def processes_end() -> Iterator[None]:
    """Kill what a test that failed has left running."""
    yield
    while Child.running:
        Child.running.pop().kill()


def by_fork(work: Callable[[], object]) -> int:
    """Do *work* in a child made by `os.fork`; its exit code."""
    pid = fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(GUARD_S)
            work()
            code = 0
        except BaseException:  # noqa: BLE001  told, and the exit code says it
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def by_multiprocessing(work: Callable[[], object]) -> int:
    """The same by `multiprocessing`."""
    with one_at_a_time:  # each start waits for the children of other threads, and takes their ends
        process = multiprocessing.get_context("fork").Process(target=work)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        process.join(GUARD_S)
        code = process.exitcode
    assert code is not None, "the child hangs"
    process.close()
    return code


EACH_WAY = pytest.mark.parametrize("way", [by_fork, by_multiprocessing])


@EACH_WAY
def test_child_and_worker_go_on_while_other_threads_run_and_settle(
    make_app: MakeApp, url: str, way: Callable[[Callable[[], object]], int]
) -> None:
    app, watched = make_app(url + "?sync=never")
    ran: Counter[str] = Counter()
    codes: list[int] = []

    @app.task
    def note(name: str) -> None:
        ran[name] += 1

    @app.task(max_retries=0)
    def fork_one(number: int) -> None:
        def work() -> None:
            for turn in range(3):
                note.enqueue(f"child {number}.{turn}")
            assert app.stats().queues

        codes.append(way(work))
        note.enqueue(f"parent {number}")

    for number in range(CHILDREN):
        fork_one.enqueue(number)
        app.enqueue_many(note.request(f"other {number}.{turn}") for turn in range(100))
    summary = burst(app, threads=4)
    assert summary == WorkerSummary(succeeded=CHILDREN * (1 + 100 + 3 + 1))
    assert codes == [0] * CHILDREN
    assert set(ran.values()) == {1}
    assert len(ran) == CHILDREN * (100 + 3 + 1)
    assert set(Counter(watched.settled_as(c.Completed)).values()) == {1}


def test_a_child_of_a_task_may_run_a_worker_of_its_own(url: str) -> None:
    pids: list[int] = []
    with bide.App(url) as app:

        @app.task(queue="parent", max_retries=0)
        def parent() -> None:
            pids.append(os.getpid())
            child.enqueue()
            assert by_fork(work) == 0

        @app.task(queue="child", max_retries=0)
        def child() -> None:
            assert [os.getpid()] != pids

        def work() -> None:
            assert burst(app, threads=2, queues=("child",)) == WorkerSummary(succeeded=1)

        parent.enqueue()
        assert burst(app, threads=2, queues=("parent",)) == WorkerSummary(succeeded=1)
        assert app.stats().owners == ()


def test_a_killed_workers_job_runs_again_though_the_child_of_its_task_lives(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store"
    attempts: list[int] = []
    done = threading.Event()
    with bide.App(path.as_uri()) as app:

        @app.task(name=have_child.name, retry_backoff=0)
        def note_attempt(ctx: bide.Context) -> None:
            attempts.append(ctx.attempt)
            done.set()

        note_attempt.enqueue()
        worker = Child(path, "bide.cli", "worker", "tests.worker.forking:app", "-q", "default")
        while (words := worker.read(1)[0])[0] != "child":
            pass
        pid = int(words[1])
        worker.kill()
        try:
            with Running(app, threads=1):
                wait(done)
            os.kill(pid, 0)  # it lives
        finally:
            os.kill(pid, signal.SIGKILL)
        worker.rest()
    assert attempts == [2]
