"""The clocks: the machine's, one that runs faster, and one moved by hand."""

import math
import threading
import time
from datetime import timedelta

import pytest

from bide import clock as clocks
from bide.clock import ScaledClock, SystemClock
from bide.testing import ManualClock


def test_system_clock_counts_ms_and_never_back() -> None:
    clock = SystemClock()
    first, second = clock.now_ms(), clock.now_ms()
    assert 1_700_000_000_000 < first <= second
    assert clock.monotonic() <= clock.monotonic()


def test_system_clock_waits_in_seconds_and_never_below_zero() -> None:
    clock = SystemClock()
    assert clock.seconds_until(0) == 0.0
    assert 59 < clock.seconds_until(clock.now_ms() + 60_000) <= 60.001


def test_system_clock_never_jumps() -> None:
    stop = SystemClock().subscribe(lambda: pytest.fail("it jumped"))
    stop()


def test_scaled_clock_runs_at_its_rate() -> None:
    origin_ns = time.monotonic_ns() - 2_000_000_000  # begun two seconds ago
    clock = ScaledClock(start_ms=1_000, rate=1_000, origin_ns=origin_ns)
    assert clock.now_ms() >= 1_000 + 2_000_000
    assert clock.now_ms() < 1_000 + 2_000_000 + 60_000_000  # a minute is enough for two lines
    assert clock.seconds_until(1_000) == 0.0
    assert 9_900 < clock.seconds_until(1_000 + 10_000_000_000) <= 9_998


@pytest.mark.parametrize("rate", [0, -1, math.nan, math.inf])
def test_scaled_clock_refuses_a_rate_that_is_none(rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        ScaledClock(start_ms=0, rate=rate, origin_ns=0)


def test_chance_is_chance() -> None:
    assert len({clocks.random_token() for _ in range(50)}) == 50
    assert len(clocks.random_token()) == 32
    assert all(0 <= clocks.random_unit() < 1 for _ in range(50))
    assert clocks.monotonic_ns() <= clocks.monotonic_ns()


def test_manual_clock_stands_still() -> None:
    clock = ManualClock(start_ms=5_000)
    assert (clock.now_ms(), clock.now_ms(), clock.monotonic()) == (5_000, 5_000, 0.0)


def test_manual_clock_is_advanced_by_seconds_or_timedelta() -> None:
    clock = ManualClock(start_ms=0)
    clock.advance(1.5)
    clock.advance(seconds=0.001)
    clock.advance(timedelta(days=30))
    assert clock.now_ms() == 1_501 + 30 * 86_400_000
    assert clock.monotonic() == pytest.approx(1.501 + 30 * 86_400)


def test_manual_clock_does_not_go_back_unless_set() -> None:
    clock = ManualClock(start_ms=1_000)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
    clock.advance(2)
    clock.set_ms(10)
    assert clock.now_ms() == 10
    assert clock.monotonic() == 2.0, "a clock that is set lets no time pass"


def test_manual_clock_never_comes_to_the_future_by_itself() -> None:
    clock = ManualClock(start_ms=1_000)
    assert clock.seconds_until(1_000) == 0.0
    assert clock.seconds_until(0) == 0.0
    assert clock.seconds_until(1_001) == math.inf


def test_manual_clock_wakes_at_each_move_until_told_to_stop() -> None:
    clock = ManualClock(start_ms=0)
    seen: list[int] = []
    stop = clock.subscribe(lambda: seen.append(clock.now_ms()))
    stop_other = clock.subscribe(lambda: seen.append(-1))
    clock.advance(1)
    stop_other()
    clock.set_ms(7)
    stop()
    stop()
    clock.advance(1)
    assert seen == [1_000, -1, 7]


def test_manual_clock_lets_a_wake_use_it() -> None:
    clock = ManualClock(start_ms=0)
    woken: list[str] = []

    def wake() -> None:
        stop()
        clock.subscribe(lambda: woken.append("inner"))
        if clock.now_ms() < 2_000:
            clock.advance(1)

    stop = clock.subscribe(wake)
    clock.advance(1)
    assert woken == ["inner"]


def test_manual_clock_loses_no_move_between_threads() -> None:
    clock = ManualClock(start_ms=0)
    woken: list[None] = []
    clock.subscribe(lambda: woken.append(None))

    def advance() -> None:
        for _ in range(500):
            clock.advance(0.001)

    threads = [threading.Thread(target=advance) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (clock.now_ms(), len(woken)) == (2_000, 2_000)
