"""`bide.storage.log` on a disk that fails at every call of every method in turn."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from bide.errors import StoreError, StoreFailed, StoreFull, StoreReadOnly
from bide.storage.log import WRITE_SIZE_JOINED, SegmentLog
from bide.storage.log_files import START, Position
from tests.unit.storage.disks import FaultyDisk
from tests.unit.storage.test_log import SEGMENT_SIZE, fill, open_log, read_bodies

ERRORS: dict[int, type[StoreError]] = {
    errno.ENOSPC: StoreFull,
    errno.EDQUOT: StoreFull,
    errno.EIO: StoreFailed,
    errno.EROFS: StoreReadOnly,
}
OLD = [b"one", b"two"]
FULL = [b"one", b"x" * SEGMENT_SIZE]

Scene = Callable[[Path, FaultyDisk], tuple[SegmentLog, Position, list[bytes], bytes]]
"""A log about to append, the end it appends at, what is in it, and the body to append."""


def first(path: Path, disk: FaultyDisk) -> tuple[SegmentLog, Position, list[bytes], bytes]:
    return open_log(path, disk=disk), START, [], b"new"


def first_after_an_aborted_one(
    path: Path, disk: FaultyDisk
) -> tuple[SegmentLog, Position, list[bytes], bytes]:
    log = open_log(path, disk=disk)
    log.append(b"aborted", START, 0)
    return log, START, [], b"new"


def middle(path: Path, disk: FaultyDisk) -> tuple[SegmentLog, Position, list[bytes], bytes]:
    log = open_log(path, disk=disk)
    return log, fill(log, OLD)[-1], OLD, b"new"


def large(path: Path, disk: FaultyDisk) -> tuple[SegmentLog, Position, list[bytes], bytes]:
    log = open_log(path, disk=disk, segment_size=1 << 21)
    return log, fill(log, OLD)[-1], OLD, b"n" * (WRITE_SIZE_JOINED + 1)


def over_a_tail(path: Path, disk: FaultyDisk) -> tuple[SegmentLog, Position, list[bytes], bytes]:
    log = open_log(path, disk=disk)
    at = fill(log, OLD)[-1]
    log.append(b"left by a dead writer", at, 0)
    return log, at, OLD, b"new"


def roll(path: Path, disk: FaultyDisk) -> tuple[SegmentLog, Position, list[bytes], bytes]:
    log = open_log(path, disk=disk)
    return log, fill(log, FULL)[-1], FULL, b"new"


def roll_by_another(
    path: Path, disk: FaultyDisk
) -> tuple[SegmentLog, Position, list[bytes], bytes]:
    at = fill(open_log(path), FULL)[-1]
    return open_log(path, disk=disk), at, FULL, b"new"


def after_the_roll_of_another(
    path: Path, disk: FaultyDisk
) -> tuple[SegmentLog, Position, list[bytes], bytes]:
    log = open_log(path, disk=disk)
    at = fill(log, FULL)[-1]
    return log, open_log(path).append(b"rolled", at, 0), [*FULL, b"rolled"], b"new"


SCENES: list[Scene] = [
    first,
    first_after_an_aborted_one,
    middle,
    large,
    over_a_tail,
    roll,
    roll_by_another,
    after_the_roll_of_another,
]
EACH_SCENE = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
EACH_ERROR = pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.__getitem__)


def calls_of(scene: Scene, path: Path) -> list[str]:
    """What an append in *scene* asks of the disk."""
    path.mkdir()
    disk = FaultyDisk()
    log, at, _, body = scene(path, disk)
    disk.calls.clear()
    log.append(body, at, 0)
    calls = list(disk.calls)
    log.close()
    return calls


@EACH_SCENE
@EACH_ERROR
def test_a_failure_is_typed_and_nothing_counts_as_written(
    tmp_path: Path, scene: Scene, code: int
) -> None:
    calls = calls_of(scene, tmp_path / "whole")
    for number, call in enumerate(calls):
        path = tmp_path / str(number)
        path.mkdir()
        disk = FaultyDisk()
        log, at, old, body = scene(path, disk)
        disk.fail(code, at=number)
        error: StoreError | None = None
        end = at
        try:
            end = log.append(body, at, 0)
        except StoreError as refusal:
            error = refusal
        if error is not None:
            assert isinstance(error, ERRORS[code] | StoreFailed), (number, call, error)
            assert error.path.startswith(str(path))
            disk.heal()
            assert read_bodies(log, at) == old
            end = log.append(b"the next one", at, 0)
            body = b"the next one"
        else:
            assert call in {"reserve", "close"}, f"{number}: {call} failed and was not noticed"
            disk.heal()
        assert read_bodies(log, end) == [*old, body]
        assert len(disk.descriptors) == 1, f"{number}: {call} leaked a descriptor"
        log.close()
        assert not disk.descriptors


@EACH_ERROR
def test_a_failed_sync_of_old_records_is_final_while_rolling(tmp_path: Path, code: int) -> None:
    # The kernel has dropped what it could not write: to try again would succeed, and be a lie.
    disk = FaultyDisk()
    log, at, _, body = roll(tmp_path, disk)
    disk.fail(code, at=calls_of(roll, tmp_path / "whole").index("sync"))
    with pytest.raises(StoreFailed):
        log.append(body, at, 0)


def test_no_room_to_reserve_is_no_failure_while_the_record_fits(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    disk.fail(errno.ENOSPC, method="reserve")
    ends = fill(log, OLD)
    assert disk.count("reserve") > 0
    assert read_bodies(log, ends[-1]) == read_bodies(log) == OLD


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_sync_that_failed_says_what_may_be_lost(tmp_path: Path, code: int) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    fill(log, OLD)
    disk.fail(code, method="sync")
    with pytest.raises(StoreFailed, match="may be lost") as caught:
        log.sync()
    assert caught.value.path.endswith(".log")


def test_a_log_that_wrote_nothing_has_nothing_to_sync(tmp_path: Path) -> None:
    disk = FaultyDisk()
    log = open_log(tmp_path, disk=disk)
    log.sync()
    fill(log, OLD)
    log.sync()
    syncs = disk.count("sync")
    log.close()
    log.sync()
    log.close()
    assert disk.count("sync") == syncs
    assert not disk.descriptors


def test_a_segment_is_synced_before_the_next_one_exists(tmp_path: Path) -> None:
    calls = calls_of(roll, tmp_path / "whole")
    assert calls.index("truncate") < calls.index("sync") < calls.index("open")
    assert "sync_directory" in calls
    last_write = len(calls) - 1 - calls[::-1].index("write")
    assert calls.index("sync_directory") < last_write  # the segment is found before it holds any
