"""A store's directory: made whole or not at all, recognised, and opened.

::

    DIR/                     0700
      bide.json              what makes it a store (`bide.format.identity`); written last
      lock                   held while the directory is made or recovered
      boot                   the boot in which the index was last known good
      log/                   segments
      index/                 LMDB
      owners/                a file and a bell for each worker process
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lmdb

from bide.errors import NotAStore, StoreError, UnsupportedFormat
from bide.format.identity import FILE_NAME, Identity, decode_identity, encode_identity
from bide.storage.disk import DIRECTORY_MODE, FILE_MODE, Disk, OsDisk, store_error
from bide.storage.environment import LmdbTables, index_error
from bide.storage.log import SegmentLog
from bide.storage.recovery import rebuild

_LOCK, _BOOT = "lock", "boot"
_PARTS = ("log", "index", "owners")
_NEW = ".new"
_OWN_NAMES = {*_PARTS, "index" + _NEW, _LOCK, _BOOT, _BOOT + _NEW, FILE_NAME, FILE_NAME + _NEW}
_BOOT_ID_COMMAND = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Directory:
    """The directory of a store that exists."""

    def __init__(self, path: Path, identity: Identity, disk: Disk) -> None:
        self.path = path
        self.identity = identity
        self._disk = disk

    @property
    def owners(self) -> Path:
        return self.path / "owners"

    def open_parts(self) -> tuple[LmdbTables, SegmentLog]:
        """The index, good for use, and the log."""
        log = SegmentLog(
            self._disk,
            self.path / "log",
            store_id=bytes.fromhex(self.identity.store_id),
            segment_size=self.identity.segment_size,
        )
        boot = _boot_id()
        with _mapped_errors(self.path):
            if not self._is_index_good(boot):
                with _locked(self.path):
                    if not self._is_index_good(boot):
                        self._recover(log, boot)
        return LmdbTables(self.path / "index"), log

    def _is_index_good(self, boot: bytes | None) -> bool:
        """Whether it is there, and the machine has been up ever since it was in use."""
        in_time = boot is None or _read(self.path / _BOOT) == boot
        return in_time and (self.path / "index" / "data.mdb").exists()

    def _recover(self, log: SegmentLog, boot: bytes | None) -> None:
        """Make the index anew from the log."""
        # Beside the old one, so that a kill leaves no half of it to be taken for good.
        new, index = self.path / ("index" + _NEW), self.path / "index"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(DIRECTORY_MODE)
        tables = LmdbTables(new)
        try:
            rebuild(log, tables)
            tables.sync()
        except lmdb.Error as error:
            raise index_error(error, new) from error
        finally:
            tables.close()
        shutil.rmtree(index, ignore_errors=True)
        new.rename(index)
        self._disk.sync_directory(self.path)
        if boot is not None:
            _write_whole(self.path / _BOOT, boot)


def open_directory(
    path: Path, *, create: bool, new_identity: Identity, disk: Disk | None = None
) -> Directory:
    """The store at *path*, made first if *create* and nothing is there.

    Raises:
        NotAStore: There is nothing, or something else.
        UnsupportedFormat: Another version of bide wrote it.
        StoreReadOnly: This process may not write there.
        StoreFull: There is no space to make it.
    """
    with _mapped_errors(path):
        identity = _read_identity(path)
        if identity is None and create:
            path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            identity = _create(path, new_identity)
        if identity is None:
            raise NotAStore(
                f"{path}: no store there; a program that uses `bide.App` makes one",
                path=str(path),
            )
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "not writable", str(path))
        return Directory(path, identity, disk or OsDisk())


def _create(path: Path, identity: Identity) -> Identity:
    foreign = sorted({entry.name for entry in path.iterdir()} - _OWN_NAMES)
    if foreign:
        raise NotAStore(
            f"{path}: holds {foreign[0]!r}, and no {FILE_NAME}: another program's directory; "
            "name an empty one",
            path=str(path),
        )
    with _locked(path):
        existing = _read_identity(path)
        if existing is not None:
            return existing  # another process was quicker
        for part in _PARTS:
            (path / part).mkdir(DIRECTORY_MODE, exist_ok=True)
        LmdbTables(path / "index").close()
        boot = _boot_id()
        if boot is not None:
            _write_whole(path / _BOOT, boot)
        _write_whole(path / FILE_NAME, encode_identity(identity))
        return identity


def _read_identity(path: Path) -> Identity | None:
    try:
        data = (path / FILE_NAME).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return decode_identity(data)
    except (NotAStore, UnsupportedFormat) as error:
        raise type(error)(f"{path}: {error}", path=str(path)) from None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Alone among all processes, until the block ends or this process dies."""
    fd = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _mapped_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise store_error(error, Path(error.filename or path)) from error


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole, or as it was, whatever dies meanwhile."""
    new = path.with_name(path.name + _NEW)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        OsDisk().write(fd, data, 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    new.replace(path)
    OsDisk().sync_directory(path.parent)


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _boot_id() -> bytes | None:
    """Names the time since the machine was started; None where the system does not say."""
    if sys.platform == "darwin":
        said = subprocess.run(_BOOT_ID_COMMAND, capture_output=True, check=False)  # noqa: S603
        return said.stdout or None
    return _BOOT_ID.read_bytes() if _BOOT_ID.exists() else None
