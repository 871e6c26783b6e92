"""Checkpoints: the index in one file, so that recovery need not read the whole log.

A checkpoint stands beside the segments. It is made from one read
transaction, while commits go on, and is in force once it has its name:
by then it is on the disk, and so is the log up to where it stands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

from bide.errors import CorruptCheckpoint
from bide.format.checkpoint import (
    CHUNK_SIZE,
    HEAD_SIZE,
    CheckpointHead,
    checkpoint_end,
    checkpoint_name,
    decode_head,
    decode_table,
    encode_head,
    encode_table,
)
from bide.storage.disk import NEW_SUFFIX, Disk, store_error
from bide.storage.log_files import START, Position
from bide.storage.tables import Environment, Transaction


def make_checkpoint(
    disk: Disk,
    path: Path,
    take: Callable[[int], Position],
    *,
    store_id: bytes,
    segment_size: int,
    now_ms: int,
) -> CheckpointHead | None:
    """Make a checkpoint in the log's directory *path*, and have it in force.

    Args:
        take: Copies the image into the open file that it is given (by
            `copy_image`), has the log on the disk up to there, and returns where.

    Returns:
        None if no record was ever written: there is nothing to keep.

    Raises:
        OSError, StoreError: It was not made, and nothing is left of it.
    """
    new = new_checkpoint_path(path)
    fd = disk.open(new, create=True)
    try:
        position = take(fd)
        if position == START:
            disk.remove(new)
            return None
        head = seal(
            disk,
            fd,
            position=position,
            store_id=store_id,
            segment_size=segment_size,
            now_ms=now_ms,
        )
        put_in_force(disk, new, head)
    except BaseException:
        with contextlib.suppress(OSError):
            disk.remove(new)  # its space may be all that others lack
        raise
    finally:
        disk.close(fd)
    return head


def copy_image(disk: Disk, fd: int, environment: Environment, txn: Transaction) -> None:
    """The part that needs the transaction: the tables as *txn* sees them, into an open file."""
    disk.truncate(fd, 0)
    environment.copy(txn, disk, fd, HEAD_SIZE)


def seal(
    disk: Disk, fd: int, *, position: Position, store_id: bytes, segment_size: int, now_ms: int
) -> CheckpointHead:
    """Make a checkpoint of a file that `copy_image` has filled, and put it on the disk."""
    size = disk.size(fd) - HEAD_SIZE
    offsets = range(HEAD_SIZE, HEAD_SIZE + size, CHUNK_SIZE)
    end = HEAD_SIZE + size
    checks = [crc32(disk.read(fd, min(CHUNK_SIZE, end - at), at)) for at in offsets]
    table = encode_table(checks)
    head = CheckpointHead(
        store_id=store_id,
        base=position.base,
        end=position.end,
        chain=position.chain,
        made_ms=now_ms,
        image_size=size,
        segment_size=segment_size,
        table_check=crc32(table),
    )
    disk.write(fd, table, end)
    disk.sync(fd)
    disk.write(fd, encode_head(head), 0)
    disk.sync(fd)
    return head


class Checkpoint:
    """A checkpoint's file, open to be read. Its head is good; the rest is looked at as it is read.

    Raises:
        CorruptCheckpoint, UnsupportedFormat: As the head says.
    """

    def __init__(self, disk: Disk, path: Path) -> None:
        self.path = path
        self._disk = disk
        try:
            self._fd = disk.open_to_read(path)
        except OSError as error:
            raise store_error(error, path) from error
        try:
            self.head = self._read_head()
        except BaseException:
            self.close()
            raise

    @property
    def position(self) -> Position:
        return Position(self.head.base, self.head.end, self.head.chain)

    def image(self) -> Iterator[bytes]:
        """The image, in parts, each good.

        Raises:
            CorruptCheckpoint: A part is damaged, or missing.
        """
        head, end = self.head, HEAD_SIZE + self.head.image_size
        try:
            checks = decode_table(self._disk.read(self._fd, head.file_size - end, end), head)
        except CorruptCheckpoint as error:
            raise self._located(error) from None
        for index, check in enumerate(checks):
            at = HEAD_SIZE + index * head.chunk_size
            chunk = self._disk.read(self._fd, min(head.chunk_size, end - at), at)
            if crc32(chunk) != check:
                raise CorruptCheckpoint(
                    f"{self.path}: damaged between bytes {at} and {at + len(chunk)}",
                    path=str(self.path),
                )
            yield chunk

    def data(self) -> Iterator[bytes]:
        """The whole file, in parts, each good.

        Raises:
            CorruptCheckpoint: As `image`.
        """
        yield self._disk.read(self._fd, HEAD_SIZE, 0)
        yield from self.image()
        end = HEAD_SIZE + self.head.image_size
        yield self._disk.read(self._fd, self.head.file_size - end, end)

    def close(self) -> None:
        self._disk.close(self._fd)

    def _read_head(self) -> CheckpointHead:
        try:
            head = decode_head(self._disk.read(self._fd, HEAD_SIZE, 0))
            if self._disk.size(self._fd) < head.file_size:
                raise CorruptCheckpoint(
                    f"cut short: {self._disk.size(self._fd)} of {head.file_size} bytes"
                )
        except CorruptCheckpoint as error:
            raise self._located(error) from None
        return head

    def _located(self, error: CorruptCheckpoint) -> CorruptCheckpoint:
        return CorruptCheckpoint(f"{self.path}: {error}", path=str(self.path))


def list_checkpoints(disk: Disk, path: Path) -> list[int]:
    """The log offsets of the checkpoints in directory *path*, in order."""
    ends = map(checkpoint_end, disk.names(path))
    return sorted(end for end in ends if end is not None)


def newest_checkpoint(disk: Disk, path: Path) -> Checkpoint | None:
    """The newest checkpoint in directory *path*; None if there is none yet.

    Raises:
        CorruptCheckpoint, UnsupportedFormat: It is not what it must be.
    """
    ends = list_checkpoints(disk, path)
    return Checkpoint(disk, path / checkpoint_name(ends[-1])) if ends else None


def new_checkpoint_path(path: Path) -> Path:
    """Where a checkpoint in directory *path* is made, before it has its name."""
    return path / f"checkpoint{NEW_SUFFIX}"


def put_in_force(disk: Disk, new: Path, head: CheckpointHead) -> Path:
    """Give the checkpoint in file *new* its name, and remove those before it."""
    path = new.parent / checkpoint_name(head.end)
    disk.rename(new, path)
    disk.sync_directory(path.parent)
    for end in list_checkpoints(disk, path.parent):
        if end < head.end:
            disk.remove(path.parent / checkpoint_name(end))
    return path
