"""Bytes that the disk gives back other than it was given them.

What the log says was on the disk must be reported, with the file and the
offset. Of the end of its last segment nothing may say that it ever was: the
store then goes on from the last whole record before the damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Protocol

from bide.errors import CorruptCheckpoint, CorruptRecord
from bide.format.checkpoint import checkpoint_name
from bide.format.record import Record
from bide.format.segment import HEAD_SIZE, segment_name
from bide.storage.checkpoint import list_checkpoints, newest_checkpoint
from bide.storage.log_files import START, Position, find_records
from tests.sim.files import SECTOR_SIZE, File
from tests.sim.machine import Machine, SimDirectory


class Site(Protocol):
    """The world, as far as damage needs it."""

    machine: Machine
    observer: Any
    oracle: Any
    happened: Any

    def settle(self, floor: int | None = None) -> None: ...
    def bury(self, number: int) -> None: ...


@dataclass(frozen=True)
class Log:
    """What a recovery would find, were there no damage."""

    path: Path
    bases: list[int]
    start: Position
    """Where the newest checkpoint lets it begin."""
    records: list[Record]
    """From there to the end."""
    end: int
    behind: list[tuple[Record, int]]
    """Whole records behind the end, which follow a hole."""


def spoil(site: Site, random: Random) -> None:
    """Damage something that a recovery is to read, and see what it makes of it."""
    directory = SimDirectory(site.machine, site.observer)
    state = directory.read_state()
    if state.closed_at is not None:
        return  # the index is good, and no recovery will be
    path = directory.log_path(state.log)
    checkpoints = list_checkpoints(site.observer, path)
    if checkpoints and random.random() < 0.2:
        _spoil_checkpoint(site, path / checkpoint_name(checkpoints[-1]), random)
        return
    log = _look(site, directory, path)
    bases = [base for base in log.bases if base >= log.start.base]
    if bases:
        _spoil_segment(site, log, random.choice([*bases, bases[-1]]), random)


def _look(site: Site, directory: SimDirectory, path: Path) -> Log:
    checkpoint = newest_checkpoint(site.observer, path)
    start = START
    if checkpoint is not None:
        start = checkpoint.position
        checkpoint.close()
    files = directory.log(directory.read_state().log).files
    records, end = [], start.end
    for record, position in files.read(start=start):
        records.append(record)
        end = position.end
    bases = files.bases()
    behind = []
    if bases:
        data = files.segment(bases[-1])
        behind = list(find_records(data, max(0, end - bases[-1]), bases[-1]))
    return Log(path, bases, start, records, end, behind)


def _spoil_checkpoint(site: Site, path: Path, random: Random) -> None:
    file = site.machine.disk.file(path)
    kept = bytes(file.data)
    if _change(file, random.randrange(len(kept)), random) is None:
        return
    site.happened["checkpoint damaged"] += 1
    try:
        site.settle()
    except CorruptCheckpoint as error:
        assert error.path == str(path), f"{path} is damaged, but {error.path} is named"
    else:
        raise AssertionError(f"{path} is damaged, and nobody has seen it")
    _mend(site, file, kept)


def _spoil_segment(site: Site, log: Log, base: int, random: Random) -> None:
    path = log.path / segment_name(base)
    file = site.machine.disk.file(path)
    kept = bytes(file.data)
    if not kept:
        return
    changed = _change(file, random.randrange(len(kept)), random)
    if changed is None:
        return
    first, last = base + changed[0], base + changed[1]
    if base == log.start.base and first >= base + HEAD_SIZE:
        first = max(first, log.start.end)  # what a checkpoint covers is not read again
    if first > last or first >= log.end:
        site.happened["damage where nothing is read"] += 1
        site.settle()
    elif _must_tell(log, base, first, last):
        site.happened["damage to tell"] += 1
        _expect_told(site, str(path), base, last)
        _mend(site, file, kept)
    else:
        site.happened["damage that may be a torn tail"] += 1
        site.settle(floor=_whole_until(log, base, first))


def _must_tell(log: Log, base: int, first: int, last: int) -> bool:
    """Whether something says that what was at offset *first* had been on the disk."""
    if base != log.bases[-1]:
        return True
    whole = [record for record in log.records if record.offset > last]
    whole += [record for record, _ in log.behind if record.offset > last]
    if first < base + HEAD_SIZE:  # on the disk before the first record, and before a checkpoint
        return bool(whole) or base < log.start.end
    begin = _whole_until(log, base, first)
    return any(record.synced > begin for record in whole)


def _whole_until(log: Log, base: int, first: int) -> int:
    """Where the record before the one ends in which offset *first* lies."""
    if first < base + HEAD_SIZE:
        return base
    begin = max(record.offset for record in log.records if record.offset <= first)
    return base if begin == base + HEAD_SIZE else begin


def _expect_told(site: Site, path: str, base: int, last: int) -> None:
    try:
        site.settle()
    except CorruptRecord as error:
        assert error.path == path, f"{path} is damaged, but {error.path} is named"
        assert base <= error.offset <= last, f"{error.offset}: damaged up to {last}"
    else:
        raise AssertionError(f"{path} is damaged up to {last}, and nobody has seen it")


def _mend(site: Site, file: File, kept: bytes) -> None:
    """Bring the medium back to what it was: the store must then open."""
    site.bury(0)
    file.damage(0, kept)
    site.settle()


def _change(file: File, at: int, random: Random) -> tuple[int, int] | None:
    """Flip a bit or lose a sector; returns the first and the last byte that differ, if any do."""
    old = bytes(file.data)
    if random.random() < 0.5:
        file.damage(at, bytes([old[at] ^ (1 << random.randrange(8))]))
    else:
        start = at - at % SECTOR_SIZE
        file.damage(start, bytes(min(SECTOR_SIZE, len(old) - start)))
    changed = [i for i, (a, b) in enumerate(zip(old, file.data, strict=True)) if a != b]
    return (changed[0], changed[-1]) if changed else None
