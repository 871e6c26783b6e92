"""The program that is measured: what a user of bide writes, with nothing set but *sync*."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

import bide
from bide import SystemClock, Task
from bide.backends.port import Sync

NOTE = struct.Struct("=qqq")
"""What `note` writes: its argument, the Unix ms, and the monotonic clock in ns."""

assert NOTE.size <= 512, "a pipe takes up to PIPE_BUF bytes in one piece, and POSIX says 512"


class Program(msgspec.Struct, frozen=True):
    """An App and its tasks."""

    app: bide.App
    noop: Task[[int], None]
    note: Task[[int], None]
    """Writes when it started to the program's pipe."""


@contextlib.contextmanager
def make_program(path: Path, sync: Sync, notes_fd: int = -1) -> Iterator[Program]:
    """The program on the store at *path*, closed afterwards.

    Args:
        notes_fd: Where `note` writes; a program that only puts has no need of it.
    """
    clock = SystemClock()
    with bide.App(path.as_uri(), sync=sync) as app:

        @app.task(name="noop")
        def noop(n: int) -> None:
            del n

        @app.task(name="note")
        def note(n: int) -> None:
            os.write(notes_fd, NOTE.pack(n, clock.now_ms(), time.monotonic_ns()))

        yield Program(app, noop, note)
