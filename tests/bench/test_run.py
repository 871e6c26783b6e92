"""A run of the benchmark with little of everything: it measures all that it promises."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from bench.__main__ import run
from bench.plan import COMPARISONS, GOALS
from bench.report import Document, verdict_lines, write_document
from bench.sizes import Sizes

TINY = Sizes(
    name="tiny",
    rounds=1,
    sync_count=32,
    unsynced_count=100,
    many_count=100,
    drain_count=100,
    delayed_count_few=10,
    delayed_count_many=100,
    reserve_count=100,
    start_count=5,
    due_count=100,
    pending_counts=(50, 100, 150, 200),
    growth_count=2,
    queue_count=5,
    key_count=50,
    herd_count=50,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkout")


@pytest.fixture(scope="module")
def shown() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def document(place: Path, shown: io.StringIO) -> Document:
    return run(TINY, Console(file=shown), root=place)


def test_each_figure_is_a_rate_or_a_time(document: Document) -> None:
    for figure in document.figures:
        assert len(figure.rounds) == TINY.rounds
        assert figure.min <= figure.median <= figure.max
        if figure.unit != "jobs":
            assert figure.min > 0, figure


def test_no_job_started_before_it_was_due(document: Document) -> None:
    (early,) = [figure for figure in document.figures if figure.name == "jobs started early"]
    assert early.max == 0


def test_a_put_is_not_started_before_it_is_made(document: Document) -> None:
    medians = {figure.name: figure.median for figure in document.figures}
    p50, p99 = (
        medians[f"put to start in another process, idle machine, {p}"] for p in ("p50", "p99")
    )
    assert 0 < p50 <= p99


def test_figures_have_names_of_their_own(document: Document) -> None:
    names = [(figure.name, figure.sync) for figure in document.figures]
    assert len(set(names)) == len(names)
    ratios = [ratio.name for ratio in document.ratios]
    assert len(set(ratios)) == len(ratios)


def test_everything_is_compared_and_judged(document: Document) -> None:
    # Where the system does not tell a process's memory, two are left out.
    knows_memory = any(figure.unit == "MiB" for figure in document.figures)
    assert len(document.ratios) == len(COMPARISONS) - (not knows_memory)
    assert len(document.goals) == len(GOALS) - (not knows_memory)


def test_a_value_is_shown_as_it_comes(document: Document, shown: io.StringIO) -> None:
    lines = shown.getvalue().splitlines()
    assert len(lines) == len(document.figures) * TINY.rounds
    assert lines[0].startswith("round 1: disk: append 200 bytes, fdatasync, sync=always: ")


def test_each_goal_has_a_line(document: Document) -> None:
    for goal, line in zip(document.goals, verdict_lines(document.goals), strict=True):
        assert line.startswith(goal.name)
        assert line.endswith(("reached: yes", "reached: no"))


def test_nothing_is_left_of_the_stores(document: Document, place: Path) -> None:
    assert document.figures
    assert list(place.iterdir()) == []


def test_what_is_written_says_where_it_was_measured(document: Document, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_document(document, path)
    read = msgspec.json.decode(path.read_bytes(), type=Document)
    assert read == document
    assert read.sizes == TINY
    assert read.machine.core_count > 0
    assert read.machine.python.startswith("CPython 3.")
    assert set(read.machine.libraries) >= {"lmdb", "msgspec"}
    assert {figure.sync for figure in read.figures} == {"always", "interval", "never", None}
