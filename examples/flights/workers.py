"""The worker processes: started, killed, and stopped before the replay ends, however it ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import bide
from examples.flights.history import Killed

CHECKOUT = Path(__file__).parents[2]
"""Where ``examples`` can be imported from."""

COMMAND = (
    *(sys.executable, "-m", "bide.cli", "worker", "examples.flights.app:app"),
    *("--threads", "2"),
)
STOP_S = 10.0
"""How long workers may take to stop when they are asked to."""

LOG_LINES_SHOWN = 20


class WorkerDied(Exception):
    """A worker ended that nobody had killed."""


@dataclass(slots=True)
class Worker:
    """A worker process."""

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    was_killed: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid


class Crew:
    """The workers of one replay; on exit, all of them are stopped.

    Args:
        directory: Where their logs go.
        environ: What they need in their environment besides this process's.
        clock: The replay's.
    """

    def __init__(self, directory: Path, environ: Mapping[str, str], clock: bide.Clock) -> None:
        self.workers: list[Worker] = []
        self._directory = directory
        self._environ = os.environ | environ
        self._clock = clock

    def __enter__(self) -> Self:
        atexit.register(self._kill_all)  # if `stop` itself is interrupted
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()
        atexit.unregister(self._kill_all)

    def start(self) -> Worker:
        """Start one more worker."""
        number = len(self.workers) + 1
        log = self._directory / f"worker-{number}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                COMMAND,
                cwd=CHECKOUT,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        worker = Worker(number, process, log)
        self.workers.append(worker)
        return worker

    def kill(self, worker: Worker) -> Killed:
        """Kill *worker* with SIGKILL, whatever it is doing."""
        at_ms = self._clock.now_ms()
        worker.was_killed = True
        worker.process.kill()
        worker.process.wait()
        return Killed(worker.pid, at_ms)

    def check(self) -> None:
        """Raise `WorkerDied`, with the end of its log, if one has ended by itself."""
        for worker in self.workers:
            if not worker.was_killed and worker.process.poll() is not None:
                lines = worker.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
                raise WorkerDied(
                    "\n  ".join(
                        [f"worker {worker.number} ended with {worker.process.returncode}:", *lines]
                    )
                )

    def stop(self) -> None:
        """Ask all to stop, and kill those that do not."""
        for worker in self.workers:
            worker.process.terminate()
        for worker in self.workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(STOP_S)
        self._kill_all()

    def _kill_all(self) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()
