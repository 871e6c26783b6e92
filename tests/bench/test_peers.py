"""The peers' part of the benchmark: who is measured, who is not and why, and what it says of it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bench.peers import run
from bench.peers.catalog import VARIANTS, Variant
from bench.peers.environment import WANTED, Environment, make_environment, read_wanted
from bench.peers.report import GOALS, judge, peer_table, ratio_lines
from bench.peers.run import ACTIONS, Figure, PeerResults, measure_peers

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
        never = threading.Event()
        for _ in range(JOBS.stat().st_size):
            PLACE.count()
            never.wait(0.001)
        never.wait(60)
"""
IDLE = GOOD.replace("PLACE.count()", "pass")
BROKEN = "raise RuntimeError('no such thing here')"


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(run._DRIVERS / "driving.py", tmp_path)
    for name, text in (("good", GOOD), ("idle", IDLE), ("broken", BROKEN)):
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(run, "_DRIVERS", tmp_path)
    monkeypatch.setattr(run, "PUT_S", 0.05)
    monkeypatch.setattr(run, "_START_S", 1.0)
    return tmp_path


def variant(driver: str, *needs: str) -> Variant:
    return Variant(
        name=f"the {driver} one",
        driver=driver,
        package=driver,
        needs=needs,
        policy="none",
        is_durable=True,
        has_threads=True,
        drained=50,
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
    assert results.missing["the good2 one"] == "no wheel"
    assert "no such thing here" in results.missing["the broken one: put"]
    assert "no job ran within" in results.missing["the idle one: drain_1"]
    console = Console(width=200, record=True)
    console.print(peer_table(results))
    assert "no such thing here" in console.export_text()


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


def test_an_environment_is_made_once_and_says_what_it_lacks(tmp_path: Path) -> None:
    wanted = tmp_path / "peers.txt"
    wanted.write_text("# a comment\nnothing: ./no-such-directory\n")
    told: list[str] = []
    place = tmp_path / "venv"
    first = make_environment(told.append, place=place, wanted=wanted)
    assert first.missing.keys() == {"nothing"}
    assert first.versions["pip"]
    assert len(told) == 2
    assert make_environment(told.append, place=place, wanted=wanted) == first
    assert len(told) == 2
