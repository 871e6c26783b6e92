"""`bide.storage.apply`: facts into tables, and counters that never drift."""

from __future__ import annotations

from pathlib import Path

import pytest

from bide.format.commit import encode_rows
from bide.model import commands as c
from bide.model import facts as f
from bide.model.job import Failed, JobId, JobRef, Leased, OwnerId, Place, Scheduled, Withdrawn
from bide.storage.apply import Applier
from bide.storage.index import IndexView
from bide.storage.log_files import Position
from bide.storage.tables import MemoryTables
from tests.unit.storage.histories import (
    History,
    check_tables,
    disk_store,
    do,
    dump,
    dump_store,
    memory_store,
    put,
    register,
    run_history,
)
from tests.unit.storage.test_recovery import some_job


@pytest.mark.parametrize("seed", range(10, 16))
def test_counters_never_drift(seed: int) -> None:
    store = memory_store()
    history = History(store, seed)
    history.run(0)
    for _ in range(60):
        history.run(8)
        check_tables(dump_store(store))


def test_memory_and_lmdb_come_to_the_same_tables(tmp_path: Path) -> None:
    stores = [memory_store(), disk_store(tmp_path)]
    memory, disk = (run_history(store, 21) for store in stores)
    assert memory.kinds == disk.kinds
    in_memory, on_disk = map(dump_store, stores)
    assert in_memory["meta"].pop(b"log") != on_disk["meta"].pop(b"log")  # their own offsets
    assert in_memory == on_disk


def test_a_history_that_ends_empty_leaves_only_counters() -> None:
    store = memory_store()
    history = run_history(store, 4)
    for owner in history.owners:
        while do(store, c.Expire(owner, frozenset(), "", 100)):
            pass
    live = [JobId(int.from_bytes(key, "big")) for key in dump_store(store)["jobs"]]
    do(store, c.Cancel(tuple(JobRef(id=job_id) for job_id in live)))
    tables = dump_store(store)
    check_tables(tables)
    assert {name for name, rows in tables.items() if rows} == {"counts", "meta", "queues"}


@pytest.mark.parametrize(
    "place",
    [Scheduled(0, 1), Scheduled(1, 0), Leased(OwnerId(1)), Failed(0)],
    ids=str,
)
def test_a_job_taken_from_where_it_is_not_is_our_own_bug(place: Place) -> None:
    tables = MemoryTables()
    job = some_job()
    with tables.begin(write=True) as txn:
        applier = Applier(txn, tables.tables)
        applier.apply(f.JobsPut((job,)), encode_rows(f.JobsPut((job,))))
        applier.finish(Position(0, 1, 1))
    before = dump(tables)
    gone = f.JobsCompleted((Withdrawn(job.id, job.queue, job.key, place),))
    with pytest.raises(AssertionError, match="job 1"), tables.begin(write=True) as txn:
        Applier(txn, tables.tables).apply(gone, ())
    assert dump(tables) == before


def test_an_id_given_twice_is_our_own_bug() -> None:
    tables = MemoryTables()
    fact = f.JobsPut((some_job(),))
    with tables.begin(write=True) as txn:
        applier = Applier(txn, tables.tables)
        applier.apply(fact, encode_rows(fact))
        with pytest.raises(AssertionError, match="given before"):
            applier.apply(fact, encode_rows(fact))


def test_the_position_is_stored_with_what_it_reflects() -> None:
    tables = MemoryTables()
    position = Position(4096, 5000, 7)
    with tables.begin(write=True) as txn:
        Applier(txn, tables.tables).finish(position)
    with tables.begin(write=False) as txn:
        assert IndexView(txn, tables.tables).position() == position


def test_a_key_goes_with_its_holder_and_no_one_else() -> None:
    store = memory_store()
    owner = do(store, register())
    do(store, put(b"first", key="k"))
    [lease] = do(store, c.Reserve(owner, ("q",), 1))
    [successor] = do(store, put(b"second", key="k", on_conflict="replace"))
    do(store, c.Settle(owner, (c.Settlement(lease.job.id, 1, c.Completed()),)))
    with store.view() as view:
        assert view.holder("q", "k") == successor.id
    do(store, c.Cancel((JobRef(queue="q", key="k"),)))
    assert not dump_store(store)["keys"]
    check_tables(dump_store(store))
