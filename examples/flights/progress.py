"""How far a replay has come, from the runs noted so far."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Iterable

from examples.flights.data import Flight
from examples.flights.expected import BOARDING_MIN, MINUTE_MS, Answer
from examples.flights.runs import Run
from examples.flights.verdict import percentile

WINDOW_S = 2.0
"""Jobs per second are those of so many seconds."""


class Progress:
    """Counts runs as they are read."""

    def __init__(self, answer: Answer, rate: float) -> None:
        self.boarded: set[str] = set()
        self.runs_of: Counter[int] = Counter()
        """Runs by the pid of their worker."""
        self._answer = answer
        self._rate = rate
        self._late_ms: list[float] = []
        self._window: deque[tuple[float, int]] = deque()

    def add(self, runs: Iterable[Run], now_s: float) -> None:
        """Count *runs*, read at *now_s* of a monotonic clock."""
        count = 0
        for run in runs:
            count += 1
            self.runs_of[run.pid] += 1
            boards_ms = self._answer.boards_ms.get(run.key)
            if run.queue == "boarding" and run.key not in self.boarded:
                self.boarded.add(run.key)
                if boards_ms is not None:
                    insort(self._late_ms, (run.start_ms - boards_ms) / self._rate)
        self._window.append((now_s, count))
        while self._window[0][0] <= now_s - WINDOW_S:
            self._window.popleft()

    def jobs_per_s(self) -> float:
        """Jobs started per second, lately."""
        return sum(count for _, count in self._window) / WINDOW_S

    def late_ms(self, percent: int) -> float:
        """The lateness so far, in real ms, that *percent* of the boardings do not exceed."""
        return percentile(self._late_ms, percent)


class Timetable:
    """The flights in the order in which they board; cancelled ones, when they would have."""

    def __init__(self, flights: Iterable[Flight], answer: Answer) -> None:
        rows = []
        for flight in flights:
            scheduled_ms = int(flight.departs.timestamp()) * 1000 - BOARDING_MIN * MINUTE_MS
            rows.append((answer.boards_ms.get(flight.key, scheduled_ms), flight.key, flight))
        self._rows = sorted(rows)
        self.end_ms = self._rows[-1][0]
        """When the last one boards."""

    def next(self, now_ms: int, count: int) -> list[tuple[int, Flight]]:
        """The next *count* flights after *now_ms*, each with when it boards."""
        start = bisect_left(self._rows, (now_ms, ""))
        return [(at_ms, flight) for at_ms, _, flight in self._rows[start : start + count]]
