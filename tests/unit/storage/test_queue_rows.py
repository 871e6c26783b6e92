"""The table of queues, damage in it, and jobs that can't be read in a purge or a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bide.errors import CorruptIndex
from bide.format.row import encode_queue_name, encode_u64
from bide.model import commands as c
from bide.model.job import JobId
from bide.model.queue import ChannelTerms, QueueRow
from bide.storage.caller import Caller
from bide.storage.recovery import rebuild
from bide.storage.store import Store
from bide.storage.tables import MemoryTables, TableName
from tests.unit.storage.histories import (
    disk_store,
    do,
    dump,
    dump_store,
    memory_store,
    new_job,
    put,
    register,
)

TERMS = ChannelTerms(topic="t", channel="a", max_retries=1, timeout_ms=0)


def damage(store: Store, table: TableName, key: bytes) -> None:
    with store.view():
        assert store._parts is not None
        environment = store._parts.environment
    with environment.begin(write=True) as txn:
        row = txn.get(key, db=environment.tables[table])
        assert row is not None
        txn.put(key, row[:-1] + bytes((row[-1] ^ 1,)), db=environment.tables[table])


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return memory_store() if request.param == "memory" else disk_store(tmp_path)


def test_rows_come_back_whole_and_by_name(store: Store) -> None:
    for topic, channel in (("t", "b"), ("t", "a"), ("tt", "a"), ("s", "a")):
        terms = ChannelTerms(topic=topic, channel=channel, max_retries=1, timeout_ms=0)
        do(store, c.MakeChannels((terms,)), now_ms=7)
    do(store, c.Pause("t", is_paused=True))
    with store.view() as view:
        assert [row.name for row in view.channels("t")] == ["t:a", "t:b"]
        assert [row.name for row in view.queue_rows()] == ["s:a", "t", "t:a", "t:b", "tt:a"]
        assert view.queue("t:a") == QueueRow(
            name="t:a", made_ms=7, made_id=JobId(1), max_retries=1, timeout_ms=0
        )
        assert view.queue("t:c") is None


def test_a_damaged_row_is_named_and_nothing_is_half_done(store: Store) -> None:
    do(store, c.MakeChannels((TERMS,)))
    do(store, put(b"m", queue="t:"))
    owner = do(store, register())
    damage(store, "queues", encode_queue_name("t:a"))
    before = dump_store(store)
    commands: list[c.Command] = [
        c.Reserve(owner, ("q", "t:a"), 5),
        c.Spread("t"),
        c.Pause("t:a", is_paused=True),
        c.MakeChannels((ChannelTerms(topic="t", channel="b", max_retries=0, timeout_ms=0),)),
        c.DropChannel("t:a", 5, is_begun=False),
    ]
    for command in commands:
        [answer] = store.submit([command], 1_000, sync="never")
        assert isinstance(answer, CorruptIndex), command
        assert "'t:a'" in str(answer)
    assert dump_store(store) == before


def test_a_job_that_cannot_be_read_does_not_block_a_purge(store: Store) -> None:
    do(store, put(b"1", b"2", b"3", key=None))
    do(store, put(b"4", key="k"))
    owner = do(store, register())
    (lease,) = do(store, c.Reserve(owner, ("q",), 1))
    do(store, c.Settle(owner, (c.Settlement(lease.job.id, 1, c.Exhausted("no")),)))
    for job_id in (1, 2, 4):  # one that failed, one that waits, one with a key
        damage(store, "jobs", encode_u64(job_id))
    assert do(store, c.Purge("q", 100)) == c.Purged(4, 0, None)
    tables = dump_store(store)
    assert (tables["jobs"], tables["due"], tables["failed"]) == ({}, {}, {})
    (result,) = do(store, put(b"5", key="k"))
    assert result.outcome == "put", "its key leads nowhere, and is free"


def test_a_failed_job_that_cannot_be_read_stays_if_its_due_time_matters(store: Store) -> None:
    do(store, put(b"1"))
    owner = do(store, register())
    do(store, c.Reserve(owner, ("q",), 1))
    do(store, c.Settle(owner, (c.Settlement(JobId(1), 1, c.Exhausted("no")),)))
    damage(store, "jobs", encode_u64(1))
    assert do(store, c.Purge("q", 100, (1 << 50, 1))) == c.Purged(0, 1, None)


def test_a_message_that_cannot_be_read_is_set_aside(store: Store) -> None:
    do(store, c.MakeChannels((TERMS,)))
    do(store, put(b"1", b"2", queue="t:"))
    damage(store, "jobs", encode_u64(1))
    assert do(store, c.Spread("t")) == 2
    with store.view() as view:
        assert view.live("t:") == (0, 0, 1)
        assert view.live("t:a") == (1, 0, 0)


def test_copies_and_removal_are_one_record(tmp_path: Path) -> None:
    store = disk_store(tmp_path)
    do(store, c.MakeChannels((TERMS,)))
    do(store, c.Put((new_job(b"m", queue="t:"), new_job(b"n", queue="t:"))))
    with store.view():
        assert store._parts is not None
        log = store._parts.log
    before = [record for record, _ in log.read(None)]
    do(store, c.Spread("t"))
    after = [record for record, _ in log.read(None)]
    assert len(after) == len(before) + 1
    made = MemoryTables()
    rebuild(log, made)
    assert dump(made) == dump_store(store)


def test_a_channel_that_a_put_is_on_its_way_to_stays(store: Store) -> None:
    """In one transaction: the counters that are not written yet count too."""
    do(store, c.MakeChannels((TERMS,)))
    do(store, c.DropChannel("t:a", 5, is_begun=False))
    do(store, c.MakeChannels((TERMS,)))
    owner = do(store, register())
    do(store, put(b"m", queue="t:a"))
    commands = (c.Reserve(owner, ("t:a",), 1), c.DropChannel("t:a", 5, is_begun=False))
    answers: Any = store.submit(commands, 1_000, sync="never")
    (lease,), purged = answers
    assert purged == c.Purged(0, 0, None)
    with store.view() as view:
        row = view.queue("t:a")
        assert row is not None, "its job runs"
        assert row.dropped_ms == 1_000
        assert view.lease(owner, lease.job.id) is not None


def test_what_a_transaction_puts_weighs_as_a_put_does() -> None:
    jobs = (new_job(b"12"), new_job(b"3"))
    caller = Caller([c.Put(jobs), c.Decide(JobId(1), is_commit=True, jobs=jobs)], 0)
    assert caller.weight() == (4, 6)
