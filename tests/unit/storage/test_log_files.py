"""`bide.storage.log_files`: a tail that was never on the disk may go; what was on it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bide.errors import CorruptRecord
from bide.format.segment import HEAD_SIZE, segment_name
from bide.storage.disk import OsDisk
from bide.storage.log import SegmentLog
from bide.storage.log_files import START, LogFiles, Position
from tests.unit.storage.test_log import (
    BODIES,
    STORE_ID,
    fill,
    open_log,
    read_bodies,
    segments,
)


class Written:
    """A log of one segment, whose first records were synced before the last ones were written."""

    def __init__(self, path: Path, synced_count: int, count: int = 6) -> None:
        self.path = path
        self.log = open_log(path, segment_size=1 << 20)
        self.bodies = [b"%d" % number * 30 for number in range(count)]
        self.ends = fill(self.log, self.bodies[:synced_count])
        if self.ends:
            self.log.sync(self.ends[-1].end)
        at = self.ends[-1] if self.ends else START
        self.ends += fill(self.log, self.bodies[synced_count:], at)
        self.log.close()
        (self.file,) = segments(path)
        self.data = self.file.read_bytes()

    def start(self, index: int) -> int:
        return self.ends[index - 1].end if index else HEAD_SIZE

    def damage(self, start: int, end: int) -> None:
        """Have zeros there, as a page has that was never written."""
        self.file.write_bytes(self.data[:start] + bytes(end - start) + self.data[end:])

    def read(self) -> list[bytes]:
        return read_bodies(open_log(self.path))


@pytest.mark.parametrize("synced_count", range(6))
@pytest.mark.parametrize("lost", range(6))
def test_a_hole_is_damage_if_a_later_record_says_that_it_was_synced(
    tmp_path: Path, synced_count: int, lost: int
) -> None:
    written = Written(tmp_path, synced_count)
    for start, end in (
        (written.start(lost), written.ends[lost].end),  # all of it
        (written.start(lost), written.start(lost) + 20),
        (written.start(lost) + 20, written.start(lost) + 60),  # of head and body
        (written.ends[lost].end - 9, written.ends[lost].end),
    ):
        written.damage(start, end)
        # The first that was written behind the sync says so.
        if lost < synced_count < len(written.bodies):
            with pytest.raises(CorruptRecord) as caught:
                written.read()
            assert caught.value.path == str(written.file)
            assert caught.value.offset == written.start(lost)
        else:
            assert written.read() == written.bodies[:lost]


def test_a_flipped_bit_of_what_was_synced_is_damage(tmp_path: Path) -> None:
    written = Written(tmp_path, 3)
    for place in range(HEAD_SIZE, written.ends[2].end):
        data = bytearray(written.data)
        data[place] ^= 1
        written.file.write_bytes(data)
        with pytest.raises(CorruptRecord) as caught:
            written.read()
        assert caught.value.offset <= place


def test_a_flipped_bit_of_what_was_never_synced_ends_the_log(tmp_path: Path) -> None:
    written = Written(tmp_path, 3)
    for place in range(written.ends[2].end, written.ends[-1].end):
        data = bytearray(written.data)
        data[place] ^= 1
        written.file.write_bytes(data)
        count = sum(end.end <= place for end in written.ends)
        assert written.read() == written.bodies[:count]


def test_a_lost_head_of_the_last_segment_ends_the_log_if_it_was_never_used(tmp_path: Path) -> None:
    written = Written(tmp_path, 0, count=1)
    written.damage(0, written.ends[-1].end)
    assert written.read() == []


def test_a_lost_head_before_a_whole_record_is_damage(tmp_path: Path) -> None:
    written = Written(tmp_path, 0, count=1)  # the head was on the disk before there was a record
    written.damage(0, HEAD_SIZE)
    with pytest.raises(CorruptRecord):
        written.read()


def test_a_lost_head_of_a_segment_that_was_synced_is_damage(tmp_path: Path) -> None:
    written = Written(tmp_path, 1, count=2)
    written.damage(0, HEAD_SIZE)
    with pytest.raises(CorruptRecord) as caught:
        written.read()
    assert caught.value.offset == 0


def test_a_record_of_a_record_is_not_taken_for_one(tmp_path: Path) -> None:
    # What a body holds is what its user likes: a whole record of another log, say.
    inner = Written(made(tmp_path / "inner"), 3)
    outer = open_log(made(tmp_path / "outer"), segment_size=1 << 20)
    fill(outer, [b"first", inner.data[: inner.ends[-1].end], b"last"])
    outer.close()
    (file,) = segments(tmp_path / "outer")
    data = bytearray(file.read_bytes())
    data[HEAD_SIZE + 10] ^= 1
    file.write_bytes(data)
    assert read_bodies(open_log(tmp_path / "outer")) == []


def made(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize("zeros", [0, 1, 3, 4, 5, 4096])
def test_zeros_behind_the_last_record_are_space_taken_ahead(tmp_path: Path, zeros: int) -> None:
    log = open_log(tmp_path)
    fill(log, BODIES[:2])
    log.close()
    (file,) = segments(tmp_path)
    data = file.read_bytes().rstrip(b"\0")
    end = list(open_log(tmp_path).read())[-1][1].end
    file.write_bytes(data.ljust(end, b"\0") + bytes(zeros))
    assert read_bodies(open_log(tmp_path)) == BODIES[:2]


# ---------------------------------------------------------------- from a position


def test_reading_starts_at_any_position_that_was_true(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    for index, start in enumerate([START, *ends]):
        for until in (None, ends[-1]):
            read = [record.body for record, _ in log.read(until, start=start)]
            assert read == BODIES[index:], (index, until)


def test_segments_before_the_start_are_not_asked_for(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    start = ends[-3]
    log.trim(start.base)
    assert log.files.bases()[0] == start.base
    assert [record.body for record, _ in log.read(start=start)] == BODIES[-2:]
    with pytest.raises(CorruptRecord, match=segment_name(0)):
        read_bodies(log)


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_a_missing_segment_is_named(tmp_path: Path, which: str) -> None:
    log = open_log(tmp_path)
    end = fill(log, BODIES)[-1]
    paths = segments(tmp_path)
    index = {"first": 0, "middle": len(paths) // 2, "last": -1}[which]
    paths[index].unlink()
    with pytest.raises(CorruptRecord) as caught:
        read_bodies(log, end)
    assert caught.value.path == str(paths[index])
    assert segment_name(caught.value.offset) == paths[index].name


def test_a_start_beyond_the_log_is_damage(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    end = fill(log, BODIES)[-1]
    beyond = Position(end.base, end.end + 5_000_000, end.chain)
    with pytest.raises(CorruptRecord, match="known to be whole") as caught:
        list(log.read(start=beyond))
    assert caught.value.path == str(segments(tmp_path)[-1])


def test_a_start_of_another_history_is_damage(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    for end in ends[:-1]:
        with pytest.raises(CorruptRecord, match=r"not follow|not this log's"):
            list(log.read(ends[-1], start=Position(end.base, end.end, end.chain ^ 1)))


def test_an_empty_last_segment_ends_the_log_and_an_empty_middle_one_is_damage(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    last, middle = segments(tmp_path)[-1], segments(tmp_path)[1]
    for left in (0, HEAD_SIZE):
        data = last.read_bytes()
        last.write_bytes(data[:left])
        kept = [body for body, end in zip(BODIES, ends, strict=True) if end.base < int(last.stem)]
        assert read_bodies(log) == kept
        last.write_bytes(data)
    for left in (0, HEAD_SIZE):
        data = middle.read_bytes()
        middle.write_bytes(data[:left])
        with pytest.raises(CorruptRecord) as caught:
            read_bodies(log)
        assert caught.value.path.startswith(str(tmp_path))
        middle.write_bytes(data)


def test_when_a_segment_was_begun_is_known_by_its_first_record(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    files = LogFiles(OsDisk(), tmp_path, STORE_ID)
    for base in files.bases():
        first = min(index for index, end in enumerate(ends) if end.base == base)
        assert files.first_written_ms(base) == first
    path = segments(tmp_path)[-1]
    path.write_bytes(path.read_bytes()[:HEAD_SIZE])
    assert files.first_written_ms(int(path.stem)) == 0


# ---------------------------------------------------------------- what a record says was synced


def synced_marks(log: SegmentLog) -> list[int]:
    return [record.synced for record, _ in log.read()]


def test_records_say_up_to_where_the_log_was_synced(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size=1 << 20)
    (first,) = fill(log, [b"1"])
    log.sync(first.end)
    second, third = fill(log, [b"2", b"3"], first)
    log.sync(second.end)  # the third is not committed yet
    fill(log, [b"4"], third)
    assert synced_marks(log) == [0, first.end, first.end, second.end]


def test_an_aborted_record_is_never_said_to_be_synced(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size=1 << 20)
    (first,) = fill(log, [b"1"])
    log.append(b"aborted, and a long one" * 9, first, 0)
    log.sync(first.end)  # the disk has it; but it will be overwritten
    (second,) = fill(log, [b"2"], first)
    fill(log, [b"3"], second)
    assert synced_marks(log) == [0, first.end, first.end]


def test_a_sync_never_takes_a_mark_back(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size=1 << 20)
    ends = fill(log, [b"1", b"2"])
    log.sync(ends[1].end)
    log.sync(ends[0].end)
    log.sync()
    fill(log, [b"3"], ends[1])
    assert synced_marks(log)[-1] == ends[1].end


def test_a_new_segment_says_that_all_before_it_is_synced(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    for record, end in log.read():
        if record.offset == end.base + HEAD_SIZE and end.base:
            assert record.synced == end.base
    assert ends[-1].base > 0


def test_an_aborted_roll_says_no_more_than_was_committed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    (at,) = fill(log, [b"x" * 256])
    aborted = log.append(b"aborted", at, 0)
    fill(log, [b"new", b"and more"], at)
    assert aborted.base == at.end
    assert max(synced_marks(log)) == at.end


# ---------------------------------------------------------------- cut, rewrite, trim, start


def test_a_log_is_cut_at_any_end_and_goes_on(tmp_path: Path) -> None:
    for index in range(len(BODIES)):
        path = made(tmp_path / str(index))
        log = open_log(path)
        ends = fill(log, BODIES)
        log.cut(ends[index])
        assert read_bodies(log) == BODIES[: index + 1]
        assert log.files.bases()[-1] == ends[index].base
        assert sum(one.stat().st_size for one in segments(path)) == ends[index].end
        fill(log, [b"on"], ends[index])
        assert read_bodies(log) == [*BODIES[: index + 1], b"on"]
        log.close()


class DyingDisk(OsDisk):
    """Dies at the removal of file number *left*."""

    def __init__(self, left: int) -> None:
        self.left = left

    def remove(self, path: Path) -> None:
        if not self.left:
            raise OSError("dead")
        self.left -= 1
        super().remove(path)


def test_a_cut_that_is_cut_short_leaves_no_hole(tmp_path: Path) -> None:
    for left in range(2):
        path = made(tmp_path / str(left))
        ends = fill(open_log(path), BODIES)
        log = open_log(path, disk=DyingDisk(left))
        with pytest.raises(OSError, match="dead"):
            log.cut(ends[0])
        kept = read_bodies(open_log(path))
        assert kept == BODIES[: len(kept)] != []


def test_a_trim_that_is_cut_short_leaves_no_hole(tmp_path: Path) -> None:
    for left in range(2):
        path = made(tmp_path / str(left))
        ends = fill(open_log(path), BODIES)
        log = open_log(path, disk=DyingDisk(left))
        with pytest.raises(OSError, match="dead"):
            log.trim(ends[-1].base)
        bases = log.files.bases()
        start = next(end for end in ends if end.end == bases[0]) if bases[0] else START
        assert read_from(path, start) == BODIES[len(BODIES) - len(read_from(path, start)) :]


def read_from(path: Path, start: Position) -> list[bytes]:
    at = Position(start.end, start.end, start.chain) if start != START else START
    return [record.body for record, _ in open_log(path).read(start=at)]


def test_a_trim_says_how_much_is_gone(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, BODIES)
    bases = log.files.bases()
    before = sum(one.stat().st_size for one in segments(tmp_path))
    assert log.trim(bases[0]) == 0
    size = log.trim(bases[2])
    assert size == bases[2] - bases[0]
    assert sum(one.stat().st_size for one in segments(tmp_path)) == before - size
    assert log.trim(bases[1]) == 0


def test_a_log_that_is_written_again_is_the_same(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    fill(log, BODIES)
    log.close()
    before = {one: one.read_bytes() for one in segments(tmp_path)}
    log.rewrite()
    assert {one: one.read_bytes() for one in segments(tmp_path)} == before
    open_log(made(tmp_path / "empty")).rewrite()


def test_a_log_starts_where_another_ended(tmp_path: Path) -> None:
    at = Position(4_096, 5_000, 77)
    log = open_log(tmp_path, segment_size=1 << 20)
    start = log.start_at(at)
    assert start == Position(5_000, 5_000 + HEAD_SIZE, 77)
    fill(log, BODIES, start)
    log.close()
    assert [one.body for one, _ in open_log(tmp_path).read(start=start)] == BODIES
    with pytest.raises(CorruptRecord):
        list(open_log(tmp_path).read(start=Position(5_000, start.end, 78)))
