"""Delays and moments, as people write them, to Unix ms: the only place where they meet."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from bide.errors import InvalidDelay, InvalidOption
from bide.model.limits import DELAY_MS_MAX, TIMEOUT_MS_MAX, check_due


def delay_to_ms(delay: object) -> int:
    """A delay in seconds, or a timedelta, in ms, rounded up so that nothing comes early.

    >>> delay_to_ms(1.5), delay_to_ms(timedelta(days=30))
    (1500, 2592000000)

    Raises:
        InvalidDelay: Negative, not finite, over 100 years, or no number at all.
    """
    seconds = _seconds(delay)
    if seconds is None or not math.isfinite(seconds):
        raise InvalidDelay(f"delay {delay!r}: use a finite number of seconds or a timedelta")
    if seconds < 0:
        raise InvalidDelay(f"delay {delay!r} is negative: use 0 for now")
    if seconds * 1000 > DELAY_MS_MAX:
        raise InvalidDelay(f"delay {delay!r}: the limit is 100 years")
    return math.ceil(round(seconds * 1000, 6))


def moment_to_ms(run_at: object) -> int:
    """An aware datetime as Unix ms, rounded up.

    Raises:
        InvalidDelay: No datetime, or a naive one.
    """
    if not isinstance(run_at, datetime):
        raise InvalidDelay(f"run_at {run_at!r}: use an aware datetime")
    if run_at.utcoffset() is None:
        raise InvalidDelay(
            f"run_at {run_at!r} is naive: give it a time zone, such as "
            'datetime(..., tzinfo=ZoneInfo("America/New_York"))'
        )
    return math.ceil((run_at - _EPOCH) / _MILLISECOND)


def due_to_ms(delay: object, run_at: object, now_ms: int) -> int:
    """When a job is due that is put at *now_ms*; with neither, or with a past moment, now.

    Raises:
        InvalidDelay: Either is not one, or over 100 years ahead.
        InvalidOption: Both are given.
    """
    if delay is not None:
        if run_at is not None:
            raise InvalidOption("delay and run_at are both given: use one")
        return now_ms + delay_to_ms(delay)
    if run_at is None:
        return now_ms
    return check_due(max(moment_to_ms(run_at), now_ms), now_ms)


def timeout_to_ms(timeout: object) -> int:
    """A timeout in seconds or a timedelta, in ms; None, for no limit, is 0.

    Raises:
        InvalidOption: Zero, negative, not finite, over a year, or no number.
    """
    if timeout is None:
        return 0
    seconds = _seconds(timeout)
    if seconds is None or not math.isfinite(seconds) or seconds <= 0:
        raise InvalidOption(f"timeout {timeout!r}: use seconds above 0, or None for no limit")
    if seconds * 1000 > TIMEOUT_MS_MAX:
        raise InvalidOption(f"timeout {timeout!r}: the limit is a year; None is no limit")
    return max(1, round(seconds * 1000))


def datetime_of(ms: int) -> datetime:
    """Unix ms as an aware datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=ms)


def _seconds(value: object) -> float | None:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
