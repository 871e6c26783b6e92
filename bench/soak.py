"""``python -m bench.soak``: many jobs in and out at full speed; how large the store gets.

``JOBS=n`` in the environment: how many, ten million by default. A process
puts, two workers drain; the sizes of the directory and the rate are shown
as it goes, and the last tenth is held against the first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from rich.console import Console

from bench.scene import ROOT
from bench.tasks import Program, make_program
from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker

JOBS = 10_000_000
SIZE_MAX = 200 << 20
RATE_MIN = 0.9
_BATCH = 1_000
_BACKLOG_MAX = 20_000
_WORKERS = 2
_WAIT_S = 0.005
_PARTS = 10


def directory_size(path: Path) -> int:
    """Bytes that the files under *path* take on the disk."""
    size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                size += (Path(folder) / name).stat().st_blocks * 512
            except FileNotFoundError:
                continue  # trimmed meanwhile
    return size


def soak(count: int, path: Path, console: Console) -> bool:
    """Put and drain *count* jobs; whether size and rate are as they should be."""
    pause = threading.Event()
    with make_program(path, "always") as program:
        program.app.stats()  # made before the workers look for it
        workers = [
            subprocess.Popen([sys.executable, "-m", "bench.soak", "--worker", str(path)], cwd=ROOT)
            for _ in range(_WORKERS)
        ]
        rates: list[float] = []
        sizes: list[int] = []
        try:
            done = 0
            for part in range(_PARTS):
                start_s = time.perf_counter()
                goal = count * (part + 1) // _PARTS
                while done < goal:
                    program.app.enqueue_many(program.noop.request(n) for n in range(_BATCH))
                    done += _BATCH
                    while _backlog(program) > _BACKLOG_MAX:
                        pause.wait(_WAIT_S)
                    if done % 100_000 < _BATCH:
                        sizes.append(directory_size(path))
                rates.append((count // _PARTS) / (time.perf_counter() - start_s))
                sizes.append(directory_size(path))
                now, most = (size / (1 << 20) for size in (sizes[-1], max(sizes)))
                console.print(
                    f"{done:>12,} jobs  {rates[-1]:>9,.0f} jobs/s  "
                    f"{now:>7.1f} MiB now  {most:>7.1f} MiB at most",
                    highlight=False,
                )
            while _backlog(program):
                pause.wait(_WAIT_S)
        finally:
            for worker in workers:
                worker.send_signal(signal.SIGTERM)
            for worker in workers:
                worker.wait()
        (queue,) = program.app.stats().queues
        assert queue.succeeded_total == done, "a job was lost, or settled twice"
    ratio = rates[-1] / rates[0]
    console.print(
        f"soak: jobs={done} lost=0 sync=always at_most={max(sizes) / (1 << 20):.0f}MiB "
        f"(goal {SIZE_MAX >> 20}) end_to_start={ratio:.2f} (goal {RATE_MIN})",
        highlight=False,
        soft_wrap=True,
    )
    return max(sizes) < SIZE_MAX and ratio >= RATE_MIN


def _backlog(program: Program) -> int:
    return sum(queue.waiting + queue.running for queue in program.app.stats().queues)


def _work(path: Path) -> None:
    with make_program(path, "always") as program:
        worker = Worker(program.app, WorkerOptions(threads=4))
        signal.signal(signal.SIGTERM, lambda *_: worker.stop())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        worker.run()


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        _work(Path(sys.argv[2]))
        return
    count = int(os.environ.get("JOBS", "") or JOBS)
    place = ROOT / ".bench"
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as name:
        reached = soak(count, Path(name) / "store", Console())
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    main()
