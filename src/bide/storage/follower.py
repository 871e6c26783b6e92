"""A follower: a replica of a store that is kept up with it, record by record.

Leader and follower hold the same log, byte for byte, in the same segments.
A follower begins with the leader's checkpoint and the segment that it stands
in, then takes each record at exactly its own end, looks at it, writes it and
applies it as the leader did. It asks the leader's index where the log ends:
what stands behind that is not committed.

One that ran ahead, since its leader lost its end with the power, is cut back
to what both have; one that the leader's retention has left behind begins anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import lmdb
import msgspec
from msgspec.structs import replace

from bide.errors import (
    CorruptRecord,
    NotAStore,
    OutOfStep,
    StoreLocked,
)
from bide.format.checkpoint import checkpoint_name
from bide.format.identity import FILE_NAME, encode_identity
from bide.format.record import HEAD_SIZE as RECORD_HEAD_SIZE
from bide.format.record import peek_chain, peek_size, peek_sizes, peek_written_ms
from bide.format.segment import HEAD_SIZE, decode_segment_head, segment_name
from bide.format.state import State
from bide.storage.backup import free_number
from bide.storage.checkpoint import newest_checkpoint
from bide.storage.directory import Directory, open_directory, read_identity, refuse_foreign
from bide.storage.disk import DIRECTORY_MODE, NEW_SUFFIX, Disk, OsDisk, mapped_errors, write_whole
from bide.storage.environment import DATA_FILE, index_error
from bide.storage.index import IndexView
from bide.storage.log_end import checkpoint_position
from bide.storage.log_files import START, Position
from bide.storage.parts import Parts
from bide.storage.replica import Replica

STEP_SIZE = 4 << 20
"""Bytes of the log that are taken in one step, at least one record."""

CLAIM_SIZE = 1 << 20
"""Bytes after which a follower tells its leader anew how far it is."""


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a follower is behind."""

    size: int
    """Bytes of the log."""
    records: int
    ms: int
    """Since the first record that it lacks was written."""
    end: int
    """Its own end of the log."""


class Leader:
    """The store that is followed, read alone."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.log = 0
        """The log that the last position stands in."""
        self._parts: Parts | None = None
        self._opened: tuple[int, ...] = ()

    def position(self) -> Position:
        """The end of its log.

        Raises:
            RecoveryNeeded: It went down with its machine, and is not up again.
        """
        while True:
            # A restore or a repair puts other parts in place, and leaves no word in the old ones.
            if self._parts is not None and self._opened != self._identify():
                self.close()
            if self._parts is None:
                self._opened = self._identify()
                self._parts = self.directory.open_to_read()
            environment = self._parts.environment
            try:
                with environment.begin(write=False) as txn:
                    view = IndexView(txn, environment.tables)
                    if view.moved() is None:
                        return view.position()
            except lmdb.Error as error:
                raise index_error(error, self.directory.path) from error
            self.close()

    def _identify(self) -> tuple[int, ...]:
        """Tells the parts in force from any others."""
        state = self.directory.read_state()
        self.log = state.log
        status = (self.directory.index_path(state.index) / DATA_FILE).stat()
        return state.index, state.log, status.st_dev, status.st_ino

    def close(self) -> None:
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.release()


class Follower:
    """Keeps the store in directory *path* up with the one in *source*.

    Raises:
        NotAStore: There is no leader, or *path* holds something else.
        StoreLocked: *path* is in use, or leads itself.
    """

    def __init__(self, source: Path, path: Path, *, disk: Disk | None = None) -> None:
        self._disk = disk or OsDisk()
        if source.resolve() == path.resolve():
            raise NotAStore(f"{path}: a store cannot follow itself", path=str(path))
        with mapped_errors(source):
            identity = read_identity(self._disk, source)
        if identity is None:
            raise NotAStore(f"{source}: no store there to follow", path=str(source))
        self.path = path
        self.leader = Leader(Directory(source, identity, self._disk))
        self._claim = source / "followers" / f"{crc32(str(path.absolute()).encode()):08x}"
        self._claimed = -1
        with mapped_errors(path):
            self.replica = self._open()

    def step(self, now_ms: int) -> Lag:
        """Take what the leader has, up to `STEP_SIZE`; returns what is lacking still.

        Raises:
            StoreError: The leader cannot be read, or the follower not written; to be tried again.
        """
        with mapped_errors(self.path):
            goal = self.leader.position()
            if not self._is_in_step(goal):
                self._come_into_step(goal)
                goal = self.leader.position()  # it may have begun anew, further on
            self._take(goal)
            self.replica.checkpoint_if_due(now_ms)
            self._tell_leader()
            return self._lag(goal, now_ms)

    def close(self) -> None:
        self.leader.close()
        self.replica.close()

    def _open(self) -> Replica:
        existing = read_identity(self._disk, self.path)
        leader = self.leader.directory
        if existing is None:
            self.path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            refuse_foreign(self._disk, self.path)
        elif existing.store_id != leader.identity.store_id:
            raise NotAStore(
                f"{self.path}: holds another store than {leader.path}: "
                "follow to a directory of its own",
                path=str(self.path),
            )
        directory = Directory(self.path, leader.identity, self._disk)
        users = directory.users()
        try:
            with directory.locked():
                if not users.try_take():
                    raise StoreLocked(
                        f"{self.path}: another process has it open", path=str(self.path)
                    )
                if existing is not None and directory.read_state().leader is None:
                    raise StoreLocked(
                        f"{self.path}: it follows no one, and may have jobs of its own: "
                        "follow to another directory",
                        path=str(self.path),
                    )
            if existing is None:
                state = self._begin(directory)
            else:
                state = directory.read_state()
                if not directory.is_index_good(state):
                    state = directory.recover(state)
                boot = directory.boot_id()
                state = replace(state, closed_at=None, boot=boot, leader=str(leader.path))
                directory.write_state(state)
            self._sweep(directory, state)
            return Replica(directory, users, state)
        except BaseException:
            users.close()
            raise

    def _sweep(self, directory: Directory, state: State) -> None:
        """Remove what a kill, or a copy that failed, has left behind; alone."""
        for number in range(1, directory.free_index()):
            if number != state.index:
                self._disk.remove(directory.index_path(number))
        for number in range(1, directory.free_log()):
            if number != state.log:
                self._disk.remove(directory.log_path(number))
        for path in (directory.path, directory.log_path(state.log)):
            for name in self._disk.names(path):
                if name.endswith(NEW_SUFFIX):
                    self._disk.remove(path / name)

    def _begin(self, directory: Directory) -> State:
        """Make the follower of the leader's checkpoint, and of the segment that it stands in."""
        leader, disk = self.leader.directory, self._disk
        known = (directory.path / FILE_NAME).exists()
        old = directory.read_state() if known else State(index=0, log=0, boot="")
        new = replace(
            old,
            index=free_number(directory.free_index(), old.index),
            log=free_number(directory.free_log(), old.log),
            boot=directory.boot_id(),
            closed_at=None,
            leader=str(leader.path),
        )
        path = directory.log_path(new.log)
        disk.make_directory(path)
        with leader.upkeep_lock() as lock:
            lock.take()  # what is copied is not trimmed meanwhile
            files = leader.log_files(leader.read_state().log)
            checkpoint = newest_checkpoint(disk, files.path)
            if checkpoint is not None:
                with contextlib.closing(checkpoint):
                    position = checkpoint.position
                    name = checkpoint_name(position.end)
                    self._copy(path / name, checkpoint.data())
                    start = position.base if position.base in files.bases() else position.end
                    size = max(position.end - start, HEAD_SIZE)
                    self._copy(path / segment_name(start), iter([files.part(start, start, size)]))
        disk.sync_directory(path)
        tables, _ = directory.load_index(new)
        tables.close()
        disk.make_directory(directory.owners)
        directory.write_state(new)
        if not known:
            write_whole(disk, directory.path / FILE_NAME, encode_identity(leader.identity))
        for stale in (directory.index_path(old.index), directory.log_path(old.log)):
            disk.remove(stale)
        return new

    def _copy(self, path: Path, parts: Iterator[bytes]) -> None:
        fd = self._disk.open(path, create=True)
        try:
            offset = 0
            for part in parts:
                self._disk.write(fd, part, offset)
                offset += len(part)
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    def _is_in_step(self, goal: Position) -> bool:
        """Whether the leader's log, as it is now, goes on from where the follower's ends."""
        own = self.replica.position
        if own.end == goal.end:
            return own.chain == goal.chain
        if own == START:
            return 0 in self._leader_bases()
        if own.end > goal.end:
            return False
        try:
            return self._next_chain(own) == own.chain
        except (OSError, CorruptRecord):
            return False

    def _next_chain(self, own: Position) -> int | None:
        """What the record behind *own* in the leader's log says of the one before."""
        files = self.leader.directory.log_files(self.leader.log)
        bases = [base for base in files.bases() if base <= own.end]
        if not bases:
            return None
        base = bases[-1]
        if base == own.end:
            head = decode_segment_head(files.part(base, base, HEAD_SIZE), base=base)
            return None if head is None else head.chain
        head_bytes = files.part(base, own.end, RECORD_HEAD_SIZE)
        return peek_chain(head_bytes) if len(head_bytes) == RECORD_HEAD_SIZE else None

    def _leader_bases(self) -> list[int]:
        return self.leader.directory.log_files(self.leader.log).bases()

    def _come_into_step(self, goal: Position) -> None:
        """Cut the follower back to what both have, or begin anew if that is too long ago."""
        common = self._common(goal)
        replica = self.replica
        if (
            common is not None
            and common >= checkpoint_position(replica.directory, replica.state.log).end
        ):
            with replica.directory.upkeep_lock() as lock:
                lock.take()
                replica.cut_back(common)
            return
        with replica.replaced():
            self._begin(replica.directory)

    def _common(self, goal: Position) -> int | None:
        """The last log offset up to which both logs hold the same records."""
        theirs = self.leader.directory.log_files(self.leader.log)
        ours = self.replica.directory.log_files(self.replica.state.log)
        shared = sorted(set(theirs.bases()) & set(ours.bases()))
        end: int | None = None
        for base in reversed(shared):
            mine = ours.segment(base)
            limit = min(len(mine), max(0, goal.end - base))
            other = theirs.part(base, base, limit)
            for record_end, size in _ends(mine[:limit], base, self.replica.position.end):
                if bytes(mine[size:record_end]) != other[size:record_end]:
                    break
                end = base + record_end
            if end is not None:
                return end
        return end

    def _take(self, goal: Position) -> None:
        replica = self.replica
        files = self.leader.directory.log_files(self.leader.log)
        taken = 0
        while replica.position.end < goal.end and taken < STEP_SIZE:
            own = replica.position
            bases = self._leader_bases()
            if own == START or (own.end in bases and own.base != own.end):
                base = 0 if own == START else own.end
                replica.accept_segment(files.part(base, base, HEAD_SIZE), base)
                continue
            ahead = min([base for base in bases if base > own.base], default=goal.end)
            limit = min(ahead, goal.end) - own.end
            data = files.part(own.base, own.end, min(limit, max(STEP_SIZE, RECORD_HEAD_SIZE)))
            sizes = peek_sizes(data)
            if not sizes:
                if len(data) < RECORD_HEAD_SIZE:
                    raise CorruptRecord(
                        f"{files.file(own.base)}: it ends at {own.end + len(data)}, "
                        f"before {goal.end}",
                        path=files.file(own.base),
                        offset=own.end,
                    )
                size = peek_size(data)
                data = files.part(own.base, own.end, size)
                sizes = [size]
            data = data[: sum(sizes)]
            replica.accept(data, own.end, sizes)
            taken += len(data)

    def _tell_leader(self) -> None:
        """Claim the log from here on; a leader that cannot be written to keeps what it will."""
        end = self.replica.position.end
        if end == self._claimed or (self._claimed >= 0 and 0 <= end - self._claimed < CLAIM_SIZE):
            return
        with contextlib.suppress(OSError):
            self._disk.make_directory(self._claim.parent)
            write_whole(self._disk, self._claim, f"{end}\n".encode())
            self._claimed = end

    def _lag(self, goal: Position, now_ms: int) -> Lag:
        own = self.replica.position
        records, written_ms = 0, now_ms
        if own.end < goal.end:
            files = self.leader.directory.log_files(self.leader.log)
            for base in (b for b in files.bases() if b >= own.base):
                start = max(own.end, base + HEAD_SIZE)
                data = memoryview(files.segment(base))[start - base :]
                sizes = peek_sizes(data[: max(0, goal.end - start)])
                if sizes and not records:
                    written_ms = peek_written_ms(data)
                records += len(sizes)
        return Lag(
            size=goal.end - own.end, records=records, ms=max(0, now_ms - written_ms), end=own.end
        )


def promote(path: Path) -> Directory:
    """Have a follower lead: from now on jobs are put and run there.

    Raises:
        NotAStore: There is no store.
        StoreLocked: It is being followed to still: stop that first.
        OutOfStep: It follows no one.
    """
    disk = OsDisk()
    identity = read_identity(disk, path)
    if identity is None:
        raise NotAStore(f"{path}: no store there", path=str(path))
    directory = open_directory(path, create=False, new_identity=identity)
    with directory.alone():
        state = directory.read_state()
        if state.leader is None:
            raise OutOfStep(f"{path}: it follows no one: it leads already", path=str(path))
        directory.write_state(replace(state, leader=None))
    return directory


def _ends(data: memoryview, base: int, end: int) -> Iterator[tuple[int, int]]:
    """(end, start) of each record of a segment, in bytes from its start, up to log offset *end*."""
    start = HEAD_SIZE
    for size in peek_sizes(data[HEAD_SIZE : max(HEAD_SIZE, end - base)]):
        yield start + size, start
        start += size
