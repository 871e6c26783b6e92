"""What upkeep costs those who work meanwhile, and how long a store takes to come back."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from bench.scene import ROOT, Scene
from bench.series import Series, percentile
from bench.tasks import make_program
from bide.format.state import FILE_NAME, decode_state, encode_state
from bide.model.commands import Completed, Settlement

_MS = 1_000

ALONE_P99 = Series("enqueue, many delayed jobs pending, p99", "ms", "always")
PUT_P99 = Series("enqueue beside checkpoints and compactions, p99", "ms", "always")
PUT_MAX = Series("enqueue while it goes on, worst", "ms", "always")
TURN_P99 = Series("reserve and settle while it goes on, p99", "ms", "always")
TURN_MAX = Series("reserve and settle while it goes on, worst", "ms", "always")
ROUND = Series("a checkpoint and a compaction, many delayed jobs pending", "ms")
REOPEN = Series("opening after a kill, many delayed jobs pending", "ms")
RECOVERY = Series("opening after a power cut, many delayed jobs pending", "ms")


def upkeep(scene: Scene) -> Iterator[tuple[Series, float]]:
    """Put, reserve and settle beside a process that does nothing but upkeep."""
    path = scene.delayed_store(scene.sizes.delayed_count_many)
    count = scene.sizes.sync_count
    alone, _ = _work(path, count, None)
    yield ALONE_P99, percentile(alone, 0.99)
    with _keeper(path) as keeper:
        start_s, rounds = time.perf_counter(), int(keeper.readline())
        puts, turns = _work(path, count, keeper)
        rounds = keeper.count - rounds
        took_s = time.perf_counter() - start_s
    yield PUT_P99, percentile(puts, 0.99)
    yield PUT_MAX, max(puts)
    yield TURN_P99, percentile(turns, 0.99)
    yield TURN_MAX, max(turns)
    yield ROUND, took_s / max(rounds, 1) * _MS


def reopen(scene: Scene) -> Iterator[tuple[Series, float]]:
    """Open a store that a killed process, and then the machine, has left behind."""
    path = scene.delayed_store(scene.sizes.delayed_count_many)
    _leave_by_kill(path)
    yield REOPEN, _open_ms(path)
    _leave_by_kill(path)
    state_file = path / FILE_NAME
    state = decode_state(state_file.read_bytes())
    state_file.write_bytes(encode_state(replace(state, boot="another", closed_at=None)))
    yield RECOVERY, _open_ms(path)


class _Keeper:
    """The process that does the upkeep."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.count = 0

    def readline(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.count = int(line)
        return line

    def wait_for_another(self) -> None:
        self.readline()


@contextlib.contextmanager
def _keeper(path: Path) -> Iterator[_Keeper]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.upkeep_process", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield _Keeper(process)
    finally:
        process.communicate()


def _work(path: Path, count: int, keeper: _Keeper | None) -> tuple[list[float], list[float]]:
    """How long puts, and settlements with their reserve, take, in ms each.

    With a keeper: for at least three of its rounds.
    """
    puts: list[float] = []
    turns: list[float] = []
    with make_program(path, "always") as program:
        backend, queues = program.app.backend, (program.noop.options.queue,)
        attendance = backend.attend(queues)
        first = keeper.count if keeper else 0
        try:
            while len(puts) < count or (keeper is not None and keeper.count < first + 3):
                if keeper is not None and len(puts) % count == count - 1:
                    keeper.wait_for_another()
                start_s = time.perf_counter()
                program.noop.enqueue(1)
                put_s = time.perf_counter()
                leases = backend.reserve(attendance.owner, queues, 8).leases
                done = [Settlement(x.job.id, x.attempt, Completed()) for x in leases]
                backend.reserve(attendance.owner, queues, 0, done)
                puts.append((put_s - start_s) * _MS)
                turns.append((time.perf_counter() - put_s) * _MS)
        finally:
            attendance.leave()
    return puts, turns


def _leave_by_kill(path: Path) -> None:
    """Have a process put a job, and end without closing anything."""
    pid = os.fork()
    if pid == 0:
        with make_program(path, "always") as program:
            program.noop.using(delay=3600).enqueue(1)
            os._exit(0)
    os.waitpid(pid, 0)


def _open_ms(path: Path) -> float:
    start_s = time.perf_counter()
    with make_program(path, "always") as program:
        program.app.stats()
        return (time.perf_counter() - start_s) * _MS
