"""What one to eight processes on one store do together."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench.scene import ROOT, Scene
from bench.series import Series
from bench.tasks import make_program
from bench.worker_process import WorkerProcess

COUNTS = (1, 2, 4, 8)
_POLL_S = 0.005

PUTS = {n: Series(f"enqueue, {n} processes", "jobs/s", "always") for n in COUNTS}
DRAINS = {n: Series(f"worker, no-op jobs, {n} processes", "jobs/s", "always") for n in COUNTS}

_PUTTER = """
import sys
from pathlib import Path
from bench.tasks import make_program
with make_program(Path(sys.argv[1]), "always") as program:
    program.noop.enqueue(0)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        program.noop.enqueue(number)
    print("done", flush=True)
    sys.stdin.readline()
"""


def processes(scene: Scene) -> Iterator[tuple[Series, float]]:
    """Puts one by one, each synced, one thread in each process; and no-op jobs drained."""
    for count in COUNTS:
        each = max(1, scene.sizes.sync_count // count)
        with scene.directory() as path:
            yield PUTS[count], each * count / _put_s(path, count, each)
        with scene.directory() as path:
            yield DRAINS[count], _drain_rate(path, count, scene.sizes.drain_count * 2)


def _put_s(path: Path, count: int, each: int) -> float:
    with contextlib.ExitStack() as running:
        putters: list[subprocess.Popen[str]] = []
        for _ in range(count):
            command = [sys.executable, "-c", _PUTTER, str(path), str(each)]
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            putters.append(running.enter_context(process))
            _expect(process, "ready")
        start_s = time.perf_counter()
        for process in putters:
            _say(process)
        for process in putters:
            _expect(process, "done")
        took_s = time.perf_counter() - start_s
        for process in putters:
            _say(process)
        return took_s


def _say(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _expect(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if line != word:
        raise RuntimeError(f"a putter said {line!r}, and not {word!r}")


def _drain_rate(path: Path, count: int, jobs: int) -> float:
    """Of so many workers, who all wait at a queue that is paused until they are there."""
    pause = threading.Event()  # never set
    with make_program(path, "never") as program, contextlib.ExitStack() as running:
        app, queue = program.app, program.noop.options.queue
        app.enqueue_many(program.noop.request(n) for n in range(jobs))
        app.pause(queue)
        workers = [running.enter_context(WorkerProcess(path, "always")) for _ in range(count)]
        while len(app.stats().owners) < count:
            pause.wait(_POLL_S)
        start_s = time.perf_counter()
        app.resume(queue)
        while app.stats().queues[0].succeeded_total < jobs:
            pause.wait(_POLL_S)
        took_s = time.perf_counter() - start_s
        for worker in workers:
            worker.stop()
        return jobs / took_s
