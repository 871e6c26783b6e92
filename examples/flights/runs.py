"""What was run: a line for each run, noted before the task returns.

Each process has a file of its own and adds a line to it in one write, which
a SIGKILL does not undo: a run that is not noted has not happened.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import msgspec

import bide

DIRECTORY = "FLIGHTS_RUNS"
"""The variable of the environment that says where the files are."""


class Run(msgspec.Struct, frozen=True, array_like=True):
    """One run of a job, as its line has it: a JSON array of these."""

    queue: str
    job_id: int
    key: str
    attempt: int
    pid: int
    due_ms: int
    start_ms: int


def note_run(ctx: bide.Context, start_ms: int) -> None:
    """Note that the job of *ctx* is running, since *start_ms*."""
    pid = os.getpid()
    due_ms = round(ctx.due.timestamp() * 1000)
    run = Run(ctx.queue, ctx.job_id, ctx.key or "", ctx.attempt, pid, due_ms, start_ms)
    os.write(_file(pid), msgspec.json.encode(run) + b"\n")


@functools.cache
def _file(pid: int) -> int:
    path = Path(os.environ[DIRECTORY]) / f"{pid}.jsonl"
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


class RunReader:
    """Reads the runs in a directory as they are noted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._offsets: dict[Path, int] = {}
        self._decode = msgspec.json.Decoder(Run).decode

    def read_new(self) -> list[Run]:
        """What was noted since the last call; of one process, in order."""
        runs: list[Run] = []
        for path in sorted(self._directory.glob("*.jsonl")):
            offset = self._offsets.get(path, 0)
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read()
            size = data.rfind(b"\n") + 1
            self._offsets[path] = offset + size
            runs += map(self._decode, data[:size].splitlines())
        return runs
