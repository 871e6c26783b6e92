"""What a put and a worker's turn ask of the system, counted: numbers that no machine changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bide.backends.local import open_local
from bide.backends.port import Backend
from bide.model.commands import Completed, Settlement
from bide.model.job import NewJob
from bide.storage.disk import OsDisk
from bide.testing import ManualClock
from tests.unit.storage.children import in_child

JOB = NewJob(queue="q", task="t", args=b"x" * 100, due_ms=0)
IO = Path("/proc/self/io")
COUNTED = ("sync", "sync_directory", "write", "read", "end", "size", "open", "reserve", "truncate")


class Counted:
    """Counts the calls of the disk, and the kernel's own count of writes: LMDB's too."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.writes = 0
        for name in COUNTED:
            setattr(OsDisk, name, self._counting(name, getattr(OsDisk, name)))

    def count(self, work: Callable[[], object]) -> tuple[dict[str, int], int]:
        self.calls.clear()
        before = _writes()
        work()
        return dict(self.calls), _writes() - before

    def _counting(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def counting(disk: OsDisk, *args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return method(disk, *args, **options)

        return counting


def _writes() -> int:
    if not IO.exists():
        return 0
    fields = dict(line.split(": ") for line in IO.read_text().splitlines())
    return int(fields["syscw"])


def opened(path: Path) -> tuple[Backend, Counted]:
    backend = open_local(path / "store", ManualClock(), sync="always")
    backend.put([JOB])  # the log's first segment is made
    return backend, Counted()


def counted_puts(path: Path) -> tuple[dict[str, int], int]:
    backend, counted = opened(path)

    def put() -> None:
        for _ in range(50):
            backend.put([JOB])

    return counted.count(put)


def counted_batch(path: Path) -> tuple[dict[str, int], int]:
    backend, counted = opened(path)
    return counted.count(lambda: backend.put([JOB] * 1_000))


def counted_turn(path: Path) -> tuple[dict[str, int], int]:
    backend, counted = opened(path)
    backend.put([JOB] * 1_000)
    attendance = backend.attend(("q",))
    leases = backend.reserve(attendance.owner, ("q",), 100).leases
    settlements = [Settlement(lease.job.id, lease.attempt, Completed()) for lease in leases]

    def turn() -> None:
        assert len(backend.reserve(attendance.owner, ("q",), 100, settlements).leases) == 100
        backend.sync()

    backend.sync()
    return counted.count(turn)


@pytest.mark.parametrize("attempt", range(3))
def test_a_put_alone_is_one_write_of_the_log_and_one_sync(tmp_path: Path, attempt: int) -> None:
    calls, writes = in_child(lambda: counted_puts(tmp_path))
    assert calls == {"sync": 50, "write": 50, "read": 50, "size": 50}
    assert writes <= 5 * 50  # its own, and four of LMDB's


@pytest.mark.parametrize("attempt", range(3))
def test_a_thousand_jobs_are_one_write_of_the_log_and_one_sync(
    tmp_path: Path, attempt: int
) -> None:
    calls, writes = in_child(lambda: counted_batch(tmp_path))
    assert calls == {"sync": 1, "write": 2, "read": 1, "size": 1}  # a large body is not joined
    assert writes <= 12


@pytest.mark.parametrize("attempt", range(3))
def test_a_turn_of_a_worker_is_one_write_of_the_log_and_one_sync(
    tmp_path: Path, attempt: int
) -> None:
    calls, writes = in_child(lambda: counted_turn(tmp_path))
    assert calls == {"sync": 1, "write": 1, "read": 1, "size": 1}
    assert writes <= 12
