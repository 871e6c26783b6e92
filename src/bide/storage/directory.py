"""A store's directory: made whole or not at all, recognised, and opened.

::

    DIR/                     0700
      bide.json              what makes it a store (`bide.format.identity`); written last
      state.json             which parts are in force (`bide.format.state`)
      lock                   held while the directory is made, opened, closed or switched
      users                  held, shared, by every process that has the store open
      upkeep                 held by the process that makes a checkpoint or compacts
      suspect                there once a sync has failed: the index and the log's end need mending
      log-N/                 segments, and the newest checkpoint
      index-N/               LMDB
      ballast                room kept for settlements on a full disk
      owners/                a file and a bell for each worker process
      followers/             how far each follower has come

Whoever opens it alone has a moment in which nothing else moves, and does
then what could not be done safely with others about.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import lmdb
from msgspec.structs import replace

from bide.errors import (
    NotAStore,
    RecoveryNeeded,
    StoreError,
    StoreFailed,
    StoreLocked,
    StoreReadOnly,
    UnsupportedFormat,
)
from bide.format import identity as identity_file
from bide.format import state as state_file
from bide.format.identity import Identity, decode_identity, encode_identity
from bide.format.state import State, decode_state, encode_state
from bide.storage.ballast import Ballast
from bide.storage.boot import boot_id
from bide.storage.checkpoint import newest_checkpoint
from bide.storage.disk import (
    DIRECTORY_MODE,
    NEW_SUFFIX,
    Disk,
    OsDisk,
    mapped_errors,
    read_whole,
    write_whole,
)
from bide.storage.environment import DATA_FILE, LmdbTables, index_error
from bide.storage.flock import Flock
from bide.storage.index import IndexView
from bide.storage.log import SegmentLog
from bide.storage.log_files import START, LogFiles, Position
from bide.storage.open_parts import OpenParts
from bide.storage.parts import Parts
from bide.storage.recovery import position_of, rebuild, resume

_LOCK, _USERS, _UPKEEP = "lock", "users", "upkeep"
_SUSPECT, _OWNERS, _FOLLOWERS, _BALLAST = "suspect", "owners", "followers", "ballast"
_INDEX, _LOG, DAMAGED_LOG = "index-", "log-", "damaged-log-"
_OWN_NAMES = {
    *(_LOCK, _USERS, _UPKEEP, _SUSPECT, _OWNERS, _FOLLOWERS, _BALLAST, "restore", "check"),
    *(identity_file.FILE_NAME, state_file.FILE_NAME),
}


class Directory:
    """The directory of a store that exists."""

    def __init__(self, path: Path, identity: Identity, disk: Disk) -> None:
        self.path = path
        self.identity = identity
        self.disk = disk

    @property
    def owners(self) -> Path:
        return self.path / _OWNERS

    @property
    def followers(self) -> Path:
        return self.path / _FOLLOWERS

    def followed(self) -> list[int]:
        """The log offset that each follower has reached, as far as it has said."""
        if not self._holds(self.followers):
            return []
        names = self.disk.names(self.followers)
        claims = [read_whole(self.disk, self.followers / name) for name in names]
        return [int(claim) for claim in claims if claim and claim.strip().isdigit()]

    @property
    def store_id(self) -> bytes:
        return bytes.fromhex(self.identity.store_id)

    def index_path(self, number: int) -> Path:
        return self.path / f"{_INDEX}{number}"

    def log_path(self, number: int) -> Path:
        return self.path / f"{_LOG}{number}"

    def log(self, number: int) -> SegmentLog:
        return SegmentLog(
            self.disk,
            self.log_path(number),
            store_id=self.store_id,
            segment_size=self.identity.segment_size,
            suspect=self.path / _SUSPECT,
        )

    def log_files(self, number: int) -> LogFiles:
        return LogFiles(self.disk, self.log_path(number), self.store_id)

    def read_state(self) -> State:
        """Which parts are in force.

        Raises:
            NotAStore: It does not say.
        """
        data = read_whole(self.disk, self.path / state_file.FILE_NAME)
        try:
            if data is None:
                raise NotAStore(f"{state_file.FILE_NAME} is missing")
            return decode_state(data)
        except NotAStore as error:
            raise NotAStore(
                f"{self.path}: {error}; to make it anew: bide check --repair {self.path}",
                path=str(self.path),
            ) from None

    def guess_state(self) -> State:
        """What the state must have been, for a repair: its index is to be made anew.

        Raises:
            NotAStore: More than one log, or none, may have been in force.
        """
        numbers = [n for name in self.disk.names(self.path) if (n := _number(name, _LOG))]
        if len(numbers) != 1:
            raise NotAStore(
                f"{self.path}: {state_file.FILE_NAME} does not say which of {len(numbers)} logs "
                "is in force; restore a backup",
                path=str(self.path),
            )
        # Who leads has a ballast, who follows has none: it must not run what its leader runs.
        leader = None if self._holds(self.path / _BALLAST) else "a store that is no longer known"
        return State(index=self.free_index(), log=numbers[0], boot="", leader=leader)

    def write_state(self, state: State) -> None:
        write_whole(self.disk, self.path / state_file.FILE_NAME, encode_state(state))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Alone in making, opening, closing and switching, until the block ends."""
        with mapped_errors(self.path), self.flock(_LOCK) as lock:
            lock.take()
            yield

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """A block in which nobody has the store open, or can open it.

        Raises:
            StoreLocked: Somebody has.
        """
        with self.locked(), self.users() as users:
            if not users.try_take():
                raise StoreLocked(
                    f"{self.path}: processes have the store open: stop them first",
                    path=str(self.path),
                )
            yield

    # What a store takes from its machine beside the disk: a simulated one has its own.

    def boot_id(self) -> str:
        """Names the time since the machine was started; "" where the system does not say."""
        return boot_id()

    def flock(self, name: str) -> Flock:
        return Flock(self.path / name)

    def open_tables(self, path: Path, *, read_only: bool = False) -> LmdbTables:
        """The index in directory *path*, a new one if it is empty."""
        return LmdbTables(path, read_only=read_only)

    def load_tables(self, path: Path, image: Iterable[bytes]) -> LmdbTables:
        """The index that a checkpoint's *image* holds, in directory *path*, which is empty."""
        return LmdbTables.load(self.disk, path, image)

    def upkeep_lock(self) -> Flock:
        """The lock of whoever reads a snapshot, or puts another index in the place of one."""
        return self.flock(_UPKEEP)

    def users(self) -> Flock:
        """The lock that says who has the store open."""
        return self.flock(_USERS)

    def open_parts(self) -> OpenParts:
        """The index, good for use, and the log; for as long as this process uses them.

        Raises:
            StoreReadOnly: It follows another store, and changes with that one alone.
            StoreFailed: A sync failed, and others still have the store open.
            StoreError: It can't be opened, or recovered, for what it says.
        """
        with self.locked(), contextlib.ExitStack() as held:
            users = held.enter_context(self.users())
            is_alone = users.try_take()
            if not is_alone:
                users.take(shared=True)
            state = self.read_state()
            if state.leader is not None:
                raise StoreReadOnly(
                    f"{self.path}: it follows {state.leader}; to run jobs here instead of there, "
                    f"make it a store of its own: bide promote {self.path}",
                    path=str(self.path),
                )
            state, environment = self._ready_index(state, is_alone=is_alone)
            held.callback(environment.close)
            if is_alone:
                self._tidy(state, environment)
                users.take(shared=True)
            ballast = Ballast(self.disk, self.path / _BALLAST)
            held.callback(ballast.close)
            state = replace(state, boot=self.boot_id(), closed_at=None)
            try:
                self.write_state_changed(state)
            except OSError:
                if not ballast.give_up():  # on a full disk, who ends jobs must get in
                    raise
                self.write_state_changed(state)
            ballast.is_whole()
            held.pop_all()
            return OpenParts(self, environment, self.log(state.log), users, ballast)

    def open_to_read(self) -> Parts:
        """The index and the log, for one who changes nothing.

        Raises:
            RecoveryNeeded: The machine went down while the store was in use.
        """
        with mapped_errors(self.path):
            state = self.read_state()
            while True:
                try:
                    return self._open_to_read(state)
                except StoreError:
                    # Nothing keeps others from putting another index in the place of this one.
                    before, state = state, self.read_state()
                    if state == before:
                        raise

    def _open_to_read(self, state: State) -> Parts:
        if not self.is_index_good(state) or self.is_suspect:
            raise RecoveryNeeded(
                f"{self.path}: the machine went down while the store was in use; it is mended "
                f"when a worker or a program opens it, or by: bide check --repair {self.path}",
                path=str(self.path),
            )
        _, environment = self._follow(state, read_only=True)
        return Parts(environment, self.log(state.log))

    def write_state_changed(self, state: State) -> None:
        """Write the state, unless it says just that."""
        if state != self.read_state():
            self.write_state(state)

    @property
    def is_suspect(self) -> bool:
        return self._holds(self.path / _SUSPECT)

    def mark_suspect(self) -> None:
        """Leave a note that a sync has failed, for whoever opens the store next."""
        self.disk.close(self.disk.open(self.path / _SUSPECT, create=True))
        self.disk.sync_directory(self.path)

    def remove_suspect(self) -> None:
        """The index, and the log's end, have been mended."""
        self.disk.remove(self.path / _SUSPECT)

    def is_index_good(self, state: State) -> bool:
        """Whether it is there, and no page of it can have been lost with the machine."""
        in_time = state.boot == self.boot_id() or state.closed_at is not None
        return in_time and self._holds(self.index_path(state.index) / DATA_FILE)

    def recover(self, state: State) -> State:
        """Make the index anew, from the newest checkpoint and the log; alone.

        Returns:
            The state to write: until then, nothing has changed but that the
            log's torn tail is gone.

        Raises:
            CorruptRecord, CorruptCheckpoint: They are damaged, and only a
                repair can go on.
        """
        log = self.log(state.log)
        if self.is_suspect:
            log.rewrite()
        new = replace(state, index=self.free_index(), boot=self.boot_id(), closed_at=None)
        path = self.index_path(new.index)
        try:
            tables, start = self.load_index(new)
            with contextlib.closing(tables):
                log.cut(rebuild(log, tables, start=start))
        except BaseException as error:
            with contextlib.suppress(OSError):  # each try would leave one more
                self.disk.remove(path)
            if isinstance(error, lmdb.Error):
                raise index_error(error, path) from error
            raise
        return new

    def load_index(self, state: State) -> tuple[LmdbTables, Position]:
        """A new index as the newest checkpoint has it, or empty, and where the log goes on."""
        return self.load_index_at(self.index_path(state.index), state)

    def load_index_at(self, path: Path, state: State) -> tuple[LmdbTables, Position]:
        """As `load_index`, in directory *path*."""
        self.disk.remove(path)
        self.disk.make_directory(path)
        checkpoint = newest_checkpoint(self.disk, self.log_path(state.log))
        if checkpoint is None:
            return self.open_tables(path), START
        try:
            tables = self.load_tables(path, checkpoint.image())
        finally:
            checkpoint.close()
        with tables.closed_if_failed():
            return tables, resume(tables, self.log_files(state.log), checkpoint.position)

    def index_numbers(self) -> list[int]:
        """What names the indexes that are there, in force or not."""
        numbers = (_number(name, _INDEX) for name in self.disk.names(self.path))
        return [number for number in numbers if number]

    def free_index(self) -> int:
        """A number that names no index yet."""
        return 1 + max(self.index_numbers(), default=0)

    def free_log(self) -> int:
        """A number that names no log yet."""
        return 1 + max((_number(n, _LOG) for n in self.disk.names(self.path)), default=0)

    def _holds(self, path: Path) -> bool:
        """Whether there is something at *path*."""
        try:
            return path.name in self.disk.names(path.parent)
        except FileNotFoundError:
            return False

    def _ready_index(self, state: State, *, is_alone: bool) -> tuple[State, LmdbTables]:
        if self.is_index_good(state) and not self.is_suspect:
            state, environment = self._follow(state)
            with environment.closed_if_failed():
                if state.closed_at is None or state.closed_at == position_of(environment).end:
                    return state, environment
            environment.close()  # closed as the state says, and changed since: by no bide
        if not is_alone:
            what = "a sync failed" if self.is_suspect else "its index is missing"
            raise StoreFailed(
                f"{self.path}: {what}, and other processes still have the store open: "
                "stop them, so that it can be mended",
                path=str(self.path),
            )
        state = self.recover(state)
        self.write_state(state)
        self.remove_suspect()
        return self._follow(state)

    def _follow(self, state: State, *, read_only: bool = False) -> tuple[State, LmdbTables]:
        """The index in force: who moved it may have died before the state said so."""
        while True:
            environment = self.open_tables(self.index_path(state.index), read_only=read_only)
            with environment.closed_if_failed(), environment.begin(write=False) as txn:
                moved = IndexView(txn, environment.tables).moved()
            if moved is None:
                return state, environment
            environment.close()
            state = replace(state, index=moved)

    def _tidy(self, state: State, environment: LmdbTables) -> None:
        """Remove what others have left behind; alone."""
        with self.upkeep_lock() as lock:
            if lock.try_take():  # else what is there is in the making: a restore, say
                self._sweep(state)
        log = self.log(state.log)
        position = position_of(environment)
        bases = log.files.bases()
        if bases and bases[-1] > position.base:
            log.cut(position)

    def _sweep(self, state: State) -> None:
        """Remove indexes and logs that are not in force, and what was never finished."""
        kept = {self.index_path(state.index).name, self.log_path(state.log).name}
        for name in self.disk.names(self.path):
            if name not in kept and (name.startswith((_INDEX, _LOG)) or name.endswith(NEW_SUFFIX)):
                self.disk.remove(self.path / name)


def open_directory(
    path: Path,
    *,
    create: bool,
    new_identity: Identity,
    disk: Disk | None = None,
    read_only: bool = False,
) -> Directory:
    """The store at *path*, made first if *create* and nothing is there.

    Raises:
        NotAStore: There is nothing, or something else.
        UnsupportedFormat: Another version of bide wrote it.
        StoreReadOnly: This process may not write there.
        StoreFull: There is no space to make it.
    """
    disk = disk or OsDisk()
    with mapped_errors(path):
        identity = read_identity(disk, path)
        if identity is None and create and not read_only:
            path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            identity = _create(disk, path, new_identity)
        if identity is None:
            raise NotAStore(
                f"{path}: no store there; a program that uses `bide.App` makes one",
                path=str(path),
            )
        if not (read_only or os.access(path, os.W_OK)):
            raise PermissionError(errno.EACCES, "not writable", str(path))
        return Directory(path, identity, disk)


def _create(disk: Disk, path: Path, identity: Identity) -> Identity:
    refuse_foreign(disk, path)
    with Flock(path / _LOCK) as lock:
        lock.take()
        existing = read_identity(disk, path)
        if existing is not None:
            return existing  # another process was quicker
        directory = Directory(path, identity, disk)
        state = State(index=1, log=1, boot=boot_id())
        for part in (directory.index_path(1), directory.log_path(1), directory.owners):
            disk.make_directory(part)
        LmdbTables(directory.index_path(1)).close()
        directory.write_state(state)
        write_whole(disk, path / identity_file.FILE_NAME, encode_identity(identity))
        return identity


def refuse_foreign(disk: Disk, path: Path) -> None:
    """Refuse a directory that holds what no store does, with `NotAStore`."""
    foreign = sorted(name for name in disk.names(path) if not _is_own(name))
    if foreign:
        raise NotAStore(
            f"{path}: holds {foreign[0]!r}, and no {identity_file.FILE_NAME}: "
            "another program's directory; name an empty one",
            path=str(path),
        )


def read_identity(disk: Disk, path: Path) -> Identity | None:
    """What the directory says it is; None if it says nothing."""
    try:
        data = read_whole(disk, path / identity_file.FILE_NAME)
        return None if data is None else decode_identity(data)
    except (NotAStore, UnsupportedFormat) as error:
        raise type(error)(f"{path}: {error}", path=str(path)) from None


def _is_own(name: str) -> bool:
    name = name.removesuffix(NEW_SUFFIX)
    return name in _OWN_NAMES or any(_number(name, part) for part in (_INDEX, _LOG, DAMAGED_LOG))


def _number(name: str, prefix: str) -> int:
    """The number behind *prefix*; 0 if *name* is none of these."""
    digits = name.removeprefix(prefix)
    return int(digits) if name.startswith(prefix) and digits.isascii() and digits.isdigit() else 0
