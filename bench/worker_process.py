"""One worker in a process of its own: ``python -m bench.worker_process``.

It prints how it went when it is done, and stops early if its standard
input ends, so that it never outlives who started it. The clock runs while
the worker does: the start of Python, and imports, are not bide's.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import msgspec

from bench.scene import ROOT
from bench.tasks import make_program
from bide.backends.port import Sync
from bide.worker.options import WorkerOptions
from bide.worker.worker import Worker

_ROLLUP = Path("/proc/self/smaps_rollup")
_KIB = 1024


class Report(msgspec.Struct, frozen=True):
    """How it went."""

    took_s: float
    succeeded: int
    memory_size: int | None
    """Bytes that are this process's alone and no file's; None: this system does not say."""


class WorkerProcess:
    """A worker on the store at *path*, with the options that users get unless said otherwise."""

    def __init__(
        self,
        path: Path,
        sync: Sync,
        *,
        threads: int | None = None,
        burst: bool = False,
        notes_fd: int = -1,
    ) -> None:
        arguments = [str(path), sync, f"--notes-fd={notes_fd}"]
        if threads is not None:
            arguments.append(f"--threads={threads}")
        if burst:
            arguments.append("--burst")
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[notes_fd] if notes_fd >= 0 else [],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def stop(self) -> Report:
        """Let it stop, and hear how it went."""
        stdout, _ = self._process.communicate()
        return self._report(stdout)

    def wait(self) -> Report:
        """Hear how it went once it has stopped by itself (`burst`)."""
        assert self._process.stdout is not None
        stdout = self._process.stdout.read()
        self._process.wait()
        return self._report(stdout)

    def _report(self, stdout: bytes) -> Report:
        if self._process.returncode != 0:
            raise RuntimeError(f"the worker process ended with {self._process.returncode}")
        return msgspec.json.decode(stdout, type=Report)


def memory_size() -> int | None:
    """Bytes of this process that no file and no other process has; None: unknown here."""
    if not _ROLLUP.exists():
        return None
    found = re.search(r"^Anonymous: +(\d+) kB$", _ROLLUP.read_text(), re.MULTILINE)
    return int(found[1]) * _KIB if found else None


def _run(path: Path, sync: Sync, options: WorkerOptions, notes_fd: int) -> Report:
    with make_program(path, sync, notes_fd) as program:
        worker = Worker(program.app, options)

        def stop_with_stdin() -> None:
            while os.read(0, 1):  # not sys.stdin: its lock would hold up the end of the process
                pass
            worker.stop()

        threading.Thread(target=stop_with_stdin, daemon=True).start()
        start_s = time.perf_counter()
        summary = worker.run()
        took_s = time.perf_counter() - start_s
        return Report(took_s, summary.succeeded, memory_size())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    parser.add_argument("sync", choices=("always", "interval", "never"))
    parser.add_argument("--threads", type=int, default=WorkerOptions().threads)
    parser.add_argument("--burst", action="store_true")
    parser.add_argument("--notes-fd", type=int, default=-1)
    given = parser.parse_args()
    options = WorkerOptions(threads=given.threads, burst=given.burst)
    report = _run(given.path, cast("Sync", given.sync), options, given.notes_fd)
    print(msgspec.json.encode(report).decode(), flush=True)


if __name__ == "__main__":
    main()
