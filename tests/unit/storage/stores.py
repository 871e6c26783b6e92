"""Whole stores in directories: put to, looked at, held to the law."""

from __future__ import annotations

import contextlib
from pathlib import Path

from bide.backends.local import existing_directory, open_local, open_upkeep
from bide.backends.port import Backend
from bide.clock import SystemClock
from bide.model.job import NewJob, State
from bide.storage.check import check
from bide.storage.directory import Directory
from bide.storage.environment import LmdbTables
from bide.storage.log_files import LogFiles, Position
from bide.storage.recovery import position_of
from tests.model.rebuild import Rows, rows_of

CLOCK = SystemClock()
SEGMENT_SIZE = 4096
SPARE = ("ballast", "lock", "users", "upkeep", "owners", "followers")
"""What may stand in a store beside its files and parts."""


def opened(path: Path) -> contextlib.closing[Backend]:
    backend = open_local(path, CLOCK, sync="never", segment_size=SEGMENT_SIZE)
    return contextlib.closing(backend)


def put(path: Path, *args: bytes, size: int = 1) -> None:
    """Put a job for each of *args*, *size* in a record."""
    with opened(path) as backend:
        for at in range(0, len(args), size):
            backend.put([new_job(one) for one in args[at : at + size]])


def new_job(args: bytes) -> NewJob:
    return NewJob(queue="q", task="t", args=args, due_ms=0)


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%06d" % number * 50 for number in range(first, first + count)]


def args_of(path: Path) -> list[bytes]:
    """What the waiting jobs carry."""
    with opened(path) as backend:
        page = backend.list(queue=None, state=State.READY, limit=1_000)
    return sorted(info.job.args for info in page.jobs)


def upkeep(path: Path, *, compact: bool = False) -> None:
    with open_upkeep(path, CLOCK) as care:
        care.run(compact=compact)


def directory_at(path: Path) -> Directory:
    return existing_directory(path)


def log_files(path: Path) -> LogFiles:
    directory = directory_at(path)
    return directory.log_files(directory.read_state().log)


def end_of(path: Path) -> Position:
    """Where the index says that the log ends."""
    directory = directory_at(path)
    tables = LmdbTables(directory.index_path(directory.read_state().index))
    with contextlib.closing(tables):
        return position_of(tables)


def rows_at(path: Path) -> Rows:
    directory = directory_at(path)
    tables = LmdbTables(directory.index_path(directory.read_state().index))
    with contextlib.closing(tables):
        return rows_of(tables)


def assert_sound(path: Path) -> None:
    """The law, as `bide check` has it: the index is what checkpoint and log make of nothing."""
    findings = check(directory_at(path))
    assert not findings.faults, findings.faults


def assert_tidy(path: Path) -> None:
    """One index, one log with one checkpoint at most, and nothing unfinished."""
    directory = directory_at(path)
    state = directory.read_state()
    index, log = directory.index_path(state.index), directory.log_path(state.log)
    names = {entry.name for entry in path.iterdir()}
    assert names - set(SPARE) == {"bide.json", "state.json", index.name, log.name}
    left = [entry for entry in path.rglob("*") if entry.name.endswith(".new")]
    assert left == []
    assert len(list(log.glob("*.checkpoint"))) <= 1


def log_bytes(path: Path) -> bytes:
    """The log up to its end, one segment behind the other."""
    files, end = log_files(path), end_of(path).end
    return b"".join(bytes(files.segment(base))[: max(0, end - base)] for base in files.bases())
