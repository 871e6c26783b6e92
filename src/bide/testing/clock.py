"""A clock that a test moves by hand."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from datetime import timedelta

START_MS = 1_767_225_600_000
"""2026-01-01 00:00 UTC."""


class ManualClock:
    """Stands still until it is moved, and wakes whoever subscribed whenever it is.

    Any thread may move it or look at it.

    >>> clock = ManualClock(start_ms=1_000)
    >>> clock.advance(timedelta(days=30))
    >>> clock.now_ms()
    2592001000

    Args:
        start_ms: What it shows first, in Unix ms.
    """

    def __init__(self, *, start_ms: int = START_MS) -> None:
        self._lock = threading.Lock()
        self._now_ms = start_ms
        self._elapsed_ms = 0
        self._wakes: dict[object, Callable[[], None]] = {}

    def now_ms(self) -> int:
        return self._now_ms

    def seconds_until(self, at_ms: int) -> float:
        """0.0 if it shows *at_ms* or later; else infinity: it gets there only by hand."""
        return 0.0 if at_ms <= self._now_ms else math.inf

    def monotonic(self) -> float:
        """The seconds that it was advanced by in all. `set_ms` does not count."""
        return self._elapsed_ms / 1000

    def advance(self, seconds: float | timedelta) -> None:
        """Let time pass: seconds, or a timedelta; to the ms."""
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        step_ms = round(seconds * 1000)
        if step_ms < 0:
            raise ValueError(f"advance({seconds}): time does not go back; see set_ms")
        with self._lock:
            self._now_ms += step_ms
            self._elapsed_ms += step_ms
        self._wake()

    def set_ms(self, now_ms: int) -> None:
        """Set it, forward or back, as an administrator sets a machine's clock: no time passes."""
        with self._lock:
            self._now_ms = now_ms
        self._wake()

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have *wake* called after each move, by who moves it; returns how to stop that."""
        ticket = object()
        with self._lock:
            self._wakes[ticket] = wake

        def unsubscribe() -> None:
            with self._lock:
                self._wakes.pop(ticket, None)

        return unsubscribe

    def _wake(self) -> None:
        with self._lock:
            wakes = list(self._wakes.values())
        for wake in wakes:  # without the lock: what is woken may look at the clock, or subscribe
            wake()
