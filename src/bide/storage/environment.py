"""The index's LMDB environment: opened so that each of LMDB's traps is shut.

- Commits do not sync: the log is the truth, and a machine crash rebuilds the index.
- The map is reserved large and sparse, once: it can't be resized while others use it.
- No spare read transactions: one left over would hold a reader slot across a fork.
- Opened once in a process, and closed and opened again in a forked child
  (`bide.storage.store` sees to both).
- Rows are copied out of the map before the transaction that read them ends.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

import lmdb

from bide.errors import CorruptIndex, StoreError, StoreFailed, StoreFull, StoreLocked, StoreReadOnly
from bide.storage.disk import FILE_MODE, Disk, OsDisk, store_error
from bide.storage.tables import TABLE_NAMES, Table, TableName, Transaction

MAP_SIZE = 1 << 38
"""256 GiB of address space; the file grows only as it is used."""

DATA_FILE = "data.mdb"

READERS_MAX = 1_024

LOCK_FILE_SIZE = READERS_MAX * 64 + 4096
"""Bytes that LMDB maps of its lock file, at most: a cache line for each reader, and a head."""

FREE_SIZE_MIN = 1 << 20
"""With less left on the device, a write that fails for no stated reason failed for this one."""


def index_error(error: lmdb.Error, path: Path | str) -> StoreError:
    """The error of bide's that says what LMDB's error means for the user."""
    if isinstance(error, lmdb.MapFullError):
        return StoreFull(f"{path}: the index has reached {MAP_SIZE >> 30} GiB", path=str(path))
    if isinstance(error, lmdb.DiskError):
        return StoreFull(f"{path}: no space left on the device", path=str(path))
    if isinstance(error, lmdb.LockError):
        return StoreLocked(
            f"{path}: {error}; another process has the same pid there, as in two containers: "
            "let them share a pid namespace",
            path=str(path),
        )
    if isinstance(error, lmdb.ReadonlyError):
        return StoreReadOnly(f"{path}: this process may not write here", path=str(path))
    if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError)):
        return CorruptIndex(f"{path}: the index is damaged: {error}", path=str(path))
    if _is_full(path):  # LMDB says EIO where a write was cut short
        return StoreFull(f"{path}: no space left on the device ({error})", path=str(path))
    return StoreFailed(f"{path}: {error}", path=str(path))


def _is_full(path: Path | str) -> bool:
    try:
        status = os.statvfs(path)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < FREE_SIZE_MIN


def _reserve_lock_file(path: Path) -> None:
    """Have space for the lock file of an index that is made now.

    LMDB makes it sparse, and writes to it through a map: on a full disk
    that is a SIGBUS, which ends the process. One that is there is left
    alone, since to close it here would drop the locks that this process
    holds on it.
    """
    lock = path / "lock.mdb"
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except OSError:
        return  # there; or it can't be made, which LMDB says next
    try:
        OsDisk().reserve(fd, LOCK_FILE_SIZE)
    except OSError as error:
        lock.unlink()
        raise store_error(error, path) from error
    finally:
        os.close(fd)


class LmdbTables:
    """An `Environment` in LMDB files under *path*.

    Args:
        read_only: Change nothing, and make nothing that is not there.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        if not read_only:
            _reserve_lock_file(path)
        try:
            self._environment = lmdb.open(
                str(path),
                map_size=MAP_SIZE,
                max_dbs=len(TABLE_NAMES),
                max_readers=READERS_MAX,
                max_spare_txns=0,
                mode=0o600,
                metasync=False,
                sync=False,
                meminit=False,
                readahead=False,
                writemap=False,
                readonly=read_only,
                create=not read_only,
            )
        except lmdb.Error as error:
            raise index_error(error, path) from error
        with self.closed_if_failed():
            self.tables: Mapping[TableName, Table] = {
                name: self._environment.open_db(name.encode(), create=not read_only)
                for name in TABLE_NAMES
            }
            if not read_only:
                self.forget_dead_readers()

    @contextlib.contextmanager
    def closed_if_failed(self) -> Iterator[None]:
        """Close it if the block fails: LMDB opens an index once in a process."""
        try:
            yield
        except BaseException as error:
            self.close()
            if isinstance(error, lmdb.Error):
                raise index_error(error, self.path) from error
            raise

    def begin(self, *, write: bool) -> Transaction:
        return cast("Transaction", self._environment.begin(write=write))

    def copy(self, txn: Transaction, disk: Disk, fd: int, offset: int) -> None:
        del disk  # LMDB writes by itself, without the interpreter
        os.lseek(fd, offset, os.SEEK_SET)
        try:
            self._environment.copyfd(fd, compact=True, txn=cast("lmdb.Transaction[bytes]", txn))
        except lmdb.Error as error:
            raise index_error(error, self.path) from error

    @classmethod
    def load(cls, disk: Disk, path: Path, image: Iterable[bytes]) -> LmdbTables:
        """The tables that `copy` wrote, in directory *path*, which is empty."""
        fd = disk.open(path / DATA_FILE, create=True)
        try:
            offset = 0
            for part in image:
                disk.write(fd, part, offset)
                offset += len(part)
        finally:
            disk.close(fd)
        return cls(path)

    def sync(self) -> None:
        try:
            self._environment.sync(True)
        except lmdb.Error as error:
            raise index_error(error, self.path) from error

    def forget_dead_readers(self) -> None:
        """Let go of the pages that readers hold who were killed: no commit could use them again."""
        try:
            self._environment.reader_check()
        except lmdb.Error as error:
            raise index_error(error, self.path) from error

    def size(self) -> tuple[int, int]:
        """Bytes of the file, and of them those in use."""
        page = self._environment.stat()["psize"]
        with self._environment.begin() as txn:
            stats = [txn.stat(table) for table in self.tables.values()]
        used = sum(s["branch_pages"] + s["leaf_pages"] + s["overflow_pages"] for s in stats)
        return (self._environment.info()["last_pgno"] + 1) * page, used * page

    def close(self) -> None:
        self._environment.close()
