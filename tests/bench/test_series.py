"""What becomes of the values that a run has measured."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from bench.raw_engine import RawEngine
from bench.report import Progress, histogram, number, verdict_lines
from bench.series import Comparison, Goal, Results, Series, percentile

FAST = Series("fast", "jobs/s", "always")
SLOW = Series("slow", "jobs/s", "never")


def results() -> Results:
    made = Results()
    for fast, slow in ((30.0, 10.0), (80.0, 20.0), (100.0, 50.0)):
        made.add(FAST, fast)
        made.add(SLOW, slow)
    return made


def test_a_summary_has_the_median_and_the_spread() -> None:
    summary = results().summary(FAST)
    assert (summary.median, summary.min, summary.max) == (80, 30, 100)
    assert (summary.name, summary.unit, summary.sync) == ("fast", "jobs/s", "always")


def test_a_ratio_is_taken_within_each_round() -> None:
    summary = results().summary(Comparison(name="fast to slow", of=FAST, to=SLOW))
    assert list(summary.rounds) == [3, 4, 2]
    assert (summary.median, summary.unit) == (3, "times")


def test_a_difference_keeps_the_unit() -> None:
    comparison = Comparison(name="fast over slow", of=FAST, to=SLOW, how="difference")
    summary = results().summary(comparison)
    assert list(summary.rounds) == [20, 60, 50]
    assert summary.unit == "jobs/s"


@pytest.mark.parametrize(
    "goal,reached",
    [
        (Goal(of=FAST, at_least=80), True),
        (Goal(of=FAST, at_least=81), False),
        (Goal(of=FAST, at_most=80), True),
        (Goal(of=FAST, at_most=79), False),
    ],
)
def test_a_goal_is_reached_by_the_median(*, goal: Goal, reached: bool) -> None:
    verdict = results().verdict(goal)
    assert verdict.reached is reached
    (line,) = verdict_lines([verdict])
    assert line.startswith("fast, sync=always: 80 jobs/s; goal: at ")
    assert line.endswith("yes" if reached else "no")


@pytest.mark.parametrize(
    "share,expected", [(0.0, 1), (0.01, 1), (0.5, 50), (0.99, 99), (0.995, 100), (1.0, 100)]
)
def test_a_percentile_is_one_of_the_values(share: float, expected: int) -> None:
    assert percentile(range(100, 0, -1), share) == expected


@pytest.mark.parametrize(
    "value,text", [(123_456.7, "123,457"), (99.94, "99.9"), (0.01234, "0.0123"), (0, "0")]
)
def test_a_number_is_as_exact_as_it_is_known(value: float, text: str) -> None:
    assert number(value) == text


def test_a_terminal_shows_a_table_that_fits_it() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100, height=10)
    made = Results()
    progress = Progress(console, made)
    progress.start()
    for index in range(20):
        series = Series(f"series {index}", "jobs/s", "always")
        made.add(series, index)
        progress.show(series, index, 1)
    progress.stop()
    last = shown.getvalue().rpartition("Round 1")[2]
    assert "series 19" in last
    assert "series 15" not in last


def test_the_raw_engine_drains_what_was_put(tmp_path: Path) -> None:
    with RawEngine(tmp_path) as engine:
        engine.put(250)
        engine.put(1)
        engine.sync()
        assert [engine.exchange(100) for _ in range(5)] == [100, 100, 51, 0, 0]


def test_a_histogram_counts_every_time_once() -> None:
    times_ms = [0.0, 0.049, 0.05, 0.06, 1.0, 5_000.0, 10.0**9]
    found = histogram(times_ms)
    assert sum(found.counts) == len(times_ms)
    assert found.counts[0] == 2
    assert found.counts[1] == 2
    assert found.counts[-1] == 2
    below = next(i for i, bound in enumerate(found.bounds_ms) if bound > 1.0)
    assert found.counts[below] == 1
