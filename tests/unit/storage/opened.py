"""Stores in directories of their own, as `bide.backends.local` opens them; and what is in them."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from bide.format.identity import Identity
from bide.storage.checkpoint import newest_checkpoint
from bide.storage.directory import Directory, open_directory
from bide.storage.disk import NEW_SUFFIX, Disk, OsDisk
from bide.storage.environment import LmdbTables
from bide.storage.log_files import START
from bide.storage.open_parts import OpenParts
from bide.storage.recovery import rebuild
from bide.storage.store import Store
from bide.storage.tables import Environment, MemoryTables
from bide.storage.upkeep import Upkeep
from tests.unit.storage.histories import check_tables, dump, dump_store

IDENTITY = Identity(store_id="1f" * 16, segment_size=4096)


def made(path: Path, *, disk: Disk | None = None) -> Directory:
    """The store's directory at *path*, made if need be."""
    return open_directory(path, create=True, new_identity=IDENTITY, disk=disk)


def opened(directory: Directory) -> Store:
    return Store(directory.open_parts, path=str(directory.path))


def upkeep_of(directory: Directory, store: Store) -> Upkeep:
    return Upkeep(directory, store, lambda: 77, lambda: 0.0)


def environment_of(store: Store) -> LmdbTables:
    """The tables that *store* uses now."""
    with store.at_rest() as parts:
        return cast("LmdbTables", parts.environment)


def parts_of(store: Store) -> OpenParts:
    with store.at_rest() as parts:
        return cast("OpenParts", parts)


def indexes(path: Path) -> list[str]:
    """The directories of indexes in the store at *path*."""
    return sorted(one.name for one in path.iterdir() if one.name.startswith("index-"))


def unfinished(path: Path) -> list[str]:
    """Files in the store at *path* that are not whole yet."""
    return sorted(one.name for one in path.rglob(f"*{NEW_SUFFIX}"))


def assert_whole(directory: Directory, store: Store, scratch: Path) -> None:
    """The law: the newest checkpoint and the log behind it make what the index says."""
    expected = dump_store(store)
    check_tables(expected)
    with store.view() as view:
        end = view.position()
    log = directory.log(directory.read_state().log)
    checkpoint = newest_checkpoint(OsDisk(), directory.log_path(directory.read_state().log))
    tables: Environment
    if checkpoint is None:
        start, tables = START, MemoryTables()
    else:
        OsDisk().remove(scratch)
        scratch.mkdir()
        start = checkpoint.position
        tables = LmdbTables.load(OsDisk(), scratch, checkpoint.image())
        checkpoint.close()
    assert rebuild(log, tables, end, start=start) == end
    assert dump(tables) == expected
    tables.close()
