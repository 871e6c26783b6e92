"""The thread executor: runs jobs on a fixed number of threads, and ends those that overrun.

A thread can't be killed. When a run's time is up, `TaskTimeout` is raised
inside it, at its next bytecode. If it does not end then (it sleeps in a
system call, or catches everything), its thread is written off: the run
counts as timed out, another thread takes its place, and whatever it still
does has no effect on the job, since its lease is gone.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue

import msgspec

from bide.backends.port import Attendance
from bide.clock import Clock
from bide.jobs.context import Context
from bide.jobs.outcome import TaskStopped, TaskTimeout
from bide.model import commands as c
from bide.model.job import Lease
from bide.worker.run import Runner, Waker

GRACE_S = 1.0
"""How long an interrupted run may take to end before its thread is written off."""

_MEAN_SHARE = 0.05
"""Weight of one more run in the mean service time."""


class Ended(msgspec.Struct, frozen=True):
    """A run that is over."""

    lease: Lease
    mark: int
    """Its slot on the worker's board."""
    outcome: c.Outcome


class _Run:
    """A run under way on a thread."""

    __slots__ = (
        "cancelled",
        "ident",
        "interrupt",
        "lease",
        "lock",
        "mark",
        "over",
        "started_s",
        "waker",
        "write_off_s",
        "written_off",
    )

    def __init__(self, lease: Lease, mark: int, started_s: float) -> None:
        self.lease = lease
        self.mark = mark
        self.started_s = started_s
        self.ident = threading.get_ident()
        self.lock = threading.Lock()  # held to interrupt it, and to end it
        self.cancelled = False
        self.over = False
        self.interrupt: type[BaseException] | None = None
        self.waker: Waker | None = None
        self.write_off_s = 0.0
        self.written_off = False

    def deadline_s(self) -> float | None:
        if self.interrupt is not None:
            return self.write_off_s
        timeout_ms = self.lease.job.timeout_ms
        return self.started_s + timeout_ms / 1000 if timeout_ms else None

    def throw(self, interrupt: type[BaseException], now_s: float) -> None:
        """Raise *interrupt* inside the run, once."""
        with self.lock:
            if not self.over and self.interrupt is None:
                self.interrupt = interrupt
                self.write_off_s = now_s + GRACE_S
                _raise_in_thread(self.ident, interrupt)
                if self.waker is not None:
                    self.waker(interrupt)

    def set_waker(self, waker: Waker | None) -> None:
        with self.lock:
            self.waker = waker

    def finish(self) -> None:
        """The run is over: nothing is thrown at its thread any more. May be called again.

        What was thrown just before arrives here at the latest, as the lock
        is let go: CPython looks for it behind every call. So nothing has to
        be taken back, which would leave CPython looking for good.
        """
        with self.lock:
            self.over = True


class ThreadExecutor:
    """Runs leases on *count* threads.

    All methods are for the one thread that feeds it; *notify* is called
    from its own threads when that one should look for what has ended.
    """

    def __init__(
        self,
        count: int,
        runner: Runner,
        attendance: Attendance,
        clock: Clock,
        *,
        notify: Callable[[], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._runner = runner
        self._attendance = attendance
        self._clock = clock
        self._notify = notify
        self._is_stopping = is_stopping
        self._waiting: SimpleQueue[Lease | None] = SimpleQueue()
        self._ended: deque[Ended] = deque()
        self._runs: dict[int, _Run] = {}
        self._count = count
        self._alive = 0
        self.in_hand = 0
        """Leases submitted, and neither taken back nor collected."""
        self.notify_at = 1
        """How many ended runs are worth a look while others still wait for a thread."""
        self.mean_s: float | None = None
        """Mean service time, exponentially weighted; None before the first run."""

    def start(self) -> None:
        for _ in range(self._count):
            self._start_thread()

    def submit(self, lease: Lease) -> None:
        self.in_hand += 1
        self._waiting.put(lease)

    def take_back(self) -> list[Lease]:
        """What has not been started; it will not be."""
        leases: list[Lease] = []
        try:
            while True:
                lease = self._waiting.get_nowait()
                assert lease is not None
                leases.append(lease)
        except Empty:
            self.in_hand -= len(leases)
            return leases

    def collect(self) -> list[Ended]:
        """What has ended since the last call, in that order."""
        ended: list[Ended] = []
        while self._ended:
            ended.append(self._ended.popleft())
        self.in_hand -= len(ended)
        return ended

    @property
    def waiting_count(self) -> int:
        return self._waiting.qsize()

    @property
    def running(self) -> list[Lease]:
        return [run.lease for run in list(self._runs.values())]

    @property
    def has_ended(self) -> bool:
        return bool(self._ended)

    def flowing_count(self, now_s: float, age_s: float) -> int:
        """How many threads are idle, or have been at their run for less than *age_s*."""
        slow = sum(now_s - run.started_s >= age_s for run in list(self._runs.values()))
        return max(0, self._count - slow)

    def next_deadline_s(self) -> float | None:
        """When `enforce` has something to do, by the clock's `monotonic`."""
        deadlines = (run.deadline_s() for run in list(self._runs.values()))
        return min((at_s for at_s in deadlines if at_s is not None), default=None)

    def enforce(self, now_s: float) -> None:
        """Interrupt the runs whose time is up, and write off the threads that do not end."""
        for run in list(self._runs.values()):
            deadline_s = run.deadline_s()
            if deadline_s is None or deadline_s > now_s:
                continue
            if run.interrupt is None:
                run.throw(TaskTimeout, now_s)
            elif run.interrupt is TaskTimeout:
                self._write_off(run)

    def interrupt_all(self, now_s: float) -> None:
        """Raise `TaskStopped` in every run: the worker waits no longer."""
        for run in list(self._runs.values()):
            run.throw(TaskStopped, now_s)

    def tell_cancelled(self, job_ids: frozenset[int]) -> None:
        """Let the runs of these jobs know that they are no longer wanted."""
        for run in list(self._runs.values()):
            if run.lease.job.id in job_ids:
                run.cancelled = True

    def abandon(self) -> int:
        """Take every run off the board, so that none counts as an attempt; returns how many."""
        runs = list(self._runs.values())
        for run in runs:
            self._attendance.clear(run.mark)
        return len(runs)

    def end(self) -> int:
        """Start nothing more, and let the idle threads end; returns how many still run.

        They are daemons: one that is stuck holds up no exit.
        """
        self.take_back()
        for _ in range(self._alive):
            self._waiting.put(None)
        self.collect()
        return self.in_hand

    def _start_thread(self) -> None:
        name = f"bide-{self._alive + 1}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()
        self._alive += 1

    def _serve(self) -> None:
        while (lease := self._waiting.get()) is not None:
            run = _Run(lease, self._attendance.start(lease), self._clock.monotonic())
            outcome = self._run(run)
            if run.written_off:
                return
            del self._runs[id(run)]
            took_s = self._clock.monotonic() - run.started_s
            mean_s = self.mean_s
            self.mean_s = took_s if mean_s is None else mean_s + (took_s - mean_s) * _MEAN_SHARE
            self._ended.append(Ended(lease, run.mark, outcome))
            if len(self._ended) >= self.notify_at or self._waiting.empty():
                self._notify()

    def _run(self, run: _Run) -> c.Outcome:
        """Run it, whatever may come of that: the thread goes on with the next."""
        context = Context(run.lease, lambda: run.cancelled, self._is_stopping)
        outcome: c.Outcome | None = None
        try:
            try:
                self._runs[id(run)] = run  # from here on it may be interrupted
                outcome = self._runner.run(run.lease, context, run.set_waker)
            except Exception as error:  # noqa: BLE001  a task whose options can't be applied, say
                outcome = c.Exhausted(f"{type(error).__name__}: {error}")
            finally:
                run.finish()  # an interrupt may come in here still, and is caught below
        except TaskTimeout:
            outcome = outcome or self._runner.timed_out(run.lease)
        except TaskStopped:
            outcome = outcome or c.Returned()
        run.finish()
        return outcome

    def _write_off(self, run: _Run) -> None:
        with run.lock:
            if run.over:
                return
            run.over = run.written_off = True
        del self._runs[id(run)]
        self._ended.append(Ended(run.lease, run.mark, self._runner.timed_out(run.lease)))
        self._start_thread()


def _raise_in_thread(ident: int, error: type[BaseException]) -> None:
    """Have *error* raised in a thread at its next bytecode."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(error))
