"""What is seen of the demo, and what it is made from."""

from datetime import UTC, date, datetime
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

import bide
from examples.flights.data import Flight, read_flights
from examples.flights.expected import Answer, work_out
from examples.flights.progress import WINDOW_S, Progress, Timetable
from examples.flights.runs import Run, RunReader
from examples.flights.screen import (
    BOARD_WIDTH,
    PlainScreen,
    Scene,
    WorkerState,
    draw,
    local_time,
    remark,
)
from examples.flights.shared_clock import clock_from, environ_of

NOON_MS = int(datetime(2013, 1, 13, 17, tzinfo=UTC).timestamp()) * 1000


def scene(boarded: int = 12_003) -> Scene:
    flights = read_flights(date(2013, 1, 13), date(2013, 1, 13))
    return Scene(
        now_ms=NOON_MS,
        put=26_888,
        flights=27_004,
        boarded=boarded,
        boardings=26_483,
        jobs_per_s=1_264.2,
        p50_ms=1.08,
        p99_ms=12.3,
        departures=Timetable(flights, work_out(flights)).next(NOON_MS, 5),
        workers=[
            WorkerState(1, 1234, 9_000, was_killed=True),
            WorkerState(2, 1235, 9, was_killed=False),
        ],
    )


def flight(key: str, hour: int, delay_min: int | None) -> Flight:
    departs = datetime(2013, 1, 1, hour, tzinfo=UTC)
    return Flight(key=key, name=key, origin="JFK", dest="BOS", departs=departs, delay_min=delay_min)


def test_a_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainScreen() as screen:
        screen.show(scene())
        screen.show(scene(boarded=0))
    assert capsys.readouterr().out.splitlines() == [
        "Sun 13 Jan 12:00  boarded 12,003 of 26,483  1,264 jobs/s  late p50 1.1 ms, p99 12.3 ms",
        "Sun 13 Jan 12:00  boarded 0 of 26,483  1,264 jobs/s",
    ]


def test_the_board_fits_a_terminal_and_shows_it_all() -> None:
    console = Console(width=BOARD_WIDTH)
    with console.capture() as capture:
        console.print(draw(scene(), ["worker 1 was killed"]))
    text = capture.get()
    for part in ("Sun 13 Jan 12:00", "boarded 12,003 of 26,483", "1,264 jobs/s", "p99 12.3 ms"):
        assert part in text
    assert "killed" in text
    assert "…" not in text  # nothing is cut off
    assert max(map(len, text.splitlines())) <= BOARD_WIDTH


@pytest.mark.parametrize(
    "delay_min, text",
    [(None, "cancelled"), (0, "on time"), (-5, "5 min early"), (12, "12 min late")],
)
def test_remarks(delay_min: int | None, text: str) -> None:
    assert remark(flight("a", 12, delay_min)).plain == text


def test_times_are_new_yorks() -> None:
    assert local_time(NOON_MS) == "Sun 13 Jan 12:00"


def test_the_timetable_has_flights_in_the_order_in_which_they_board() -> None:
    flights = [flight("late", 12, 90), flight("cancelled", 13, None), flight("on-time", 12, 0)]
    timetable = Timetable(flights, work_out(flights))
    names = [row.key for _, row in timetable.next(0, 9)]
    assert names == ["on-time", "cancelled", "late"]
    assert timetable.end_ms == work_out(flights).boards_ms["late"]
    assert [row.key for _, row in timetable.next(timetable.end_ms, 9)] == ["late"]


def test_progress_counts_first_boardings_and_their_lateness() -> None:
    progress = Progress(Answer({"a": 1_000, "b": 2_000}, frozenset()), rate=10.0)
    progress.add([Run("boarding", 1, "a", 1, 7, 1_000, 1_010)], 0.0)
    progress.add([Run("boarding", 1, "a", 2, 8, 1_000, 9_000)], 0.1)
    progress.add(
        [Run("boarding", 2, "b", 1, 8, 2_000, 2_050), Run("news", 3, "b", 1, 8, 0, 0)], 0.2
    )
    assert progress.boarded == {"a", "b"}
    assert (progress.late_ms(50), progress.late_ms(99)) == (1.0, 5.0)
    assert progress.runs_of == {7: 1, 8: 3}
    assert progress.jobs_per_s() == 4 / WINDOW_S
    progress.add([], 10.0)
    assert progress.jobs_per_s() == 0


def test_a_run_is_read_once_it_is_noted_whole(tmp_path: Path) -> None:
    run = Run("boarding", 1, "a", 1, 7, 1_000, 1_010)
    line = msgspec.json.encode(run) + b"\n"
    file = tmp_path / "7.jsonl"
    reader = RunReader(tmp_path)
    assert reader.read_new() == []
    file.write_bytes(line + line[:5])
    assert reader.read_new() == [run]
    file.write_bytes(line + line)
    assert reader.read_new() == [run]
    assert reader.read_new() == []


def test_a_clock_is_handed_on_through_the_environment() -> None:
    clock = bide.ScaledClock(start_ms=NOON_MS, rate=54_720.123456789, origin_ns=123)
    other = clock_from(environ_of(clock))
    assert isinstance(other, bide.ScaledClock)
    assert (other.start_ms, other.rate, other.origin_ns) == (NOON_MS, 54_720.123456789, 123)


def test_outside_a_replay_the_clock_is_the_machines() -> None:
    assert isinstance(clock_from({}), bide.SystemClock)
