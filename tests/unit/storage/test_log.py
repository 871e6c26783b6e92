"""`bide.storage.log`: what was appended is read, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest

from bide.errors import CorruptRecord, StoreError, StoreFailed
from bide.format.record import HEAD_SIZE as RECORD_HEAD_SIZE
from bide.format.segment import HEAD_SIZE, segment_name
from bide.storage.disk import Disk, OsDisk
from bide.storage.log import WRITE_SIZE_JOINED, Log, MemoryLog, SegmentLog
from bide.storage.log_files import START, Position

STORE_ID = bytes(range(16))
SEGMENT_SIZE = 256
BODIES = [b"body %d" % number for number in range(12)]


def open_log(
    path: Path,
    *,
    disk: Disk | None = None,
    segment_size: int = SEGMENT_SIZE,
    store_id: bytes = STORE_ID,
) -> SegmentLog:
    return SegmentLog(disk or OsDisk(), path, store_id=store_id, segment_size=segment_size)


def fill(log: Log, bodies: Iterable[bytes], at: Position = START) -> list[Position]:
    """Append *bodies*; the end of the log behind each."""
    ends = []
    for now_ms, body in enumerate(bodies):
        at = log.append(body, at, now_ms)
        ends.append(at)
    return ends


def read_bodies(log: Log, until: Position | None = None) -> list[bytes]:
    return [record.body for record, _ in log.read(until)]


def segments(path: Path) -> list[Path]:
    return sorted(path.iterdir())


# ---------------------------------------------------------------- append and read


@pytest.mark.parametrize("segment_size", [1, SEGMENT_SIZE, 1 << 21])
@pytest.mark.parametrize("to_end", [True, False])
def test_what_was_appended_is_read(tmp_path: Path, segment_size: int, *, to_end: bool) -> None:
    sizes = [0, 1, 40, 1000, WRITE_SIZE_JOINED, WRITE_SIZE_JOINED + 1, 3]
    bodies = [bytes([7]) * size for size in sizes]
    log = open_log(tmp_path, segment_size=segment_size)
    ends = fill(log, bodies)
    log.close()
    read = list(open_log(tmp_path).read(None if to_end else ends[-1]))
    assert [record.body for record, _ in read] == bodies
    assert [end for _, end in read] == ends
    assert [record.written_ms for record, _ in read] == list(range(len(bodies)))


def test_reading_stops_where_it_is_told(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    for count, end in enumerate(ends, start=1):
        assert read_bodies(log, end) == BODIES[:count]
    assert read_bodies(log, START) == []


def test_an_empty_log_reads_as_empty(tmp_path: Path) -> None:
    assert read_bodies(open_log(tmp_path)) == []
    assert read_bodies(open_log(tmp_path), START) == []


def test_positions_count_every_byte_of_every_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    for before, after, body in zip([START, *ends], ends, BODIES, strict=False):
        head = HEAD_SIZE if after.base != before.base or before == START else 0
        assert after.end == before.end + head + RECORD_HEAD_SIZE + len(body)
    for record, end in log.read(ends[-1]):
        assert end.chain == record.check
        assert end.end == record.offset + RECORD_HEAD_SIZE + len(record.body)


def test_a_segment_is_left_when_it_is_full_and_not_before(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    bases = log.files.bases()
    assert len(bases) > 2
    assert [path.name for path in segments(tmp_path)] == list(map(segment_name, bases))
    for base, following in pairwise(bases):
        inside = [end.end for end in ends if end.base == base]
        assert inside[-1] == following  # the next one starts where this one's last record ends
        assert following - base >= SEGMENT_SIZE > inside[-2] - base
        assert (tmp_path / segment_name(base)).stat().st_size == following - base


def test_other_files_are_not_taken_for_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    for name in ("00000000000000000001.log.bak", "1.log", "notes.txt", "0000000000000000000x.log"):
        (tmp_path / name).write_bytes(b"?")
    assert read_bodies(log, ends[-1]) == BODIES


def test_space_taken_ahead_does_not_change_what_is_read(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size=1 << 21)
    end = START
    for count in range(1, len(BODIES) + 1):
        [end] = fill(log, [BODIES[count - 1]], at=end)
        [path] = segments(tmp_path)
        assert path.stat().st_size > end.end  # else this shows nothing
        assert read_bodies(log, end) == read_bodies(log) == BODIES[:count]


def test_a_segment_grows_no_further_ahead_than_its_size(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size=1 << 14)
    fill(log, BODIES)
    assert segments(tmp_path)[0].stat().st_size == 1 << 14


# ---------------------------------------------------------------- writers that died


@pytest.mark.parametrize("left_size", [0, 1, 5, 6, 7, 500], ids=str)
@pytest.mark.parametrize("by_another", [True, False])
def test_what_a_dead_writer_left_is_dropped(
    tmp_path: Path, left_size: int, *, by_another: bool
) -> None:
    log = open_log(tmp_path, segment_size=1 << 21)
    at = fill(log, BODIES[:3])[-1]
    dead = open_log(tmp_path, segment_size=1 << 21) if by_another else log
    dead.append(b"x" * left_size, at, 0)  # never committed, so *at* stays
    end = log.append(b"123456", at, 0)
    expected = [*BODIES[:3], b"123456"]
    assert read_bodies(log, end) == expected
    [path] = segments(tmp_path)
    assert not path.read_bytes()[end.end :].strip(b"\0"), "something but zeros behind the end"
    assert read_bodies(log) == expected


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_half_a_record_that_a_dead_writer_left_is_dropped(tmp_path: Path, cut: int) -> None:
    log = open_log(tmp_path, segment_size=1 << 21)
    at = fill(log, BODIES[:3])[-1]
    dead = open_log(tmp_path, segment_size=1 << 21)
    dead.append(b"x" * 20, at, 0)
    [path] = segments(tmp_path)
    data = bytearray(path.read_bytes())
    data[at.end + cut :] = bytes(len(data) - at.end - cut)
    path.write_bytes(data)
    assert read_bodies(log, log.append(b"new", at, 0)) == [*BODIES[:3], b"new"]


def test_an_aborted_first_record_leaves_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"aborted, and longer", START, 0)
    assert read_bodies(log, log.append(b"first", START, 0)) == [b"first"]
    assert read_bodies(log) == [b"first"]


@pytest.mark.parametrize("by_another", [True, False])
@pytest.mark.parametrize("left", [b"", b"same size", b"far longer than what comes after it"])
def test_an_aborted_roll_leaves_nothing(tmp_path: Path, left: bytes, *, by_another: bool) -> None:
    log = open_log(tmp_path)
    bodies = [b"x" * SEGMENT_SIZE]
    [at] = fill(log, bodies)
    (open_log(tmp_path) if by_another else log).append(left, at, 0)
    assert len(segments(tmp_path)) == 2
    end = log.append(b"roll over", at, 0)
    assert read_bodies(log, end) == [*bodies, b"roll over"]
    assert read_bodies(open_log(tmp_path)) == [*bodies, b"roll over"]
    assert read_bodies(log, log.append(b"more", end, 0)) == [*bodies, b"roll over", b"more"]


def test_many_processes_take_turns(tmp_path: Path) -> None:
    logs = [open_log(tmp_path) for _ in range(3)]
    bodies = [b"%d" % number * (number % 30) for number in range(80)]
    at = START
    for number, body in enumerate(bodies):
        log = logs[number * number % 3]
        log.append(b"aborted" * (number % 9), at, 0)
        at = logs[number % 3].append(body, at, 0)
    assert len(segments(tmp_path)) > 5
    for log in logs:
        assert read_bodies(log, at) == bodies
        log.close()


def test_a_log_that_was_cut_under_a_running_store_is_a_failure(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size=1 << 21)
    at = fill(log, BODIES)[-1]
    [path] = segments(tmp_path)
    os.truncate(path, at.end - 1)
    with pytest.raises(StoreFailed, match="cut or replaced") as caught:
        log.append(b"x", at, 0)
    assert caught.value.path == str(path)


def test_a_segment_that_is_gone_is_a_typed_error(tmp_path: Path) -> None:
    at = fill(open_log(tmp_path), BODIES)[-1]
    segments(tmp_path)[-1].unlink()
    with pytest.raises(StoreError, match=str(tmp_path)):
        open_log(tmp_path).append(b"x", at, 0)


# ---------------------------------------------------------------- damage


def test_a_missing_segment_is_named_with_its_offset(tmp_path: Path) -> None:
    end = fill(open_log(tmp_path), BODIES)[-1]
    for missing in segments(tmp_path)[:-1]:
        data = missing.read_bytes()
        missing.unlink()
        for until in (end, None):
            with pytest.raises(CorruptRecord) as caught:
                read_bodies(open_log(tmp_path), until)
            assert caught.value.path == str(missing)
            assert segment_name(caught.value.offset) == missing.name
        missing.write_bytes(data)


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    for path in segments(tmp_path):
        base = int(path.stem)
        data = bytearray(path.read_bytes())
        used = max(end.end for end in ends if end.base == base) - base
        for place in range(used):
            data[place] ^= 1 << place % 8
            path.write_bytes(data)
            with pytest.raises(CorruptRecord) as caught:
                read_bodies(log, ends[-1])
            assert caught.value.path == str(path)
            assert base <= caught.value.offset <= base + place
            data[place] ^= 1 << place % 8
        path.write_bytes(data)
    assert read_bodies(log, ends[-1]) == BODIES


@pytest.mark.parametrize("zeros", [True, False], ids=["zeros behind it", "nothing behind it"])
def test_every_cut_of_the_last_segment_leaves_a_prefix(tmp_path: Path, *, zeros: bool) -> None:
    # A power cut loses pages that were never synced. Where space was taken
    # ahead, they read as zeros; else the file is shorter.
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    path = segments(tmp_path)[-1]
    base, data = int(path.stem), path.read_bytes()
    used = ends[-1].end - base
    for cut in range(used):
        path.write_bytes(data[:cut] + bytes(len(data) - cut if zeros else 0))
        # Zeros in the place of zeros have taken nothing away.
        expected = [
            body
            for body, end in zip(BODIES, ends, strict=True)
            if end.end - base <= cut or (zeros and not any(data[cut : end.end - base]))
        ]
        assert read_bodies(log) == expected, cut
        if len(expected) < len(BODIES):
            with pytest.raises(CorruptRecord):
                read_bodies(log, ends[-1])


def test_a_middle_segment_that_was_cut_is_damage(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    ends = fill(log, BODIES)
    path = segments(tmp_path)[1]
    base, data = int(path.stem), path.read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        for until in (ends[-1], None):
            with pytest.raises(CorruptRecord) as caught:
                read_bodies(log, until)
            whole = [end.end for end in ends if end.base == base and end.end <= base + cut]
            assert caught.value.offset == max(whole, default=base)
            assert caught.value.path.startswith(str(tmp_path))


def test_segments_of_another_store_are_refused(tmp_path: Path) -> None:
    end = fill(open_log(tmp_path), BODIES)[-1]
    with pytest.raises(CorruptRecord, match="not this log's"):
        read_bodies(open_log(tmp_path, store_id=bytes(16)), end)


def test_a_segment_of_another_history_is_refused(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for path in (here, there):
        path.mkdir()
    end = fill(open_log(here), BODIES)[-1]
    fill(open_log(there), [body.upper() for body in BODIES])
    last = segments(here)[-1]
    last.write_bytes((there / last.name).read_bytes())
    with pytest.raises(CorruptRecord, match="not this log's") as caught:
        read_bodies(open_log(here), end)
    assert caught.value.path == str(last)


# ---------------------------------------------------------------- in memory


def test_a_log_in_memory_counts_and_keeps_nothing() -> None:
    log = MemoryLog()
    first, second = fill(log, [b"12345", b"123"])
    assert (first.end, second.end) == (5, 8)
    log.sync()
    assert read_bodies(log) == []
    log.close()
