"""`bide.storage.log_end`: the log's end moved on purpose, and the index with it."""

from __future__ import annotations

import contextlib
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from bide.errors import LogTrimmed, OutOfStep, StoreError
from bide.storage.log_end import LogReader, checkpoint_position, roll_back, roll_forward
from tests.power import forget_boot
from tests.unit.storage.dying import failing, is_killed
from tests.unit.storage.stores import (
    args_of,
    assert_sound,
    assert_tidy,
    directory_at,
    end_of,
    log_files,
    numbered,
    put,
    rows_at,
    upkeep,
)

RECORD_COUNT = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of several segments, one job in each record."""
    put(tmp_path / "store", *numbered(0, RECORD_COUNT))
    assert len(log_files(tmp_path / "store").bases()) > 3
    return tmp_path / "store"


def ends_of(path: Path) -> list[int]:
    """Where each record ends."""
    return [position.end for _, position in log_files(path).read(end_of(path))]


def segment_ends(path: Path) -> list[int]:
    return log_files(path).bases()[1:]


def roll(path: Path, end: int) -> None:
    directory = directory_at(path)
    with directory.alone():
        assert roll_back(directory, end).end == end


# ---------------------------------------------------------------- back


@pytest.mark.parametrize("back", [1, 2, 7, 20, 45, RECORD_COUNT - 1])
def test_back_within_and_across_segments(path: Path, back: int) -> None:
    end = ends_of(path)[-1 - back]
    roll(path, end)
    assert end_of(path).end == end
    files = log_files(path)
    assert files.bases()[-1] + len(files.segment(files.bases()[-1])) == end
    assert args_of(path) == numbered(0, RECORD_COUNT - back)
    assert_sound(path)
    assert_tidy(path)
    forget_boot(path)
    assert args_of(path) == numbered(0, RECORD_COUNT - back)
    put(path, *numbered(500, 40))
    assert args_of(path) == numbered(0, RECORD_COUNT - back) + numbered(500, 40)
    assert_sound(path)


def test_back_to_the_end_changes_nothing(path: Path) -> None:
    before, rows = end_of(path), rows_at(path)
    roll(path, before.end)
    assert end_of(path) == before
    assert rows_at(path) == rows


def test_back_to_the_end_of_each_segment(path: Path) -> None:
    for end in reversed(segment_ends(path)):
        roll(path, end)
        assert end_of(path).end == end
        assert_sound(path)


def test_back_to_nothing_stays_nothing_after_a_power_cut(path: Path) -> None:
    roll(path, 0)
    forget_boot(path)
    assert args_of(path) == []
    assert end_of(path).end == 0
    put(path, b"new")
    assert args_of(path) == [b"new"]
    assert_sound(path)


def test_back_to_the_checkpoint_and_no_further(path: Path) -> None:
    upkeep(path)
    at = end_of(path).end
    put(path, *numbered(100, 40))
    directory = directory_at(path)
    before = end_of(path)
    with directory.alone(), pytest.raises(LogTrimmed) as caught:
        roll_back(directory, at - 1)
    assert (caught.value.offset, caught.value.start) == (at - 1, at)
    assert end_of(path) == before
    roll(path, at)
    assert args_of(path) == numbered(0, RECORD_COUNT)
    assert checkpoint_position(directory, directory.read_state().log).end == at
    assert_sound(path)
    assert_tidy(path)


@pytest.mark.parametrize("with_checkpoint", [True, False])
def test_an_end_that_no_record_has_is_refused(path: Path, *, with_checkpoint: bool) -> None:
    if with_checkpoint:
        upkeep(path)
        put(path, *numbered(100, 40))
    before, rows = end_of(path), rows_at(path)
    directory = directory_at(path)
    ends = ends_of(path) if not with_checkpoint else [before.end]
    wrong = [before.end + 1, before.end + 10_000, before.end - 1, ends[-1] - 9]
    for end in wrong:
        with directory.alone(), pytest.raises(OutOfStep) as caught:
            roll_back(directory, end)
        assert caught.value.offset == end
        if end > before.end:
            assert caught.value.end == before.end
            assert str(end) in str(caught.value)
            assert str(before.end) in str(caught.value)
    assert end_of(path) == before
    assert rows_at(path) == rows
    assert_tidy(path)


def test_killed_at_every_call_it_has_the_old_end_or_the_new(path: Path, tmp_path: Path) -> None:
    old, new = end_of(path).end, ends_of(path)[20]
    jobs = {old: numbered(0, RECORD_COUNT), new: numbered(0, 21)}
    seen: set[int] = set()
    at = 0
    while True:
        copy = tmp_path / "copy"
        shutil.copytree(path, copy)
        killed = is_killed(lambda at=at, copy=copy: roll(copy, new), at)  # type: ignore[misc]
        end = end_of(copy).end
        seen.add(end)
        assert args_of(copy) == jobs[end]
        assert_sound(copy)
        assert_tidy(copy)
        put(copy, b"more")
        forget_boot(copy)
        assert args_of(copy) == [*jobs[end], b"more"]
        shutil.rmtree(copy)
        if not killed:
            break
        at += 1
    assert at > 20
    assert seen == {old, new}


# ---------------------------------------------------------------- forward


@pytest.mark.parametrize("how", ["lost", "behind"])
def test_forward_to_what_the_log_holds(path: Path, how: str) -> None:
    rows, end = rows_at(path), end_of(path)
    directory = directory_at(path)
    index = directory.index_path(directory.read_state().index)
    if how == "behind":
        kept = directory.path.with_name("kept")
        shutil.copytree(index, kept)
        put(path, *numbered(100, 30))
        rows, end = rows_at(path), end_of(path)
        shutil.rmtree(index)
        kept.rename(index)
    else:
        shutil.rmtree(index)
    with directory.alone():
        assert roll_forward(directory) == end
    assert end_of(path) == end
    assert rows_at(path) == rows
    assert_tidy(path)
    assert_sound(path)


# ---------------------------------------------------------------- the reader


def test_the_reader_reads_skips_and_seeks_over_segments(path: Path) -> None:
    files, end = log_files(path), end_of(path)
    ends = ends_of(path)
    reader = LogReader(files, end)
    offsets = []
    while (record := reader.read()) is not None:
        offsets.append(record.offset)
    assert len(offsets) == len(ends)
    assert reader.read() is None
    for at, (offset, following) in enumerate(pairwise(offsets)):
        reader.seek(offset)
        found = reader.read()
        assert found is not None
        assert found.offset == offset
        assert reader.skip(0) == 0
        found = reader.read()
        assert found is not None
        assert found.offset == following
        assert reader.skip(1_000) == len(offsets) - at - 2
    reader.seek(end.end)
    assert reader.read() is None
    assert reader.skip(3) == 0


def test_the_reader_stops_at_the_end_that_it_was_opened_with(path: Path) -> None:
    reader = LogReader(log_files(path), end_of(path))
    put(path, *numbered(100, 5))
    assert reader.skip(1_000) == len(ends_of(path)) - 5


def test_the_reader_refuses_what_is_no_records_start(path: Path) -> None:
    end = end_of(path)
    reader = LogReader(log_files(path), end)
    for wrong in (1, 49, ends_of(path)[30] + 1, end.end + 1):
        with pytest.raises(OutOfStep) as caught:
            reader.seek(wrong)
        assert (caught.value.offset, caught.value.end) == (wrong, end.end)


def test_below_the_start_the_reader_says_what_is_left(path: Path) -> None:
    upkeep(path)
    put(path, *numbered(100, 3))
    reader = LogReader(log_files(path), end_of(path))
    assert reader.start > 0
    with pytest.raises(LogTrimmed) as caught:
        reader.seek(48)
    assert (caught.value.offset, caught.value.start) == (48, reader.start)
    read = 0
    while reader.read() is not None:
        read += 1
    assert read >= 3


def test_an_empty_log_has_nothing_to_read(tmp_path: Path) -> None:
    put(tmp_path / "store")
    reader = LogReader(log_files(tmp_path / "store"), end_of(tmp_path / "store"))
    assert reader.read() is None
    reader.seek(0)
    assert reader.read() is None


@pytest.mark.parametrize("errno", [5, 28])
def test_what_the_disk_refuses_leaves_the_old_end_or_the_new(
    path: Path, tmp_path: Path, errno: int
) -> None:
    old, new = end_of(path).end, ends_of(path)[20]
    jobs = {old: numbered(0, RECORD_COUNT), new: numbered(0, 21)}
    at = 0
    while True:
        copy = tmp_path / "copy"
        shutil.copytree(path, copy)
        with failing(errno, at) as calls:
            with contextlib.suppress(StoreError, OSError):
                roll(copy, new)
            done = len(calls) <= at
        end = end_of(copy).end
        assert args_of(copy) == jobs[end]
        assert_sound(copy)
        shutil.rmtree(copy)
        if done:
            break
        at += 1
    assert at > 20
