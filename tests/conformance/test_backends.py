"""The conformance suite on each backend, each check a test of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from bide.backends.local import open_local
from bide.backends.memory import open_memory
from bide.backends.port import Attendance, Backend
from bide.clock import Clock
from bide.testing import CHECKS, DEATH_CHECKS, Trial, check_backend, run_check

EACH_CHECK = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


def seat_of(worker: Attendance) -> Any:
    return cast("Any", worker)._seat


def kill_in_memory(worker: Attendance) -> None:
    """Its board stays as it is, as a dead process leaves it."""
    seat_of(worker).leave()


def kill_on_disk(worker: Attendance) -> None:
    """What the kernel does when a process dies: close its files."""
    seat_of(worker)._let_go()


@EACH_CHECK
def test_memory(check: Callable[[Trial], None]) -> None:
    run_check(check, open_memory, kill=kill_in_memory)


@EACH_CHECK
def test_local(check: Callable[[Trial], None], tmp_path: Path) -> None:
    def open_backend(clock: Clock) -> Backend:
        return open_local(tmp_path / "store", clock, sync="never")

    run_check(check, open_backend, kill=kill_on_disk)


def test_local_in_small_segments(tmp_path: Path) -> None:
    stores = iter(range(len(CHECKS)))

    def open_backend(clock: Clock) -> Backend:
        path = tmp_path / str(next(stores))
        return open_local(path, clock, sync="never", segment_size=4096)

    check_backend(open_backend)  # without the checks that kill, as another backend would run it


def test_checks_are_each_there_once() -> None:
    names = [check.__name__ for check in CHECKS]
    assert sorted(names) == sorted(set(names))
    assert set(DEATH_CHECKS) < set(CHECKS)
