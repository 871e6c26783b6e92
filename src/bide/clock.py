"""Time and chance: the only module that reads a clock or makes a random number.

Everything below the backends takes ``now_ms`` as an argument; everything
above is handed a `Clock`. So a test jumps a month in a line, and a replay
runs a month in a minute.
"""

from __future__ import annotations

import math
import random
import secrets
import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """What bide asks of a clock."""

    def now_ms(self) -> int:
        """The time, in Unix milliseconds."""
        ...

    def seconds_until(self, at_ms: int) -> float:
        """How long to wait, in real seconds, until this clock shows *at_ms*.

        Returns:
            0.0 if it already does; infinity if it never will by itself (a
            clock moved by hand).
        """
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for how long things take (timeouts)."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have *wake* called whenever the clock jumps; returns how to stop that.

        A clock that only flows never calls it.
        """
        ...


def _nothing() -> None:
    """Stop a subscription that was never made."""


class SystemClock:
    """The machine's own time."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def seconds_until(self, at_ms: int) -> float:
        return max(0.0, at_ms / 1000 - time.time())

    def monotonic(self) -> float:
        return time.monotonic()

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        del wake
        return _nothing


class ScaledClock:
    """Time that started at a chosen moment and runs *rate* times as fast.

    Processes that build it from the same three numbers share it: it counts
    from a reading of the machine's monotonic clock, which all processes see
    alike and which no one sets.

    Args:
        start_ms: What the clock shows at *origin_ns*, in Unix ms.
        rate: Its milliseconds per real millisecond; > 0.
        origin_ns: A reading of `monotonic_ns`.
    """

    __slots__ = ("origin_ns", "rate", "start_ms")

    def __init__(self, *, start_ms: int, rate: float, origin_ns: int) -> None:
        if not (rate > 0 and math.isfinite(rate)):
            raise ValueError(f"rate must be a finite number above 0, not {rate!r}")
        self.start_ms = start_ms
        self.rate = rate
        self.origin_ns = origin_ns

    def now_ms(self) -> int:
        return self.start_ms + int((time.monotonic_ns() - self.origin_ns) * self.rate / 1e6)

    def seconds_until(self, at_ms: int) -> float:
        ahead_ms = (at_ms - self.start_ms) / self.rate
        return max(0.0, ahead_ms / 1000 - (time.monotonic_ns() - self.origin_ns) / 1e9)

    def monotonic(self) -> float:
        return time.monotonic()

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        del wake
        return _nothing


def monotonic_ns() -> int:
    """A reading of the machine's monotonic clock, in ns: an origin for a `ScaledClock`."""
    return time.monotonic_ns()


def random_unit() -> float:
    """A random number in [0, 1), for jitter."""
    return random.random()


def random_token() -> str:
    """16 random bytes as 32 hex digits: a name that nothing else has."""
    return secrets.token_hex(16)
