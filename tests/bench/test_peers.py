"""The peers' part of the benchmark: who is measured, who is not and why, and what it says of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from rich.console import Console

from bench.peers import run, services
from bench.peers.catalog import VARIANTS, Variant
from bench.peers.environment import (
    LOCK,
    ROOT,
    WANTED,
    Environment,
    find_reason,
    make_environment,
    read_wanted,
)
from bench.peers.process import DriverFailed, driver_process
from bench.peers.report import GOALS, judge, peer_table, ratio_lines, worker_lines
from bench.peers.run import ACTIONS, Figure, PeerResults, measure_peers
from bench.peers.services import empty_redis, serving

GOOD = """
import threading
from driving import PLACE
from pathlib import Path

JOBS = Path(PLACE.path) / "jobs"

class Peer:
    def put(self):
        with JOBS.open("ab") as file:
            file.write(b".")
    def put_many(self, count):
        raise NotImplementedError
    def work(self):
        never, done = threading.Event(), 0
        while True:
            if done < JOBS.stat().st_size:
                PLACE.count()
                done += 1
            never.wait(0.001)
"""
DRIVERS = {
    "good": GOOD,
    "idle": GOOD.replace("PLACE.count()", "pass"),
    "broken": "raise RuntimeError('no such thing here')",
    "hanging": GOOD.replace("with JOBS", "threading.Event().wait()\n        with JOBS"),
    "dying": GOOD.replace("PLACE.count()", "raise RuntimeError('died at work')"),
    "chatty": GOOD.replace("PLACE.count()", "PLACE.count(); print('well ' * 4_000, flush=True)"),
    "silent": "import os; os._exit(0)",
}
SERVER = """
import pathlib, socket, sys, threading
server = socket.create_server(("127.0.0.1", 0))
def answer():
    while True:
        connection, _ = server.accept()
        connection.recv(64)
        connection.sendall({answer!r})
        connection.close()
threading.Thread(target=answer, daemon=True).start()
print("redis://127.0.0.1:%d/0" % server.getsockname()[1], flush=True)
sys.stdin.read()
pathlib.Path({stopped!r}, pathlib.Path(sys.argv[1]).name).touch()
"""
SERVERS = ["redis-server-0", "redis-server-1"]


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "drivers"
    path.mkdir()
    shutil.copy(run._DRIVERS / "driving.py", path)
    for name, text in DRIVERS.items():
        (path / f"{name}.py").write_text(text)
    monkeypatch.setattr(run, "_DRIVERS", path)
    monkeypatch.setattr(run, "PUT_S", 0.05)
    monkeypatch.setattr(run, "DELAYS_S", 0.2)
    monkeypatch.setattr(run, "_START_S", 1.0)
    return path


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a server that passes for Redis leaves its name when it is stopped."""
    path = tmp_path / "stopped"
    path.mkdir()
    monkeypatch.setattr(services, "_redis", lambda _: [server_command(path)] * 2)
    return path


def server_command(stopped: Path, answer: bytes = b"+OK\r\n") -> list[str]:
    return [sys.executable, "-c", SERVER.format(stopped=str(stopped), answer=answer)]


def variant(driver: str, *needs: str, drained: int = 50) -> Variant:
    return Variant(
        name=f"the {driver} one",
        driver=driver,
        package=driver,
        needs=needs,
        policy="none",
        is_durable=True,
        has_threads=True,
        worker="1 thread",
        drained=drained,
    )


def measure(*variants: Variant) -> PeerResults:
    environment = Environment(
        python=Path(sys.executable), missing={"rare": "no wheel"}, versions={"good": "1.2"}
    )
    return measure_peers(2, lambda _: None, variants=variants, environment=environment)


@pytest.mark.usefixtures("drivers")
def test_each_is_measured_or_told_why_not() -> None:
    results = measure(variant("good"), variant("broken"), variant("idle"), variant("good2", "rare"))
    good = {figure.action: figure for figure in results.figures if figure.name == "the good one"}
    assert set(good) == set(ACTIONS) - {"put_many"}
    for figure in good.values():
        assert len(figure.rounds) == 2
        assert 0 < figure.min <= figure.median <= figure.max
        assert figure.version == "1.2"
    assert good["drain_1"].max <= 1_100  # a job takes a millisecond
    (delay,) = [delay for delay in results.delays if delay.name == "the good one"]
    assert 0 < delay.p50_ms <= delay.p99_ms
    assert delay.count > len(delay.rounds_p50_ms) == 2
    assert results.missing["the good2 one"] == "no wheel"
    assert "no such thing here" in results.missing["the broken one: put"]
    assert "no job ran within" in results.missing["the idle one: drain_1"]
    console = Console(width=200, record=True)
    console.print(peer_table(results))
    assert "no such thing here" in console.export_text()
    assert "worker of the good one: 1 thread" in worker_lines(results)


@pytest.mark.usefixtures("drivers")
def test_one_that_hangs_is_told_once_and_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_CALL_S", 0.5)
    results = measure(variant("hanging"))
    assert results.missing.keys() == {"the hanging one: put"}
    assert results.missing["the hanging one: put"].startswith("not done after ")
    assert not results.figures
    assert not results.delays


@pytest.mark.usefixtures("drivers")
def test_what_a_driver_said_last_is_the_reason() -> None:
    results = measure(variant("dying"), variant("silent"))
    assert results.missing["the dying one: drain_1"] == "work: RuntimeError: died at work"
    assert results.missing["the silent one: put"] == "it ended without an answer"


@pytest.mark.usefixtures("drivers")
def test_a_worker_that_prints_much_is_not_held_up() -> None:
    results = measure(variant("chatty"))
    (figure,) = [figure for figure in results.figures if figure.action == "drain_1"]
    assert figure.min > 20  # a full pipe would let three jobs through in two seconds


# ---------------------------------------------------------------- servers


@pytest.mark.usefixtures("drivers")
def test_servers_are_stopped_when_a_driver_fails(stopped: Path) -> None:
    results = measure(variant("broken", "redis-server"), variant("dying", "redis-server"))
    assert "the broken one: put" in results.missing
    assert sorted(path.name for path in stopped.iterdir()) == SERVERS


def test_servers_are_stopped_by_an_error_in_the_block(stopped: Path, tmp_path: Path) -> None:
    def divide() -> None:
        with serving(server_command(stopped), tmp_path / "place") as url:
            empty_redis(url)
            assert 1 / 0

    with pytest.raises(ZeroDivisionError):
        divide()
    assert [path.name for path in stopped.iterdir()] == ["place"]


@pytest.mark.usefixtures("drivers")
def test_a_server_that_answers_otherwise_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = server_command(tmp_path, answer=b"-ERR no\r\n")
    monkeypatch.setattr(services, "_redis", lambda _: [command] * 2)
    results = measure(variant("good", "redis-server"))
    assert "-ERR no" in results.missing["the good one: put"]


@pytest.mark.usefixtures("drivers")
@pytest.mark.parametrize(
    "code,reason",
    [
        ("import sys; sys.exit(3)", "not started: it ended with 3"),
        ("import sys; sys.stdin.read()", "not started: it did not answer within 0.2 s"),
    ],
)
def test_a_server_that_does_not_start_is_a_reason(
    code: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_redis", lambda _: [[sys.executable, "-c", code]] * 2)
    if "answer" in reason:
        monkeypatch.setattr(services, "_START_S", 0.2)
    results = measure(variant("good", "redis-server"), variant("good"))
    assert results.missing == {"the good one": reason}


# ---------------------------------------------------------------- ends


def test_a_driver_ends_with_the_standard_input_of_who_started_it(drivers: Path) -> None:
    place = {"path": str(drivers), "redis": "", "postgres": "", "is_durable": False}
    (drivers / "jobs").touch()
    document = {**place, "count_path": str(drivers / "count"), "notes_path": ""}
    env = {**os.environ, "PYTHONPATH": str(drivers), "BENCH_PLACE": json.dumps(document)}
    code = "import driving, good; driving.main(good.Peer)"
    command = [sys.executable, "-c", code, "work", "0"]
    with driver_process(command, env, drivers) as process:
        assert process.is_running()
        stdin = process._process.stdin
        assert stdin is not None
        stdin.close()
        with pytest.raises(DriverFailed, match="exit -9"):
            process.done(20)


def test_a_run_that_is_told_to_end_leaves_nothing(
    drivers: Path, stopped: Path, tmp_path: Path
) -> None:
    place = tmp_path / "root"
    place.mkdir()
    code = f"""
    import pathlib, sys
    from bench.peers import run, services
    from tests.bench.test_peers import server_command, variant, measure
    run.ROOT, run._DRIVERS = pathlib.Path({str(place)!r}), pathlib.Path({str(drivers)!r})
    services._redis = lambda _: [server_command(pathlib.Path({str(stopped)!r}))] * 2
    (run._DRIVERS / "hanging.py").write_text("import os, pathlib, threading\\n"
        "os.write(os.open(pathlib.Path(__file__).with_name('begun'), os.O_WRONLY), b'.')\\n"
        "threading.Event().wait()")
    measure(variant("hanging", "redis-server"))
    """
    os.mkfifo(drivers / "begun")
    path = os.pathsep.join([str(ROOT), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, "PYTHONPATH": path}
    ) as process:
        with (drivers / "begun").open("rb", buffering=0) as begun:
            assert begun.read(1) == b"."  # it waits for the driver
        assert list(place.iterdir())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
    assert list(place.iterdir()) == []
    assert sorted(path.name for path in stopped.iterdir()) == SERVERS


# ---------------------------------------------------------------- what is said of it


def made(name: str, action: str, rate: float, *, is_durable: bool = True) -> Figure:
    return Figure(
        name=name,
        version="1",
        policy="",
        is_durable=is_durable,
        is_own=name.startswith("bide"),
        action=action,
        median=rate,
        min=rate,
        max=rate,
        rounds=(rate,),
    )


def test_bide_is_held_against_the_best_that_does_as_much() -> None:
    figures = (
        made("bide, sync=always", "put_16", 600),
        made("bide, sync=never", "put_16", 9_000, is_durable=False),
        made("slow", "put_16", 50),
        made("fast", "put_16", 100),
        made("careless", "put_16", 1_000, is_durable=False),
    )
    (verdict,) = judge(PeerResults(figures=figures, missing={}, took_s=1))
    assert (verdict.value, verdict.best, verdict.reached) == (6, "fast", True)
    (line,) = ratio_lines(PeerResults(figures=figures, missing={}, took_s=1))
    assert line.endswith("6 times; goal: at least 5; reached: yes")


def test_each_goal_names_what_is_measured() -> None:
    for goal in GOALS:
        assert goal.own in {one.name for one in VARIANTS}
        assert goal.action in ACTIONS


def test_each_driver_is_there_and_what_it_needs_is_wanted() -> None:
    wanted = read_wanted(WANTED.read_text())
    for one in VARIANTS:
        assert (run._DRIVERS / f"{one.driver}.py").exists()
        assert set(one.needs) <= set(wanted)


def test_the_lock_holds_what_is_wanted() -> None:
    pins = dict(line.split("==") for line in LOCK.read_text().splitlines() if "==" in line)
    for requirements in read_wanted(WANTED.read_text()).values():
        for requirement in requirements:
            name, _, version = requirement.partition("==")
            assert version == pins.get(name.partition("[")[0], version)  # honker: not everywhere


def test_an_environment_is_made_once_and_says_what_it_lacks(tmp_path: Path) -> None:
    wanted = tmp_path / "peers.txt"
    wanted.write_text("# a comment\nthere: pip\nnothing: ./no-such-directory\n")
    told: list[str] = []
    place, lock = tmp_path / "venv", tmp_path / "peers.lock"
    first = make_environment(told.append, place=place, wanted=wanted, lock=lock)
    assert first.missing.keys() == {"nothing"}
    assert first.versions["pip"]
    assert len(told) == 3
    assert make_environment(told.append, place=place, wanted=wanted, lock=lock) == first
    assert len(told) == 3


def test_no_environment_is_a_reason_for_each(tmp_path: Path) -> None:
    wanted, place = tmp_path / "peers.txt", tmp_path / "a file"
    wanted.write_text("one: pip\ntwo: pip\n")
    place.touch()
    told: list[str] = []
    environment = make_environment(told.append, place=place, wanted=wanted, lock=place)
    assert environment.missing.keys() == {"one", "two"}
    assert all(environment.missing.values())


def test_the_reason_is_what_the_builder_met() -> None:
    assert find_reason("Collecting x\nERROR: No matching distribution for x\n").endswith("for x")
    built = """
      error: subprocess-exited-with-error
        error: failed to get `y` as a dependency of package `x` (/tmp/pip-1)
        download of https://example.invalid/y failed
    error: metadata-generation-failed
    """
    assert find_reason(built) == "error: failed to get `y` as a dependency of package `x`"
    assert find_reason("error: no https://example.invalid/y here") == "error: no  here"
    assert find_reason("all is well") == ""
