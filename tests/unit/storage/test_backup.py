"""`bide.storage.backup`: a store given away and taken back, and what is refused."""

from __future__ import annotations

import io
import shutil
import stat
from errno import EIO, ENOSPC
from pathlib import Path
from zlib import crc32

import pytest
from msgspec.structs import replace

from bide.backends.local import open_upkeep
from bide.errors import (
    CorruptCheckpoint,
    NotAStore,
    StoreError,
    StoreFull,
    StoreLocked,
    UnsupportedFormat,
)
from bide.format.checkpoint import HEAD_SIZE, CheckpointHead, decode_head, encode_head
from bide.storage.backup import backup, restore
from tests.power import forget_boot
from tests.unit.storage.dying import failing, is_killed
from tests.unit.storage.stores import (
    CLOCK,
    args_of,
    assert_sound,
    assert_tidy,
    end_of,
    numbered,
    opened,
    put,
    rows_at,
    upkeep,
)


def ignore(_done: int, _total: int) -> None:
    """No bar."""


def backup_of(path: Path) -> bytes:
    with open_upkeep(path, CLOCK) as care:
        out = io.BytesIO()
        head = backup(care, out.write, ignore)
    assert len(out.getvalue()) == head.file_size
    return out.getvalue()


def restore_from(data: bytes, path: Path) -> CheckpointHead:
    return restore(io.BytesIO(data).read, path, ignore)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    put(tmp_path / "store", *numbered(0, 40))
    return tmp_path / "store"


@pytest.fixture
def data(path: Path) -> bytes:
    return backup_of(path)


def assert_works(path: Path, jobs: list[bytes]) -> None:
    """It is a store with these jobs: it can be put to, looked after, cut off, given away."""
    assert args_of(path) == jobs
    assert_tidy(path)
    assert_sound(path)
    put(path, b"more")
    upkeep(path, compact=True)
    put(path, b"most")
    forget_boot(path)
    assert args_of(path) == sorted([*jobs, b"more", b"most"])
    assert_sound(path)
    again = path.with_name("again")
    restore_from(backup_of(path), again)
    assert args_of(again) == sorted([*jobs, b"more", b"most"])
    assert_sound(again)
    shutil.rmtree(again)


# ---------------------------------------------------------------- whole


def test_a_new_directory_becomes_the_store(data: bytes, path: Path, tmp_path: Path) -> None:
    new = tmp_path / "a" / "b"
    head = restore_from(data, new)
    assert head.end == end_of(path).end
    rows, made = rows_at(path), rows_at(new)
    for name in set(rows) - {"meta"}:  # it says where the log goes on
        assert made[name] == rows[name]
    assert_works(new, numbered(0, 40))
    for entry in [new, *new.rglob("*")]:
        mode = stat.S_IMODE(entry.stat().st_mode)
        assert mode == (0o700 if entry.is_dir() else 0o600), entry


def test_a_store_becomes_what_it_was(data: bytes, path: Path) -> None:
    put(path, *numbered(100, 40))
    restore_from(data, path)
    assert_works(path, numbered(0, 40))


def test_a_store_becomes_what_another_copy_of_it_was(
    data: bytes, path: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    restore_from(data, copy)
    put(copy, *numbered(200, 3))
    restore_from(backup_of(copy), path)
    assert_works(path, numbered(0, 40) + numbered(200, 3))


def test_each_of_many_rounds_is_whole(path: Path) -> None:
    for _ in range(4):
        restore_from(backup_of(path), path)
        assert args_of(path) == numbered(0, 40)
        assert_sound(path)
        assert_tidy(path)


@pytest.mark.parametrize("cut", [False, True])
def test_a_power_cut_right_after_a_restore(data: bytes, path: Path, *, cut: bool) -> None:
    put(path, *numbered(100, 5))
    restore_from(data, path)
    if cut:
        forget_boot(path)
    assert_works(path, numbered(0, 40))


def test_it_comes_in_parts_of_any_size_and_tells_how_far(data: bytes, path: Path) -> None:
    source = io.BytesIO(data)
    told: list[tuple[int, int]] = []

    def read(size: int) -> bytes:
        return source.read(min(size, 999))

    restore(read, path, lambda done, total: told.append((done, total)))
    assert told[-1] == (len(data), len(data))
    assert told == sorted(told)
    told.clear()
    with open_upkeep(path, CLOCK) as care:
        head = backup(care, lambda _: None, lambda done, total: told.append((done, total)))
    assert told[-1] == (head.file_size, head.file_size)
    assert told == sorted(told)


def test_an_empty_store_has_no_backup(tmp_path: Path) -> None:
    put(tmp_path / "store")
    with pytest.raises(NotAStore, match="nothing to back up"):
        backup_of(tmp_path / "store")


# ---------------------------------------------------------------- refused


def assert_refused(data: bytes, path: Path, *errors: type[StoreError]) -> None:
    """By a store, which is as it was, and by a new directory, which can be tried again."""
    rows, state = rows_at(path), (path / "state.json").read_bytes()
    with pytest.raises(errors):
        restore_from(data, path)
    assert (path / "state.json").read_bytes() == state
    assert rows_at(path) == rows
    assert_tidy(path)
    new = path.with_name("new")
    with pytest.raises(errors):
        restore_from(data, new)
    left = {entry.name for entry in new.iterdir()} if new.exists() else set()
    assert left <= {"lock", "users", "upkeep", "owners"}
    put(new, b"a store of its own")
    assert args_of(new) == [b"a store of its own"]
    shutil.rmtree(new)


def test_cut_short_anywhere(data: bytes, path: Path) -> None:
    image_end = HEAD_SIZE + decode_head(data).image_size
    cuts = [0, 1, 7, 8, 83, HEAD_SIZE - 1, HEAD_SIZE, HEAD_SIZE + 1, len(data) // 2]
    for cut in [*cuts, image_end - 1, image_end, image_end + 1, len(data) - 1]:
        assert_refused(data[:cut], path, CorruptCheckpoint)
    assert args_of(path) == numbered(0, 40)


def test_a_flipped_bit_anywhere(data: bytes, path: Path) -> None:
    image_end = HEAD_SIZE + decode_head(data).image_size
    places = [0, 8, 9, 20, 33, 50, 66, 75, 82, 200, HEAD_SIZE - 1, HEAD_SIZE, HEAD_SIZE + 5_000]
    for place in [*places, image_end - 1, image_end, len(data) - 1]:
        damaged = bytearray(data)
        damaged[place] ^= 4
        assert_refused(bytes(damaged), path, CorruptCheckpoint)
    assert args_of(path) == numbered(0, 40)


def test_something_else(data: bytes, path: Path) -> None:
    for other in (b"x" * 10_000, bytes(10_000), b"bide.log" + bytes(5_000), data + b"\0"):
        assert_refused(other, path, CorruptCheckpoint)
    assert_refused(data + data, path, CorruptCheckpoint)


def test_a_newer_version(data: bytes, path: Path) -> None:
    newer = bytearray(data)
    newer[8] = 2
    newer[HEAD_SIZE - 4 : HEAD_SIZE] = crc32(newer[: HEAD_SIZE - 4]).to_bytes(4, "big")
    assert_refused(bytes(newer), path, UnsupportedFormat)


def test_an_impossible_head(data: bytes, path: Path) -> None:
    head = decode_head(data)
    tiny = encode_head(replace(head, segment_size=0))
    assert_refused(tiny + data[HEAD_SIZE:], path, CorruptCheckpoint)


def test_another_store_and_another_program(data: bytes, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    put(other, b"theirs")
    with pytest.raises(NotAStore, match="another store"):
        restore_from(data, other)
    assert_tidy(other)
    assert args_of(other) == [b"theirs"]
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "precious").touch()
    with pytest.raises(NotAStore, match="precious"):
        restore_from(data, foreign)
    assert [entry.name for entry in foreign.iterdir()] == ["precious"]


def test_a_store_in_use(data: bytes, path: Path) -> None:
    put(path, b"later")
    with opened(path) as backend:
        backend.stats()
        with pytest.raises(StoreLocked):
            restore_from(data, path)
    assert b"later" in args_of(path)
    assert_tidy(path)


def test_a_store_that_was_opened_while_the_backup_came(data: bytes, path: Path) -> None:
    source = io.BytesIO(data)
    with opened(path) as backend:

        def read(size: int) -> bytes:
            if source.tell() > HEAD_SIZE:
                backend.stats()
            return source.read(size)

        with pytest.raises(StoreLocked):
            restore(read, path, ignore)
        names = {entry.name for entry in path.iterdir()}
        assert len([name for name in names if name.startswith(("log-", "index-"))]) == 2
    assert_tidy(path)
    assert args_of(path) == numbered(0, 40)


# ---------------------------------------------------------------- killed, and failing


def test_a_backup_killed_at_every_call(path: Path, tmp_path: Path) -> None:
    at = 0
    while True:
        copy = tmp_path / "copy"
        shutil.copytree(path, copy)
        killed = is_killed(lambda copy=copy: backup_of(copy), at)  # type: ignore[misc]
        assert args_of(copy) == numbered(0, 40)
        assert_tidy_after_upkeep(copy)
        shutil.rmtree(copy)
        if not killed:
            break
        at += 1
    assert at > 20


def assert_tidy_after_upkeep(path: Path) -> None:
    upkeep(path)  # one takes the place of a checkpoint that was in the making
    assert_tidy(path)
    assert_sound(path)


@pytest.mark.parametrize("is_new", [True, False])
def test_a_restore_killed_at_every_call(
    data: bytes, path: Path, tmp_path: Path, *, is_new: bool
) -> None:
    put(path, *numbered(100, 3))
    old, new = numbered(0, 40) + numbered(100, 3), numbered(0, 40)
    seen = []
    at = 0
    while True:
        copy = tmp_path / "copy"
        if not is_new:
            shutil.copytree(path, copy)
        killed = is_killed(lambda copy=copy: restore_from(data, copy), at)  # type: ignore[misc]
        if is_new and not (copy / "bide.json").exists():
            half = tmp_path / "half"
            if copy.exists():
                shutil.copytree(copy, half)
            put(half, b"another store")  # a program may well make one of what was left
            assert args_of(half) == [b"another store"]
            assert_tidy(half)
            assert_sound(half)
            shutil.rmtree(half)
            restore_from(data, copy)
        jobs = args_of(copy)
        seen.append(jobs == new)
        assert jobs in ([new] if is_new else [old, new])
        assert_tidy(copy)
        assert_sound(copy)
        put(copy, b"more")
        forget_boot(copy)
        assert args_of(copy) == sorted([*jobs, b"more"])
        shutil.rmtree(copy)
        if not killed:
            break
        at += 1
    assert at > 40
    assert seen[-1]
    assert seen == sorted(seen), "old, and from one call on new"


@pytest.mark.parametrize("errno", [EIO, ENOSPC])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_restore_refused_by_the_disk_at_every_call(
    data: bytes, path: Path, tmp_path: Path, errno: int, *, is_new: bool
) -> None:
    put(path, *numbered(100, 3))
    old, new = numbered(0, 40) + numbered(100, 3), numbered(0, 40)
    at = refused = 0
    while True:
        copy = tmp_path / "copy"
        if not is_new:
            shutil.copytree(path, copy)
        with failing(errno, at) as calls:
            try:
                restore_from(data, copy)
            except StoreFull:
                refused += 1
            except StoreError:
                refused += errno == EIO
        if is_new and not (copy / "bide.json").exists():
            restore_from(data, copy)
        assert args_of(copy) in ([new] if is_new else [old, new])
        assert_tidy(copy)
        assert_sound(copy)
        shutil.rmtree(copy)
        if len(calls) <= at:
            break
        at += 1
    assert refused > 40


@pytest.mark.parametrize("errno", [EIO, ENOSPC])
def test_a_backup_refused_by_the_disk_at_every_call(path: Path, tmp_path: Path, errno: int) -> None:
    at = refused = 0
    while True:
        copy = tmp_path / "copy"
        shutil.copytree(path, copy)
        with failing(errno, at) as calls:
            try:
                backup_of(copy)
            except StoreError:
                refused += 1
        assert args_of(copy) == numbered(0, 40)
        assert_tidy_after_upkeep(copy)
        shutil.rmtree(copy)
        if len(calls) <= at:
            break
        at += 1
    assert refused > 20
