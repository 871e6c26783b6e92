"""The commands that care for a store as a whole: backup, restore, compact."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from bide.cli import output
from bide.cli.options import json_option, store_directory
from bide.cli.progress import byte_bar
from bide.clock import SystemClock

_STREAM = "-"


@click.command(
    short_help="Write the whole store into one file.",
    epilog="""\
\b
Examples:
  bide backup shop.bide --url file:///var/lib/shop/jobs
  bide backup - | ssh other 'bide restore - --url file:///var/lib/shop/jobs'
""",
)
@click.argument("file", metavar="FILE|-")
@click.option("--force", is_flag=True, help="FILE may be there already; it is replaced.")
@json_option
@store_directory
def backup(*, path: Path, file: str, force: bool, as_json: bool) -> None:
    """Write a backup of the store, as it is now, to FILE, or to stdout for '-'.

    Programs and workers go on meanwhile. FILE has its name once it is whole,
    and on the disk.
    """
    from bide.backends.local import open_upkeep
    from bide.storage.backup import backup as write_backup

    if file == _STREAM and sys.stdout.isatty():
        raise click.UsageError("a backup is no text for a terminal: name a file, or pipe it on")
    if file == _STREAM and as_json:
        raise click.UsageError("--json and a backup to stdout would be one stream: name a file")
    if file != _STREAM and Path(file).exists() and not force:
        raise click.UsageError(f"{file}: there already; use another name, or --force")
    with (
        open_upkeep(path, SystemClock()) as upkeep,
        byte_bar("backup") as progress,
        _written(file) as stream,
    ):
        head = write_backup(upkeep, stream.write, progress)
    if as_json:
        output.print_json({"file": file, "size": head.file_size, "log_offset": head.end})
    elif file != _STREAM:
        output.print_line(f"{file}: {head.file_size} bytes, the store up to log offset {head.end}")


@click.command(
    short_help="Make a store what a backup says.",
    epilog="""\
\b
Examples:
  bide restore shop.bide --url file:///var/lib/shop/jobs
  ssh other bide backup - | bide restore -
""",
)
@click.argument("file", metavar="FILE|-")
@json_option
@store_directory
def restore(*, path: Path, file: str, as_json: bool) -> None:
    """Make the store what the backup in FILE, or from stdin for '-', says.

    The whole backup is looked at first: one that is damaged, cut short or of
    another store is refused, and leaves the store as it is. Stop the
    workers and programs that use it before.
    """
    from bide.storage.backup import restore as take_backup

    with _read(file) as stream, byte_bar("restore") as progress:
        head = take_backup(stream.read, path, progress)
    if as_json:
        output.print_json({"path": str(path), "size": head.file_size, "log_offset": head.end})
    else:
        output.print_line(f"{path}: restored, up to log offset {head.end}")


@click.command(
    short_help="Give the disk back what the store does not need.",
    epilog="""\
\b
Examples:
  bide compact --url file:///var/lib/shop/jobs
""",
)
@json_option
@store_directory
def compact(*, path: Path, as_json: bool) -> None:
    """Make a checkpoint, remove the log before it, and pack the index.

    Workers do it by themselves, when it is worth it. Programs and workers go
    on meanwhile.
    """
    from bide.backends.local import open_upkeep

    with open_upkeep(path, SystemClock()) as upkeep:
        kept = upkeep.run(compact=True)
    if as_json:
        output.print_json(
            {
                "log_trimmed": kept.trimmed_size,
                "index_before": kept.index_size_before,
                "index": kept.index_size,
            }
        )
    else:
        output.print_line(
            f"{path}: {kept.trimmed_size} bytes of the log removed; "
            f"the index took {kept.index_size_before} bytes, and takes {kept.index_size}"
        )


@contextmanager
def _written(name: str) -> Iterator[BinaryIO]:
    """A file that has its name once the block is done, or stdout."""
    if name == _STREAM:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    new = Path(f"{name}.new")
    try:
        with new.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(name)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


@contextmanager
def _read(name: str) -> Iterator[BinaryIO]:
    if name == _STREAM:
        yield sys.stdin.buffer
    else:
        with Path(name).open("rb") as file:
            yield file
