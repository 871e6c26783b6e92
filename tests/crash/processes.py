"""Real processes on one store, and what is left when they have been killed."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import bide
from bide.format.commit import decode_commit
from bide.format.identity import decode_identity
from bide.model.facts import Fact, JobsCompleted
from bide.storage.directory import Directory, open_directory
from bide.storage.index import IndexView
from bide.storage.recovery import rebuild
from bide.storage.tables import TABLE_NAMES, MemoryTables, Table, Transaction

ROOT = Path(__file__).parents[2]

GUARD_S = 90
"""No process is silent for so long unless it hangs."""


class Child:
    """A process of the test, that speaks in lines."""

    running: ClassVar[set[Child]] = set()
    """Those whose end was not waited for yet."""

    def __init__(
        self,
        path: Path,
        *args: str,
        env: Mapping[str, str] = {},
        new_session: bool = False,
        stderr: IO[bytes] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", *args],
            cwd=ROOT,
            env={**os.environ, "BIDE_URL": path.as_uri(), **env},
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=new_session,
        )
        assert self.process.stdout is not None
        self._pipe = self.process.stdout
        self._said = bytearray()
        self.running.add(self)

    @property
    def pid(self) -> int:
        return self.process.pid

    def read(self, count: int) -> list[list[str]]:
        """The next *count* lines, in words; blocks until they are there."""
        lines = [self._line().split() for _ in range(count)]
        assert all(lines), f"{self.process.args!r} ended too early, or spoke an empty line"
        return lines

    def read_starts(self, count: int) -> list[list[str]]:
        """The next *count* lines that tell of a run's start."""
        starts: list[list[str]] = []
        while len(starts) < count:
            (words,) = self.read(1)
            starts += [words] if words[:1] == ["start"] else []
        return starts

    def read_until(self, word: str) -> list[str]:
        """The next line that starts with *word*, whatever comes before it."""
        while (words := self.read(1)[0])[0] != word:
            pass
        return words

    def skip(self) -> None:
        """Leave out all that it has said so far."""
        while select.select([self], [], [], 0)[0] and self.listen():
            pass
        del self._said[: self._said.rfind(b"\n") + 1]

    def kill(self) -> None:
        self.process.kill()

    def rest(self) -> list[list[str]]:
        """What it still said; waits for its end."""
        lines: list[list[str]] = []
        while line := self._line():
            lines.append(line.split())
        self._pipe.close()
        self.process.wait(GUARD_S)
        self.running.discard(self)
        return lines

    def stop(self) -> list[list[str]]:
        """Have it end as a service manager does, and well; what it still said."""
        self.process.terminate()
        lines = self.rest()
        assert self.process.returncode == 0, f"{self.process.args!r} did not end well"
        return lines

    def fileno(self) -> int:
        return self._pipe.fileno()

    @property
    def has_line(self) -> bool:
        return b"\n" in self._said

    def listen(self) -> bool:
        """Take in what it has said, waiting for that; False at the end."""
        there, _, _ = select.select([self], [], [], GUARD_S)
        assert there, f"{self.process.args!r} says nothing"
        part = os.read(self.fileno(), 1 << 16)
        self._said += part
        return bool(part)

    def _line(self) -> str:
        """The next whole line; "" at the end."""
        while not self.has_line:
            if not self.listen():
                return ""
        end = self._said.index(b"\n") + 1
        line = self._said[:end].decode()
        del self._said[:end]
        return line


def read_any(children: Sequence[Child]) -> list[str]:
    """The next line of whichever of them speaks first, in words."""
    while True:
        for child in children:
            if child.has_line:
                return child.read(1)[0]
        speaking, _, _ = select.select(children, [], [], GUARD_S)
        assert speaking, "none of them says anything"
        for child in speaking:
            assert child.listen(), f"{child.process.args!r} ended too early"


def putter(path: Path, first: int, batch: int) -> Child:
    return Child(path, "tests.crash.putter", str(first), str(batch))


def worker(path: Path, *options: str, **how: Any) -> Child:
    return Child(path, "bide.cli", "worker", "tests.crash.app:app", *options, **how)


def wait_until_gone(handle: bide.Handle) -> None:
    """Wait until a job has succeeded; its worker then finds nothing else, and goes to sleep."""
    until_s = time.monotonic() + GUARD_S
    while handle.get() is not None:
        assert time.monotonic() < until_s, f"job {handle.id} goes on"


def directory_of(path: Path) -> Directory:
    identity = decode_identity((path / "bide.json").read_bytes())
    return open_directory(path, create=False, new_identity=identity)


def facts(path: Path) -> Iterator[Fact]:
    """Every fact in the store's log, oldest first."""
    parts = directory_of(path).open_to_read()
    tables, log = parts.environment, parts.log
    try:
        with tables.begin(write=False) as txn:
            until = IndexView(txn, tables.tables).position()
        for record, _ in log.read(until):
            for fact, _ in decode_commit(record.body):
                yield fact
    finally:
        parts.close()


def completions(path: Path) -> list[int]:
    """The ids of all jobs that were settled as done, as often as they were."""
    return [job.id for fact in facts(path) if isinstance(fact, JobsCompleted) for job in fact.jobs]


def check_store(path: Path) -> None:
    """The law: what the log makes anew is what the index says, in every row."""
    directory = directory_of(path)
    parts = directory.open_to_read()
    tables, log = parts.environment, parts.log
    anew = MemoryTables()
    try:
        with tables.begin(write=False) as txn:
            until = IndexView(txn, tables.tables).position()
        rebuild(log, anew, until)
        with tables.begin(write=False) as txn, anew.begin(write=False) as other:
            for name in TABLE_NAMES:
                rows = list(_rows(txn, tables.tables[name]))
                assert rows == list(_rows(other, anew.tables[name])), f"table {name} differs"
    finally:
        parts.close()


def _rows(txn: Transaction, table: Table) -> Iterator[tuple[bytes, bytes]]:
    cursor = txn.cursor(db=table)
    found = cursor.set_range(b"\0")
    while found:
        yield bytes(cursor.key()), bytes(cursor.value())
        found = cursor.next()
