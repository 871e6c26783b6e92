"""The replay: jobs are put as time passes, and in the middle a worker is killed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import bide
from bide.clock import monotonic_ns
from examples.flights import runs
from examples.flights.app import app, jobs_of
from examples.flights.data import NEW_YORK, Flight
from examples.flights.expected import Answer
from examples.flights.history import Killed
from examples.flights.progress import Progress, Timetable
from examples.flights.screen import NEXT_SHOWN, Scene, Screen, WorkerState
from examples.flights.shared_clock import environ_of
from examples.flights.workers import Crew

PUT_BEFORE = timedelta(days=7)
TICK_S = 0.05
WORKERS = 2

WATCH_S = 0.0001
"""How closely a worker is watched, to be killed in the middle of a job."""

BUSY_S_MAX = 2.0
"""How long the kill is put off, if it has nothing to do."""

OVERTIME_S_MAX = 30.0
"""How long the workers may take, after the last boarding was due, to finish."""


class Replay:
    """One replay, in an empty *directory*; a process can hold one only.

    Args:
        flights: Sorted by their departures; at least one.
        answer: What should become of them: for the screen, and to know when it is over.
        seconds: How long it shall take.
        kill_at: After which share of that time a worker is killed.
    """

    def __init__(
        self,
        flights: Sequence[Flight],
        answer: Answer,
        *,
        directory: Path,
        seconds: float,
        kill_at: float,
        screen: Screen,
    ) -> None:
        self.store = directory / "store"
        self.runs = directory / "runs"
        self.runs.mkdir()
        self.killed: Killed | None = None
        self._flights = flights
        self._answer = answer
        self._timetable = Timetable(flights, answer)
        start_ms = _ms(flights[0].departs - PUT_BEFORE)
        self.rate = (self._timetable.end_ms - start_ms) / (seconds * 1000)
        self._clock = bide.ScaledClock(start_ms=start_ms, rate=self.rate, origin_ns=monotonic_ns())
        self._directory = directory
        self._start_s = self._clock.monotonic()
        self._kill_s = self._start_s + seconds * kill_at
        self._end_s = self._start_s + seconds
        self._show_s = self._start_s
        self._screen = screen
        self._progress = Progress(answer, self.rate)
        self._reader = runs.RunReader(self.runs)
        self._put_count = 0
        self._pause = threading.Event()  # never set: it is what one waits on to let time pass

    def run(self) -> None:
        """Replay it all. On return nothing runs any more, and the store is closed.

        Raises:
            WorkerDied: A worker ended by itself.
        """
        url = self.store.as_uri()
        environ = environ_of(self._clock) | {"BIDE_URL": url, runs.DIRECTORY: str(self.runs)}
        app.bind(url)
        app.clock = self._clock
        with app, Crew(self._directory, environ, self._clock) as crew:
            for _ in range(WORKERS):
                crew.start()
            while not self._is_over():
                now_s = self._clock.monotonic()
                self._put_due()
                self._read_noted()
                if self.killed is None and now_s >= self._kill_s:
                    self._kill_one(crew)
                crew.check()
                if now_s >= self._show_s:
                    self._show(crew)
                self._pause.wait(TICK_S)
            self._read_noted()
            self._show(crew)

    def _is_over(self) -> bool:
        """Whether all jobs are put and gone, or should long have been."""
        if self._put_count < len(self._flights) or self._clock.monotonic() < self._end_s:
            return False
        live = sum(queue.waiting + queue.running for queue in app.stats().queues)
        return live == 0 or self._clock.monotonic() > self._end_s + OVERTIME_S_MAX

    def _put_due(self) -> None:
        """Put the jobs of all flights that are to leave within seven days."""
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, tz=NEW_YORK)
        start = self._put_count
        while self._put_count < len(self._flights):
            if self._flights[self._put_count].departs - PUT_BEFORE > now:
                break
            self._put_count += 1
        flights = self._flights[start : self._put_count]
        app.enqueue_many(job for flight in flights for job in jobs_of(flight))

    def _read_noted(self) -> set[int]:
        """Count the runs that were noted since the last call; returns the pids of their workers."""
        noted = self._reader.read_new()
        self._progress.add(noted, self._clock.monotonic())
        return {run.pid for run in noted}

    def _kill_one(self, crew: Crew) -> None:
        """Kill the first worker at the moment that it is seen to begin a job, and start another."""
        victim = crew.workers[0]
        waited_s = self._clock.monotonic() + BUSY_S_MAX
        while victim.pid not in self._read_noted() and self._clock.monotonic() < waited_s:
            self._pause.wait(WATCH_S)
        self.killed = crew.kill(victim)
        heir = crew.start()
        self._screen.say(
            f"worker {victim.number} (pid {victim.pid}) was killed with SIGKILL; "
            f"worker {heir.number} (pid {heir.pid}) replaces it"
        )

    def _show(self, crew: Crew) -> None:
        self._show_s = self._clock.monotonic() + self._screen.interval_s
        now_ms = self._clock.now_ms()
        self._screen.show(
            Scene(
                now_ms=now_ms,
                put=self._put_count,
                flights=len(self._flights),
                boarded=len(self._progress.boarded),
                boardings=len(self._answer.boards_ms),
                jobs_per_s=self._progress.jobs_per_s(),
                p50_ms=self._progress.late_ms(50),
                p99_ms=self._progress.late_ms(99),
                departures=self._timetable.next(now_ms, NEXT_SHOWN),
                workers=[
                    WorkerState(w.number, w.pid, self._progress.runs_of[w.pid], w.was_killed)
                    for w in crew.workers
                ],
            )
        )


def _ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000
