"""Backup and restore: a checkpoint, given away and taken back.

A backup is a fresh checkpoint, byte for byte, so it is made while the store
goes on, and holds no writer up however slowly it is read. A restore receives
it beside what is there, looks at every byte, makes an index of it, and only
then lets ``state.json`` name the new parts: killed at any moment, it leaves
the old store or the new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

from msgspec.structs import replace

from bide.errors import CorruptCheckpoint, NotAStore
from bide.format.checkpoint import (
    CHUNK_SIZE,
    HEAD_SIZE,
    CheckpointHead,
    checkpoint_name,
    decode_head,
)
from bide.format.identity import FILE_NAME, SEGMENT_SIZE_MIN, Identity, encode_identity
from bide.format.state import State
from bide.storage.checkpoint import Checkpoint, newest_checkpoint
from bide.storage.directory import Directory, read_identity, refuse_foreign
from bide.storage.disk import DIRECTORY_MODE, NEW_SUFFIX, Disk, OsDisk, mapped_errors, write_whole
from bide.storage.upkeep import Upkeep

Progress = Callable[[int, int], None]
"""Called with the bytes done, and with all there are."""

_RECEIVED = f"restore{NEW_SUFFIX}"


def backup(upkeep: Upkeep, write: Callable[[bytes], object], progress: Progress) -> CheckpointHead:
    """Write a backup of the store, as it is now.

    Raises:
        NotAStore: It has never had a job, so there is nothing to back up.
        StoreError: It could not be made. What was written is no backup.
    """
    upkeep.run()
    directory = upkeep.directory
    with mapped_errors(directory.path), directory.upkeep_lock() as lock:
        lock.take()  # another process's next checkpoint would remove this one before it is open
        path = directory.log_path(directory.read_state().log)
        checkpoint = newest_checkpoint(directory.disk, path)
    if checkpoint is None:
        raise NotAStore(
            f"{directory.path}: no job was ever put here: there is nothing to back up",
            path=str(directory.path),
        )
    done = 0
    with contextlib.closing(_parts(checkpoint)) as parts:
        for part in parts:
            write(part)  # what this raises is not the store's
            done += len(part)
            progress(done, checkpoint.head.file_size)
    return checkpoint.head


def _parts(checkpoint: Checkpoint) -> Generator[bytes, None, None]:
    """A checkpoint's file, which is closed behind it."""
    path, parts = checkpoint.path, checkpoint.data()
    try:
        while True:
            with mapped_errors(path):
                part = next(parts, b"")
            if not part:
                return
            yield part
    finally:
        with mapped_errors(path):
            checkpoint.close()


def restore(
    read: Callable[[int], bytes],
    path: Path,
    progress: Progress,
    *,
    disk: Disk | None = None,
) -> CheckpointHead:
    """Make the store in directory *path* what a backup says.

    Args:
        read: Gives up to so many bytes of the backup; none at its end.
        path: Nothing, or the store that the backup was made of.

    Raises:
        CorruptCheckpoint: It is no backup, cut short or damaged; what was at *path* is as it was.
        StoreLocked: The store there is in use.
        NotAStore: Another store is there, or something else.
    """
    disk = disk or OsDisk()
    head, first = _read_head(read)
    with mapped_errors(path):
        existing = read_identity(disk, path)
        if existing is None:
            path.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            refuse_foreign(disk, path)
        elif existing.store_id != head.store_id.hex():
            raise NotAStore(
                f"{path}: the backup is of another store than this one: restore it to a "
                "directory of its own",
                path=str(path),
            )
        identity = Identity(store_id=head.store_id.hex(), segment_size=head.segment_size)
        directory = Directory(path, existing or identity, disk)
        with directory.upkeep_lock() as lock:
            lock.take()
            with directory.alone():
                pass  # told now, not once all is received
            received = path / _RECEIVED
            disk.remove(received)
            disk.make_directory(received)
            try:
                with _written(disk, received / checkpoint_name(head.end)) as write:
                    _receive(read, first, head, write, progress)
                _swap(directory, received, head, is_new=existing is None)
            finally:
                disk.remove(received)
    return head


def _read_head(read: Callable[[int], bytes]) -> tuple[CheckpointHead, bytes]:
    data = b""
    while len(data) < HEAD_SIZE and (part := read(HEAD_SIZE - len(data))):
        data += part
    head = decode_head(data)
    if head.segment_size < SEGMENT_SIZE_MIN:
        raise CorruptCheckpoint("its head states an impossible store")
    return head, data


@contextlib.contextmanager
def _written(disk: Disk, path: Path) -> Iterator[Callable[[bytes, int], None]]:
    """A new file to write to, on the disk once the block has ended."""
    fd = disk.open(path, create=True)
    try:
        yield lambda data, offset: disk.write(fd, data, offset)
        disk.sync(fd)
    finally:
        disk.close(fd)


def _receive(
    read: Callable[[int], bytes],
    first: bytes,
    head: CheckpointHead,
    write: Callable[[bytes, int], None],
    progress: Progress,
) -> None:
    """Write what is read, all of it and no more."""
    write(first, 0)
    done = len(first)
    while part := read(CHUNK_SIZE):
        if done + len(part) > head.file_size:
            raise CorruptCheckpoint("the backup is damaged: more follows behind its end")
        write(part, done)
        done += len(part)
        progress(done, head.file_size)
    if done < head.file_size:
        raise CorruptCheckpoint(f"the backup is cut short: {done} of {head.file_size} bytes")


def _swap(directory: Directory, received: Path, head: CheckpointHead, *, is_new: bool) -> None:
    """Make the parts of a store of what was received, and have them in force."""
    disk = directory.disk
    old = _state_before(directory)
    new = replace(
        old,
        index=free_number(directory.free_index(), old.index),
        log=free_number(directory.free_log(), old.log),
        boot=directory.boot_id(),
        closed_at=None,
        leader=None,
    )
    with contextlib.ExitStack() as refused:
        for part in (directory.index_path(new.index), directory.log_path(new.log)):
            refused.callback(disk.remove, part)
        _make_parts(directory, received, head, new)
        with directory.alone():
            refused.pop_all()  # from here on the new ones may be in force
            directory.write_state(new)
            if is_new:  # the last, since it makes a store of the directory
                write_whole(disk, directory.path / FILE_NAME, encode_identity(directory.identity))
    for path in (directory.index_path(old.index), directory.log_path(old.log)):
        disk.remove(path)


def _state_before(directory: Directory) -> State:
    """The state to replace, also where there is none, or none that can be read."""
    try:
        return directory.read_state()
    except NotAStore:
        return State(index=0, log=0, boot="")


def free_number(free: int, old: int) -> int:
    """For an index or a log, *free* or a later number: never 1, nor that of the *old* one.

    A store that is made takes its parts numbered 1 as they are. Whoever
    fills a directory that is no store yet, and may die of it, leaves none.
    The old one may have been lost, so that its number seems free.
    """
    return max(2, free, old + 1)


def _make_parts(directory: Directory, received: Path, head: CheckpointHead, new: State) -> None:
    disk = directory.disk
    with contextlib.closing(Checkpoint(disk, received / checkpoint_name(head.end))) as checkpoint:
        log = directory.log_path(new.log)
        disk.make_directory(log)
        directory.log(new.log).start_at(checkpoint.position)
        disk.rename(checkpoint.path, log / checkpoint.path.name)
        disk.sync_directory(log)
    tables, _ = directory.load_index(new)  # looks at every byte
    tables.close()
    disk.make_directory(directory.owners)
