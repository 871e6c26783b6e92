"""Apps for tests: in memory, by a clock that stands still."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import bide
from bide.backends.memory import open_memory
from bide.backends.port import Backend, Sync
from bide.clock import Clock
from bide.jobs import app as jobs_app
from bide.model.commands import PutResult
from bide.model.job import NewJob
from bide.testing import ManualClock


def make_app(clock: Clock | None = None) -> bide.App:
    return bide.App("memory:", clock=clock or ManualClock())


def note(number: int) -> None: ...


class Recorder:
    """Opens memory backends whose puts are noted, and may be made to fail."""

    def __init__(self) -> None:
        self.puts: list[tuple[int, Sync | None]] = []
        self.synced: list[Sync | None] = []
        """What was waited for, by the puts themselves or behind them."""
        self.opened: list[tuple[str, Sync | None, bool]] = []
        self.refusal: Exception | None = None
        self.gate: threading.Event | None = None
        self.entered = threading.Event()

    def __call__(
        self,
        url: str,
        clock: Clock,
        *,
        sync: Sync | None = None,
        create: bool = True,
        read_only: bool = False,
    ) -> Backend:
        self.opened.append((url, sync, create))
        backend = open_memory(clock)
        put = backend.put

        def noted(
            jobs: Sequence[NewJob], *, sync: Sync | None = None, wait: bool = True
        ) -> tuple[PutResult, ...]:
            self.entered.set()
            if self.gate is not None:
                self.gate.wait(60)
            self.puts.append((len(jobs), sync))
            if self.refusal is not None:
                raise self.refusal
            if wait:
                self.synced.append(sync)
            return put(jobs, sync=sync, wait=wait)

        backend.put = noted  # type: ignore[method-assign]
        backend.sync = self.synced.append  # type: ignore[method-assign, assignment]
        return backend

    def app(self, sync: Sync | None = None) -> jobs_app.App:
        return jobs_app.App("any:", opener=self, clock=ManualClock(), sync=sync)

    @property
    def sizes(self) -> list[int]:
        return [size for size, _ in self.puts]
