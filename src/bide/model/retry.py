"""When a failed attempt runs again: exponential backoff with jitter."""

from __future__ import annotations

import math

import msgspec

from bide.errors import InvalidOption

DELAY_UNKNOWN_TASK_MS_MIN = 10_000
DELAY_UNKNOWN_TASK_MS_MAX = 900_000

DELAY_UNDECIDED_MS_MIN = 10_000
DELAY_UNDECIDED_MS_MAX = 3_600_000


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Delays that double, from *backoff_ms* up to *backoff_ms_max*, spread by *jitter*.

    The *n*-th retry comes after ``backoff_ms * 2 ** (n - 1)``, capped, less a
    random share of up to *jitter* of it. (Full jitter, AWS Architecture
    Blog 2015, is ``jitter=1.0``; the default keeps half of the delay, so that
    no retry comes at once.)
    """

    backoff_ms: int = 1_000
    backoff_ms_max: int = 3_600_000
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if self.backoff_ms < 0 or self.backoff_ms_max < self.backoff_ms:
            raise InvalidOption(
                f"retry backoff from {self.backoff_ms} to {self.backoff_ms_max} ms: "
                "use 0 <= backoff <= backoff_max"
            )
        jitter: object = self.jitter
        is_number = isinstance(jitter, (int, float)) and not isinstance(jitter, bool)
        if not (is_number and math.isfinite(self.jitter) and 0 <= self.jitter <= 1):
            raise InvalidOption(f"retry jitter {self.jitter!r}: use a number from 0 to 1")

    def delay_ms(self, attempt: int, random_unit: float) -> int:
        """How long after the failure of *attempt* (from 1) the next one is due, in ms."""
        doublings = min(attempt - 1, 60)
        delay = min(self.backoff_ms << doublings, self.backoff_ms_max)
        return round(delay * (1 - self.jitter * random_unit))


def delay_unknown_task_ms(misses: int) -> int:
    """How long a job waits for a worker that knows its task, after *misses* earlier waits."""
    return min(DELAY_UNKNOWN_TASK_MS_MIN << min(misses, 20), DELAY_UNKNOWN_TASK_MS_MAX)


def delay_undecided_ms(asked: int) -> int:
    """When the checker is asked again about a transaction, after *asked* earlier times."""
    return min(DELAY_UNDECIDED_MS_MIN << min(asked, 20), DELAY_UNDECIDED_MS_MAX)
