"""`bide.storage.disk`: the real disk, and what its errors mean."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bide.errors import NotAStore, StoreError, StoreFailed, StoreFull, StoreReadOnly
from bide.storage.disk import FILE_MODE, OsDisk, store_error

MEANINGS: dict[int, type[StoreError]] = {
    errno.ENOSPC: StoreFull,
    errno.EDQUOT: StoreFull,
    errno.EFBIG: StoreFull,
    errno.EROFS: StoreReadOnly,
    errno.EACCES: StoreReadOnly,
    errno.EPERM: StoreReadOnly,
    errno.ENOENT: NotAStore,
    errno.ENOTDIR: NotAStore,
    errno.EIO: StoreFailed,
    errno.EMFILE: StoreFailed,
    errno.ESTALE: StoreFailed,
}


@pytest.mark.parametrize("code", MEANINGS, ids=errno.errorcode.__getitem__)
def test_an_error_of_the_system_says_what_it_means(code: int) -> None:
    error = store_error(OSError(code, os.strerror(code)), Path("/a/store"))
    assert type(error) is MEANINGS[code]
    assert error.path == "/a/store"
    assert "/a/store" in str(error)
    assert os.strerror(code) in str(error)


def test_an_error_without_a_number_keeps_its_text() -> None:
    assert "odd" in str(store_error(OSError("odd"), Path("/a/store")))


def test_bytes_go_out_and_come_back(tmp_path: Path) -> None:
    disk = OsDisk()
    path = tmp_path / "file"
    fd = disk.open(path, create=True)
    disk.write(fd, b"0123456789", 5)
    assert disk.size(fd) == 15
    assert disk.read(fd, 100, 0) == bytes(5) + b"0123456789"
    disk.truncate(fd, 7)
    disk.sync(fd)
    disk.sync_directory(tmp_path)
    disk.close(fd)
    assert path.read_bytes() == bytes(5) + b"01"
    assert path.stat().st_mode & 0o777 == FILE_MODE


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = OsDisk()
    fd = disk.open(tmp_path / "file", create=True)
    whole = os.pwrite

    def write_three(fd: int, data: memoryview, offset: int) -> int:
        return whole(fd, data[:3], offset)

    monkeypatch.setattr(os, "pwrite", write_three)
    disk.write(fd, b"0123456789", 2)
    disk.close(fd)
    assert (tmp_path / "file").read_bytes() == b"\0\x000123456789"


def test_a_file_is_made_only_when_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        OsDisk().open(tmp_path / "file", create=False)
    assert list(tmp_path.iterdir()) == []


def test_reserved_space_is_there_and_reads_as_zeros(tmp_path: Path) -> None:
    disk = OsDisk()
    path = tmp_path / "file"
    fd = disk.open(path, create=True)
    disk.write(fd, b"abc", 0)
    disk.reserve(fd, 1 << 16)
    disk.close(fd)
    assert path.read_bytes() == b"abc" + bytes((1 << 16) - 3)
    assert path.stat().st_blocks * 512 >= 1 << 16


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_that_cannot_reserve_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    disk = OsDisk()
    fd = disk.open(tmp_path / "file", create=True)
    disk.reserve(fd, 4096)
    disk.close(fd)
