"""What processes share beside the disk's files: locks, the index's pages, the time of a boot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

from bide.format.identity import FILE_NAME, Identity, encode_identity
from bide.format.state import State
from bide.storage.directory import Directory
from bide.storage.disk import Disk, store_error, write_whole
from bide.storage.environment import DATA_FILE, LmdbTables
from bide.storage.flock import Flock
from bide.storage.log_files import Position
from bide.storage.recovery import position_of
from bide.storage.tables import Environment, MemoryTables, Table, TableName, Transaction
from tests.sim.disk import ProcessDisk, SimDisk
from tests.sim.files import File

PATH = Path("/store")
SEGMENT_SIZE = 4096


class Index(File):
    """The index's file: LMDB's pages, of which a power cut leaves nothing that can be told."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = MemoryTables()
        self.is_synced = False
        self.is_torn = False


class Machine:
    """From one power cut to the next: `restart` begins another boot."""

    def __init__(self) -> None:
        self.disk = SimDisk()
        self.boot = 1
        self.locks: dict[str, dict[SimLock, bool]] = {}
        """Who holds which lock, and whether alone."""
        self.transactions = 0
        """Under way now, in all processes: who writes keeps the others waiting."""
        self.indexes: list[Index] = []

    def restart(self) -> None:
        self.boot += 1
        self.locks.clear()
        self.transactions = 0
        for index in self.indexes:
            index.is_torn = not index.is_synced

    def is_held_alone(self, path: Path) -> bool:
        return any(self.locks.get(str(path), {}).values())

    def make_store(self) -> None:
        """An empty store, on the disk."""
        disk = ProcessDisk(self.disk)
        disk.make_directory(PATH)
        directory = SimDirectory(self, disk)
        for part in (directory.index_path(1), directory.log_path(1), directory.owners):
            disk.make_directory(part)
        directory.open_tables(directory.index_path(1)).close()
        directory.write_state(State(index=1, log=1, boot=directory.boot_id()))
        write_whole(disk, PATH / FILE_NAME, encode_identity(directory.identity))
        disk.sync_directory(PATH.parent)


class SimLock(Flock):
    """A `Flock` that never waits: what would have to is not tried."""

    def __init__(self, machine: Machine, disk: ProcessDisk, path: Path) -> None:
        self._machine = machine
        self._path = str(path)
        self.disk = disk

    def take(self, *, shared: bool = False) -> None:
        others = [held for lock, held in self._holders().items() if lock is not self]
        assert not (any(others) if shared else others), f"{self._path}: would wait for ever"
        self._holders()[self] = not shared

    def try_take(self) -> bool:
        others = [lock for lock in self._holders() if lock is not self]
        if others:
            self._holders().pop(self, None)
            return False
        self._holders()[self] = True
        return True

    def close(self) -> None:
        self._holders().pop(self, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _holders(self) -> dict[SimLock, bool]:
        held = self._machine.locks.setdefault(self._path, {})
        for lock in [lock for lock in held if lock.disk.is_dead]:
            del held[lock]
        return held


class SimTables(LmdbTables):
    """One process's use of an index."""

    def __init__(self, machine: Machine, disk: ProcessDisk, path: Path) -> None:
        self.path = path
        self._machine = machine
        self._disk = disk
        folder = machine.disk.folder(path)
        if DATA_FILE not in folder.names:
            index = Index()
            folder.add(DATA_FILE, index)
            machine.indexes.append(index)
        found = folder.names[DATA_FILE]
        assert isinstance(found, Index)
        assert not found.is_torn, "an index is used though the power has cut its pages"
        self.index = found

    @property
    def tables(self) -> Mapping[TableName, Table]:  # type: ignore[override]
        return self.index.tables.tables

    def begin(self, *, write: bool) -> Transaction:
        self.index.is_synced &= not write
        return _Counted(self._machine, self.index.tables.begin(write=write))

    def copy(self, txn: Transaction, disk: Disk, fd: int, offset: int) -> None:
        self.index.tables.copy(txn, disk, fd, offset)

    def sync(self) -> None:
        try:
            fd = self._disk.open(self.path / DATA_FILE, create=False)
            self._disk.sync(fd)
            self._disk.close(fd)
        except OSError as error:
            raise store_error(error, self.path) from error
        self.index.is_synced = True

    def forget_dead_readers(self) -> None:
        """A dead process's transactions have ended."""

    def size(self) -> tuple[int, int]:
        return (0, 0)

    def close(self) -> None:
        """Its pages stay."""


class _Counted:
    """A transaction that the machine knows of while it lasts."""

    def __init__(self, machine: Machine, txn: Transaction) -> None:
        self._machine = machine
        self._txn = txn
        self.get = txn.get
        self.put = txn.put
        self.delete = txn.delete
        self.cursor = txn.cursor

    def __enter__(self) -> Self:
        self._machine.transactions += 1
        self._txn.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        self._txn.__exit__(*args)
        self._machine.transactions -= 1


class SimDirectory(Directory):
    """The product's directory on a simulated machine, as one process has it."""

    disk: ProcessDisk

    def __init__(
        self,
        machine: Machine,
        disk: ProcessDisk,
        on_recovered: Callable[[Environment, Position], None] | None = None,
    ) -> None:
        identity = Identity(store_id="00" * 16, segment_size=SEGMENT_SIZE)
        super().__init__(PATH, identity, disk)
        self._machine = machine
        self._on_recovered = on_recovered
        self._recovered = 0

    def boot_id(self) -> str:
        return str(self._machine.boot)

    def flock(self, name: str) -> Flock:
        return SimLock(self._machine, self.disk, self.path / name)

    def open_tables(self, path: Path, *, read_only: bool = False) -> LmdbTables:
        return SimTables(self._machine, self.disk, path)

    def load_tables(self, path: Path, image: Iterable[bytes]) -> LmdbTables:
        loaded = MemoryTables.load(image)
        tables = SimTables(self._machine, self.disk, path)
        tables.index.tables = loaded
        return tables

    def mark_suspect(self) -> None:
        # From the sync that failed to this note, others may be told that theirs did not: if this
        # process dies just here, or the disk takes no note either, nobody knows.
        self.disk.is_spared = True
        try:
            super().mark_suspect()
        finally:
            self.disk.is_spared = False

    def recover(self, state: State) -> State:
        new = super().recover(state)
        self._recovered = new.index
        return new

    def write_state(self, state: State) -> None:
        super().write_state(state)
        if self._on_recovered is not None and state.index == self._recovered:
            self._recovered = 0  # from now on it is in force
            tables = SimTables(self._machine, self.disk, self.index_path(state.index))
            self._on_recovered(tables, position_of(tables))
