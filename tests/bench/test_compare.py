"""Two runs held against one another: what got slower is named, and noise is not."""

from __future__ import annotations

from bench import putting
from bench.compare import compare
from bench.series import Series, Summary
from bide.backends.port import Sync

DRAIN = Series("worker", "jobs/s", "always")
TIME = Series("latency", "ms", "always")


def made(series: Series, *rounds: float) -> Summary:
    ordered = sorted(rounds)
    return Summary(
        name=series.name,
        unit=series.unit,
        sync=series.sync,
        median=ordered[len(ordered) // 2],
        min=ordered[0],
        max=ordered[-1],
        rounds=rounds,
    )


def a_run(*figures: Summary, raw: float = 1_000) -> list[Summary]:
    return [made(putting.RAW_MANY, raw), made(putting.RAW_SINGLE, raw / 10), *figures]


def slower(before: list[Summary], now: list[Summary]) -> list[str]:
    changes, _ = compare(before, now)
    return [change.name for change in changes if change.is_slower]


def test_what_got_slower_is_named() -> None:
    before = a_run(made(DRAIN, 95, 100, 105), made(TIME, 1.9, 2, 2.1))
    assert slower(before, a_run(made(DRAIN, 79, 80, 81), made(TIME, 1.9, 2, 2.1))) == [
        "worker, sync=always"
    ]
    assert slower(before, a_run(made(DRAIN, 95, 100, 105), made(TIME, 2.9, 3, 3.1))) == [
        "latency, sync=always"
    ]


def test_a_faster_or_slower_machine_is_not() -> None:
    before = a_run(made(DRAIN, 95, 100, 105), made(TIME, 1.9, 2, 2.1))
    half = a_run(made(DRAIN, 47, 50, 53), made(TIME, 3.8, 4, 4.2), raw=500)
    assert slower(before, half) == []
    assert slower(half, before) == []


def test_noise_is_not() -> None:
    before = a_run(made(DRAIN, 70, 100, 105))
    assert slower(before, a_run(made(DRAIN, 72, 80, 90))) == []
    assert slower(before, a_run(made(DRAIN, 91, 92, 93))) == []


def test_what_waits_for_the_disk_is_held_against_what_does_too() -> None:
    before = a_run(made(putting.SINGLE, 50))
    now = a_run(made(putting.SINGLE, 40))
    assert slower(before, now) == ["enqueue, 1 thread, sync=always"]
    now[1] = made(putting.RAW_SINGLE, 80)  # so is the disk
    assert slower(before, now) == []


def test_what_is_not_measured_any_more_is_told() -> None:
    syncs: tuple[Sync, ...] = ("always", "never")
    two = [made(Series("worker", "jobs/s", sync), 100) for sync in syncs]
    changes, missing = compare(a_run(*two), a_run(two[0]))
    assert [change.name for change in changes] == ["worker, sync=always"]
    assert missing == ["worker, sync=never"]
