"""The commands that care for a store as a whole: backup, restore, compact."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click
import msgspec
from msgspec.structs import replace

from bide.backends.local import existing_directory
from bide.cli import output
from bide.cli.options import json_option, store_directory
from bide.cli.phrases import printable
from bide.cli.progress import byte_bar
from bide.clock import SystemClock
from bide.storage.disk import OsDisk

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
  bide compact --keep-days 3 --keep-size 1024 --dry-run
""",
)
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0, max=36_500),
    metavar="DAYS",
    help="From now on, keep the log's records of so many days.",
)
@click.option(
    "--keep-size",
    type=click.IntRange(min=0),
    metavar="MIB",
    help="From now on, keep so many MiB of the log.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@json_option
@store_directory
def compact(
    *, path: Path, keep_days: float | None, keep_size: int | None, dry_run: bool, as_json: bool
) -> None:
    """Make a checkpoint, remove the log before it, and pack the index.

    Workers do it by themselves, when it is worth it. Programs and workers go
    on meanwhile. What recovery or a follower needs is never removed; more is kept
    if --keep-days or --keep-size have said so, by this call or an earlier one.
    """
    from bide.backends.local import open_upkeep

    with open_upkeep(path, SystemClock()) as upkeep:
        retention = upkeep.directory.read_state().retention
        if keep_days is not None:
            retention = replace(retention, age_ms=round(keep_days * 86_400_000))
        if keep_size is not None:
            retention = replace(retention, size=keep_size << 20)
        if dry_run:
            count, size = upkeep.trimmable(retention)
            if as_json:
                output.print_json({"segments": count, "log_trimmed": size})
            else:
                output.print_line(
                    f"{path}: {count} segments of the log, {size} bytes, would be removed"
                )
            return
        upkeep.keep(retention)
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


@click.command(
    short_help="Look for damage, and mend it.",
    epilog="""\
\b
Examples:
  bide check --url file:///var/lib/shop/jobs
  bide check --repair /var/lib/shop/jobs
\b
Exit codes:
  0  nothing is wrong, or it is mended
  1  there is damage
""",
)
@click.argument("store", metavar="[STORE]", required=False)
@click.option("--repair", "wants_repair", is_flag=True, help="Mend it; stop all users first.")
@json_option
@store_directory
def check(*, path: Path, wants_repair: bool, as_json: bool) -> None:
    """Read the whole store, and name each fault with file, offset and kind.

    The index is held against what the checkpoint and the log make anew.
    Programs and workers may go on meanwhile. STORE is a URL or a directory.

    With --repair, what can be made anew is; what is lost is said, by id; and
    a damaged log is kept under another name.
    """
    from bide.storage.check import check as look
    from bide.storage.repair import repair

    directory = existing_directory(path)
    repaired = repair(directory, SystemClock().now_ms()) if wants_repair else None
    findings = look(directory) if repaired is None else repaired.findings
    if as_json:
        document: dict[str, Any] = {"path": str(path), **msgspec.to_builtins(findings)}
        if repaired is not None:
            document["repair"] = {
                "done": repaired.done,
                "lost": repaired.lost,
                "damaged_log": repaired.kept,
            }
        output.print_json(document)
    else:
        for fault in findings.faults:
            place = "" if fault.offset is None else f" at {fault.offset}"
            output.print_line(printable(f"{fault.kind}: {fault.path}{place}: {fault.text}"))
        jobs = "" if findings.job_count is None else f"{findings.job_count} jobs, "
        faults = f"faults: {len(findings.faults) or 'none'}"
        output.print_line(
            f"{path}: {jobs}{findings.record_count} records from {findings.log_start} "
            f"to {findings.log_end}: {faults}"
        )
        if findings.needs_recovery and repaired is None:
            output.print_line(
                "the machine went down while the store was in use: the index is made anew when it "
                "is next opened, and was not looked at"
            )
        if repaired is not None:
            output.print_line(f"repair: {repaired.done}")
            for line in repaired.lost:
                output.print_line(printable(f"lost: {line}"))
            if repaired.kept is not None:
                output.print_line(f"the damaged log is kept in {repaired.kept}")
    output.exit_with(int(bool(findings.faults) and repaired is None))


@contextmanager
def _written(name: str) -> Iterator[BinaryIO]:
    """A file that has its name once the block is done, or stdout."""
    if name == _STREAM:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    import tempfile

    target = Path(name)
    # A file of this call's own, for another may write a backup to the same name; and
    # for this user alone, as the store is.
    fd, new = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".new", dir=target.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(new).replace(target)
        OsDisk().sync_directory(target.parent)
    except BaseException:
        Path(new).unlink(missing_ok=True)
        raise


@contextmanager
def _read(name: str) -> Iterator[BinaryIO]:
    if name == _STREAM:
        yield sys.stdin.buffer
    else:
        with Path(name).open("rb") as file:
            yield file
