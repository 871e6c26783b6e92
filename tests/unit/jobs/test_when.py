"""Delays and moments as people write them: what is refused, and that rounding is never early."""

import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bide.errors import InvalidDelay, InvalidOption
from bide.jobs.when import datetime_of, delay_to_ms, due_to_ms, moment_to_ms, timeout_to_ms
from bide.model.limits import DELAY_MS_MAX, TIMEOUT_MS_MAX
from tests.model.profile import STEADY

NOW_MS = 1_767_225_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CENTURY_S = DELAY_MS_MAX / 1000


class NoOffset(tzinfo):
    """A time zone that does not say where it is: what it is given to stays naive."""

    def utcoffset(self, moment: datetime | None) -> None:
        return None

    def dst(self, moment: datetime | None) -> None:
        return None

    def tzname(self, moment: datetime | None) -> None:
        return None


NO_NUMBERS = [True, False, "5", b"5", None, [5], 1j, Decimal(5), Fraction(1, 2), object()]


@pytest.mark.parametrize(
    "delay, ms",
    [
        (0, 0),
        (0.0, 0),
        (-0.0, 0),
        (1, 1_000),
        (1.5, 1_500),
        (0.1, 100),
        (0.29, 290),  # 0.29 * 1000 is a little more than 290
        (1.001, 1_001),
        (0.0001, 1),
        (0.0014, 2),
        (timedelta(0), 0),
        (timedelta(microseconds=1), 1),
        (timedelta(microseconds=1_000), 1),
        (timedelta(microseconds=1_001), 2),
        (timedelta(days=30), 30 * 86_400_000),
        (CENTURY_S, DELAY_MS_MAX),
        (timedelta(days=36_525), DELAY_MS_MAX),
    ],
)
def test_delays(delay: float | timedelta, ms: int) -> None:
    assert delay_to_ms(delay) == ms


@pytest.mark.parametrize(
    "delay",
    [
        -1,
        -0.001,
        timedelta(microseconds=-1),
        timedelta.min,
        timedelta.max,
        math.nan,
        math.inf,
        -math.inf,
        1e18,
        1e308,
        10**400,
        -(10**400),
        CENTURY_S + 1,
        timedelta(days=36_526),
        EPOCH,
        *NO_NUMBERS,
    ],
)
def test_refused_delays(delay: object) -> None:
    with pytest.raises(InvalidDelay, match="delay"):
        delay_to_ms(delay)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=36_525)))
@STEADY
def test_a_timedelta_is_never_early_and_less_than_a_ms_late(delay: timedelta) -> None:
    late = timedelta(milliseconds=delay_to_ms(delay)) - delay
    assert timedelta(0) <= late < timedelta(milliseconds=1)


@given(st.floats(0, CENTURY_S))
@STEADY
def test_seconds_are_never_early_by_more_than_they_are_exact(delay: float) -> None:
    late_s = Fraction(delay_to_ms(delay), 1000) - Fraction(delay)
    slack = Fraction(1, 10**9) + Fraction(math.ulp(delay))
    assert -slack <= late_s < Fraction(1, 1000) + slack


@given(st.integers(0, DELAY_MS_MAX))
@STEADY
def test_whole_ms_stay_what_they_are(ms: int) -> None:
    assert delay_to_ms(timedelta(milliseconds=ms)) == ms
    assert delay_to_ms(ms / 1000) == ms


moments = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1))  # noqa: DTZ001
zones = st.sampled_from(
    [
        UTC,
        timezone(timedelta(hours=5, minutes=45)),
        ZoneInfo("America/New_York"),
        ZoneInfo("Australia/Lord_Howe"),
    ]
)


@given(moments, zones, st.sampled_from([0, 1]))
@STEADY
def test_a_moment_is_never_early_and_less_than_a_ms_late(
    moment: datetime, zone: tzinfo, fold: int
) -> None:
    aware = moment.replace(tzinfo=zone, fold=fold)
    late = datetime_of(moment_to_ms(aware)) - aware.astimezone(UTC)
    assert timedelta(0) <= late < timedelta(milliseconds=1)


def test_the_hour_that_comes_twice_is_told_apart() -> None:
    zone = ZoneInfo("America/New_York")
    first, second = (datetime(2026, 11, 1, 1, 30, tzinfo=zone, fold=fold) for fold in (0, 1))
    assert moment_to_ms(second) - moment_to_ms(first) == 3_600_000


@pytest.mark.parametrize(
    "run_at",
    [
        datetime(2026, 1, 1),  # noqa: DTZ001
        datetime(2026, 1, 1, tzinfo=NoOffset()),
        datetime.max,  # noqa: DTZ901  naive, as it should be here
    ],
)
def test_naive_moments_are_refused(run_at: datetime) -> None:
    with pytest.raises(InvalidDelay, match=r"naive.*tzinfo"):
        moment_to_ms(run_at)


@pytest.mark.parametrize(
    "run_at", [EPOCH.date(), EPOCH.time(), 1_767_225_600, timedelta(1), *NO_NUMBERS]
)
def test_what_is_no_moment_is_refused(run_at: object) -> None:
    with pytest.raises(InvalidDelay, match="aware datetime"):
        moment_to_ms(run_at)


def test_due_is_now_without_either() -> None:
    assert due_to_ms(None, None, NOW_MS) == NOW_MS


def test_due_counts_from_now() -> None:
    assert due_to_ms(1.5, None, NOW_MS) == NOW_MS + 1_500
    assert due_to_ms(0, None, NOW_MS) == NOW_MS


def test_a_past_moment_is_now() -> None:
    assert due_to_ms(None, EPOCH, NOW_MS) == NOW_MS
    assert due_to_ms(None, datetime.min.replace(tzinfo=UTC), NOW_MS) == NOW_MS
    assert due_to_ms(None, datetime_of(NOW_MS + 1), NOW_MS) == NOW_MS + 1


def test_a_moment_is_at_most_a_hundred_years_ahead() -> None:
    latest = NOW_MS + DELAY_MS_MAX
    assert due_to_ms(None, datetime_of(latest), NOW_MS) == latest
    with pytest.raises(InvalidDelay, match="100 years"):
        due_to_ms(None, datetime_of(latest + 1), NOW_MS)
    with pytest.raises(InvalidDelay):
        due_to_ms(None, datetime.max.replace(tzinfo=UTC), NOW_MS)


def test_delay_and_moment_together_are_refused() -> None:
    with pytest.raises(InvalidOption, match="both"):
        due_to_ms(0, EPOCH, NOW_MS)


@pytest.mark.parametrize(
    "timeout, ms",
    [
        (None, 0),
        (120, 120_000),
        (0.5, 500),
        (0.0001, 1),
        (timedelta(minutes=2), 120_000),
        (timedelta(microseconds=1), 1),
        (TIMEOUT_MS_MAX / 1000, TIMEOUT_MS_MAX),
    ],
)
def test_timeouts(timeout: float | timedelta | None, ms: int) -> None:
    assert timeout_to_ms(timeout) == ms


@pytest.mark.parametrize(
    "timeout",
    [0, 0.0, -1, timedelta(0), math.nan, math.inf, 1e18, 10**400, timedelta(days=367), True, "5"],
)
def test_refused_timeouts(timeout: object) -> None:
    with pytest.raises(InvalidOption, match="timeout"):
        timeout_to_ms(timeout)


def test_a_time_comes_back_in_utc() -> None:
    moment = datetime_of(NOW_MS + 1)
    assert moment == datetime(2026, 1, 1, microsecond=1_000, tzinfo=UTC)
    assert moment.tzinfo is UTC
