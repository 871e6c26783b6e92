"""The crew: a worker that dies is noticed, and none outlives it."""

import signal
import sys
from pathlib import Path

import pytest

import bide
from examples.flights import workers
from examples.flights.workers import Crew, WorkerDied

WAITS = "import threading; print('up', flush=True); threading.Event().wait()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + WAITS


def crew_of(code: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Crew:
    """A crew whose workers run *code* instead."""
    monkeypatch.setattr(workers, "COMMAND", (sys.executable, "-c", code))
    return Crew(directory, {}, bide.ScaledClock(start_ms=5_000, rate=1e-9, origin_ns=0))


def wait_until_up(worker: workers.Worker) -> None:
    while not worker.log.read_text():
        assert worker.process.poll() is None


def test_a_worker_that_ends_by_itself_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with crew_of("raise SystemExit('no such app')", tmp_path, monkeypatch) as crew:
        crew.start().process.wait()
        with pytest.raises(WorkerDied, match=r"worker 1 ended with 1:\n  no such app"):
            crew.check()


def test_a_killed_worker_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with crew_of(WAITS, tmp_path, monkeypatch) as crew:
        worker = crew.start()
        killed = crew.kill(worker)
        crew.check()
        assert (killed.pid, killed.at_ms) == (worker.pid, 5_000)
        assert worker.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "code, number", [(WAITS, signal.SIGTERM), (STUBBORN, signal.SIGKILL)], ids=["asked", "killed"]
)
def test_all_are_stopped_at_the_end(
    code: str, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "STOP_S", 0.1 if number is signal.SIGKILL else 60.0)
    with crew_of(code, tmp_path, monkeypatch) as crew:
        started = [crew.start(), crew.start()]
        for worker in started:
            wait_until_up(worker)
    assert [worker.process.returncode for worker in started] == [-number, -number]
