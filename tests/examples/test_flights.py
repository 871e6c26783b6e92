"""The demo as a whole: its processes, its kill, its clock, on days that fit into a test."""

import csv
import gzip
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.flights.data import FILE

ROOT = Path(__file__).parents[2]
LATEST_S = 60


def start(*options: str) -> subprocess.Popen[str]:
    """The demo, with its workers in a process group of their own."""
    return subprocess.Popen(
        [sys.executable, "-m", "examples.flights", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def assert_nothing_runs(group: int) -> None:
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def count_flights(month: int) -> tuple[int, int]:
    """How many the file has in a month, and how many of them were cancelled."""
    with gzip.open(FILE, "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["month"] == str(month)]
    return len(rows), sum(not row["dep_delay_min"] for row in rows)


@pytest.mark.parametrize(
    "month, first, last, kill_at",
    [
        pytest.param(3, "2013-03-09", "2013-03-11", "0.5", id="clocks-forward-killed-at-news"),
        pytest.param(11, "2013-11-02", "2013-11-04", "0.85", id="clocks-back-killed-at-boarding"),
    ],
)
def test_every_flight_boards_once_and_on_time_around_a_change_of_the_clock(
    month: int, first: str, last: str, kill_at: str
) -> None:
    options = ["--first", first, "--last", last, "--seconds", "11", "--kill-at", kill_at]
    with start(*options) as demo:
        output, _ = demo.communicate(timeout=LATEST_S)
    assert demo.returncode == 0, output
    flights, cancelled = count_flights(month)
    (line,) = [line for line in output.splitlines() if line.startswith("flights:")]
    assert line.startswith(
        f"flights: flights={flights} boarded={flights - cancelled} cancelled={cancelled} "
        "lost=0 early=0 settled_twice=0 rerun="
    )
    assert re.search(r" rerun=\d+ lateness p50=\d+\.\d ms p99=\d+\.\d ms \(rerun: runs that", line)
    assert output.count("was killed with SIGKILL") == 1
    assert_nothing_runs(demo.pid)


@pytest.mark.parametrize(
    "number, exit_code", [(signal.SIGINT, 130), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_a_demo_that_is_stopped_stops_its_workers_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with start("--seconds", "600") as demo:
        assert demo.stdout is not None
        assert "boarded 0 of 26,483" in demo.stdout.readline()  # its workers are started by then
        demo.send_signal(number)
        output, _ = demo.communicate(timeout=LATEST_S)
    assert demo.returncode == exit_code, output
    assert "Traceback" not in output
    assert_nothing_runs(demo.pid)
    assert list(tmp_path.iterdir()) == []


def test_what_is_kept_is_where_it_was_asked_for(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with start("--seconds", "600", "--keep", str(kept)) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=LATEST_S)
    assert {"store", "runs", "worker-1.log", "worker-2.log"} == {p.name for p in kept.iterdir()}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--seconds", "0"], "--seconds: use more than 0"),
        (["--kill-at", "2"], "--kill-at: use 0 to 1"),
        (["--first", "2013-06-01", "--last", "2013-06-30"], "the file has no flights from"),
        (["--keep", str(ROOT)], "--keep: name a directory that is not there yet"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options: list[str], message: str) -> None:
    with start(*options) as demo:
        output, _ = demo.communicate(timeout=LATEST_S)
    assert demo.returncode == 2
    assert message in output
