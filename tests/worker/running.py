"""Workers on threads of their own, and a backend that tells what they ask of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import bide
from bide.backends.port import Attendance, Backend, Reserved, Sync
from bide.clock import Clock
from bide.connect import connect
from bide.jobs.app import App
from bide.model import commands as c
from bide.model.job import Lease, OwnerId
from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker, WorkerSummary

PATIENCE_S = 20.0
"""How long a test waits for what must happen; only a failure takes that long."""


class Running:
    """A worker at work, until the block ends."""

    def __init__(self, app: App, **options: Any) -> None:
        self.worker = Worker(app, WorkerOptions(**options))
        self.summary: WorkerSummary | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="worker under test", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.stop(now=True)
        self._join()

    def stop(self, *, now: bool = False) -> None:
        self.worker.stop(now=now)

    def end(self) -> WorkerSummary:
        """Wait for its end, which someone has brought about."""
        self._join()
        assert self.summary is not None
        return self.summary

    def _join(self) -> None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the worker does not end"
        error, self.error = self.error, None  # raised once
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            self.summary = self.worker.run()
        except BaseException as error:  # noqa: BLE001  raised again where it is waited for
            self.error = error


def burst(app: App, **options: Any) -> WorkerSummary:
    """Run all that is due."""
    with Running(app, burst=True, **options) as running:
        return running.end()


def state(handle: bide.Handle) -> bide.State | None:
    """Where its job is; None if it is gone."""
    info = handle.get()
    return None if info is None else info.state


def attempts(handle: bide.Handle) -> int:
    """How many runs of its job have counted."""
    info = handle.get()
    assert info is not None
    return info.job.attempt


def last_error(handle: bide.Handle) -> str:
    info = handle.get()
    assert info is not None
    return info.job.errors[-1].text


def wait(event: threading.Event) -> None:
    """Wait for what must happen."""
    assert event.wait(PATIENCE_S), "it did not happen"


def spin_until(is_over: Callable[[], bool]) -> None:
    """Compute, as tasks do, until *is_over*: an interrupt can come in at any time.

    Not to be written out in a ``try``: CPython 3.13 leaves a loop's jump back out of that.
    """
    end_s = time.monotonic() + PATIENCE_S
    while not is_over():
        assert time.monotonic() < end_s, "it did not become so"


class Watched:
    """A backend that notes what workers ask of it, and lets a test wait for that or forbid it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._changed = threading.Condition()
        self.reserved: list[Lease] = []
        self.settled: list[c.Settlement] = []
        self.in_hand_max = 0
        """The most jobs that were leased at once."""
        self.looks: dict[OwnerId, int] = {}
        """How often each worker has gone to sleep."""
        self.refusal: Exception | None = None
        """Raised instead of each reserve."""
        self.refused_count = 0
        self.tick_refusal: Exception | None = None
        """Raised instead of each tick."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def wait_until(self, condition: Callable[[], object]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE_S), "it did not become so"

    def wait_for_looks(self, count: int = 2) -> None:
        """Wait until workers have slept *count* times more: what they would do, they have done."""
        seen = sum(self.looks.values())
        self.wait_until(lambda: sum(self.looks.values()) >= seen + count)

    def wait_for_settled(self, kind: type[c.Outcome], count: int) -> None:
        """Wait until so many jobs were settled with such an outcome."""
        self.wait_until(lambda: len(self.settled_as(kind)) >= count)

    @contextmanager
    def between_commits(self) -> Iterator[None]:
        """A block in which no worker reserves or settles."""
        with self._changed:
            yield

    def settled_as(self, kind: type[c.Outcome]) -> list[int]:
        """The ids of the jobs that were settled with such an outcome, in order."""
        return [s.id for s in self.settled if isinstance(s.outcome, kind)]

    def attend(self, queues: Sequence[str]) -> Attendance:
        return _WatchedAttendance(self._backend.attend(queues), self._looked)

    def reserve(
        self,
        owner: OwnerId,
        queues: Sequence[str],
        limit: int,
        settlements: Sequence[c.Settlement] = (),
    ) -> Reserved:
        with self._changed:  # what is noted is in the order of the commits
            self._changed.notify_all()
            if self.refusal is not None:
                self.refused_count += 1
                raise self.refusal
            reserved = self._backend.reserve(owner, queues, limit, settlements)
            self.reserved += reserved.leases
            self.settled += settlements
            self.in_hand_max = max(self.in_hand_max, len(self.reserved) - len(self.settled))
            return reserved

    def tick(self, queues: Sequence[str]) -> int | None:
        if self.tick_refusal is not None:
            raise self.tick_refusal
        return self._backend.tick(queues)

    def _looked(self, owner: OwnerId) -> None:
        with self._changed:
            self.looks[owner] = self.looks.get(owner, 0) + 1
            self._changed.notify_all()


class _WatchedAttendance:
    def __init__(self, attendance: Attendance, looked: Callable[[OwnerId], None]) -> None:
        self._attendance = attendance
        self._looked = looked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._attendance, name)

    def wait(self, until_ms: int | None, timeout_s: float) -> None:
        self._looked(self._attendance.owner)
        self._attendance.wait(until_ms, timeout_s)


def watched_app(url: str, clock: Clock | None = None) -> tuple[App, Watched]:
    """An App, and the watch on its backend."""
    watches: list[Watched] = []

    def opener(
        url: str,
        clock: Clock,
        *,
        sync: Sync | None = None,
        create: bool = True,
        read_only: bool = False,
    ) -> Any:
        watches.append(Watched(connect(url, clock, sync=sync, create=create)))
        return watches[0]

    app = App(url, opener=opener, clock=clock)
    assert app.backend is watches[0]
    return app, watches[0]


def check_counts(app: App) -> None:
    """What the store counts is what it lists, and no worker is left in it."""
    stats = app.stats()
    assert stats.owners == ()
    for queue in stats.queues:
        pages = {state: app.jobs(state, queue=queue.queue, limit=1_000) for state in bide.State}
        listed = {state: len(page.jobs) + len(page.unreadable) for state, page in pages.items()}
        waiting = listed[bide.State.READY] + listed[bide.State.SCHEDULED]
        assert (queue.waiting, queue.running, queue.failed) == (
            waiting,
            listed[bide.State.RUNNING],
            listed[bide.State.FAILED],
        )
        assert queue.running == 0
