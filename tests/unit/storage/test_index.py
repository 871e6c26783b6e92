"""`bide.storage.index`: what a view says, and what it costs to ask."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from bide.errors import BideError, CorruptIndex
from bide.format.row import encode_u64
from bide.model import commands as c
from bide.model.job import JobRef
from bide.storage.index import Counts, IndexView, decode_counts, encode_counts
from bide.storage.log_files import START
from bide.storage.parts import Parts
from bide.storage.store import Store
from bide.storage.tables import Cursor, Environment, MemoryTables, Table, Transaction
from tests.unit.storage.histories import (
    disk_store,
    do,
    memory_store,
    new_job,
    put,
    register,
)

LATE = 1 << 50


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = memory_store() if request.param == "memory" else disk_store(tmp_path)
    yield store
    store.close()


class CountingTransaction:
    """A transaction that counts the moves of its cursors."""

    def __init__(self, txn: Transaction) -> None:
        self._txn = txn
        self.moves = 0

    def cursor(self, *, db: Table) -> Cursor:
        outer, cursor = self, self._txn.cursor(db=db)

        class Counting:
            def set_range(self, key: bytes, /) -> bool:
                outer.moves += 1
                return cursor.set_range(key)

            def next(self) -> bool:
                outer.moves += 1
                return cursor.next()

            key = staticmethod(cursor.key)
            value = staticmethod(cursor.value)
            putmulti = staticmethod(cursor.putmulti)
            close = staticmethod(cursor.close)

        return Counting()

    def __getattr__(self, name: str) -> object:
        return getattr(self._txn, name)


# ---------------------------------------------------------------- the order of service


def test_the_order_is_priority_then_due_then_id(store: Store) -> None:
    dice = random.Random(1)
    jobs = [
        new_job(due_ms=dice.randrange(5), priority=dice.choice([-100, -1, 0, 1, 99, 100]))
        for _ in range(200)
    ]
    ids = [result.id for result in do(store, c.Put(tuple(jobs)))]
    expected = sorted(
        ((job.priority, job.due_ms, job_id) for job, job_id in zip(jobs, ids, strict=True)),
        key=lambda row: (-row[0], row[1], row[2]),
    )
    with store.view() as view:
        assert view.waiting("q", 0, LATE, 1_000) == expected
        assert view.waiting("q", 0, LATE, 7) == expected[:7]
        assert view.waiting("q", 0, LATE, 0) == []
        for now_ms in range(-1, 6):
            due = [row for row in expected if row[1] <= now_ms]
            assert view.due("q", now_ms, 1_000) == due
        for since in range(6):
            for until in range(6):
                between = [row for row in expected if since <= row[1] < until]
                assert view.waiting("q", since, until, 1_000) == between


@pytest.mark.parametrize("page_size", [1, 2, 3, 50])
@pytest.mark.parametrize("since", [0, 2])
def test_pages_put_together_are_the_whole(store: Store, page_size: int, since: int) -> None:
    dice = random.Random(2)
    jobs = [
        new_job(due_ms=dice.randrange(5), priority=dice.choice([-100, 0, 100])) for _ in range(40)
    ]
    do(store, c.Put(tuple(jobs)))
    with store.view() as view:
        whole = view.waiting("q", since, 4, 1_000)
        pages: list[tuple[int, int, int]] = []
        while page := view.waiting("q", since, 4, page_size, pages[-1] if pages else None):
            assert len(page) <= page_size
            pages += page
        assert pages == whole


def test_jobs_that_are_not_due_cost_nothing() -> None:
    tables = MemoryTables()
    store = memory_store_over(tables)
    for priority in (-7, 0, 7):
        do(store, put(*[b""] * 500, due_ms=5_000, priority=priority))
    do(store, put(b"", due_ms=0, priority=0))
    with tables.begin(write=False) as txn:
        counting = CountingTransaction(txn)
        view = IndexView(counting, tables.tables)  # type: ignore[arg-type]  # the rest by getattr
        assert len(view.due("q", 1_000, 100)) == 1
        assert counting.moves <= 6
        counting.moves = 0
        assert view.next_due("q") == 0
        assert counting.moves <= 6
        counting.moves = 0
        assert view.waiting("q", 6_000, LATE, 100) == []  # nor do those that are due too early
        assert counting.moves <= 9


def memory_store_over(tables: Environment) -> Store:
    store = memory_store()
    store._parts = Parts(tables, store._open().log)
    return store


def test_next_due_is_the_earliest_of_any_priority(store: Store) -> None:
    with store.view() as view:
        assert view.next_due("q") is None
    for due_ms, priority in [(50, 100), (30, 0), (40, 0), (20, -100)]:
        do(store, put(b"", due_ms=due_ms, priority=priority))
    with store.view() as view:
        assert view.next_due("q") == 20
        assert view.next_due("qq") is None


# ---------------------------------------------------------------- queues


def test_no_queue_is_taken_for_another(store: Store) -> None:
    names = ["a", "aa", "a.", "a-", "A", "b", "." * 64, "a" * 64, "0"]
    owner = do(store, register())
    for number, name in enumerate(names):
        do(store, put(*[b""] * 2, queue=name, due_ms=number, key=None))
        do(store, put(b"", queue=name, due_ms=LATE, key="key"))
        do(store, put(b"dead", queue=name, due_ms=0, priority=9))
        [lease] = do(store, c.Reserve(owner, (name,), 1))
        do(store, c.Settle(owner, (c.Settlement(lease.job.id, 1, c.Exhausted("")),)))
    with store.view() as view:
        assert sorted(view.queues()) == sorted(names)
        for number, name in enumerate(names):
            rows = view.waiting(name, 0, LATE + 1, 100)
            assert [due_ms for _, due_ms, _ in rows] == [number, number, LATE]
            assert view.next_due(name) == number
            assert view.holder(name, "key") == rows[-1][2]
            assert len(view.failed(name, 100)) == 1
            counts = view.counts(name)
            assert counts is not None
            assert (counts.waiting, counts.failed) == (3, 1)
        assert view.waiting("aaa", 0, LATE, 1) == []
        assert view.failed("aaa", 1) == []
        assert view.counts("aaa") is None
        assert view.holder("aaa", "key") is None


def test_keys_are_those_of_a_queue_and_byte_for_byte(store: Store) -> None:
    keys = ["k", "kk", "K", "\u00e9", "e\u0301", "\u2603" * 85, "k" * 255]
    ids = [do(store, put(b"", key=key))[0].id for key in keys]
    [other] = do(store, put(b"", queue="other", key="k"))
    with store.view() as view:
        assert [view.holder("q", key) for key in keys] == ids
        assert view.holder("other", "k") == other.id
        assert view.holder("other", "kk") is None


# ---------------------------------------------------------------- workers and leases


def test_leases_come_by_owner_and_id(store: Store) -> None:
    owners = [do(store, register(f"token {number}")) for number in range(3)]
    ids = [result.id for result in do(store, put(*[b""] * 9))]
    for turn in range(9):
        do(store, c.Reserve(owners[turn % 3], ("q",), 1))
    with store.view() as view:
        assert [owner.id for owner in view.owners()] == owners
        assert [owner.token for owner in view.owners()] == [f"token {n}" for n in range(3)]
        for turn, owner in enumerate(owners):
            own = ids[turn::3]
            assert [row.id for row in view.leases(owner, 100)] == own
            assert [row.id for row in view.leases(owner, 2)] == own[:2]
            assert [row.id for row in view.leases(owner, 100, own[0])] == own[1:]
            assert view.leases(owner, 100, own[-1]) == []
            assert [view.owner_of(job_id) for job_id in own] == [owner] * 3
            row = view.lease(owner, own[0])
            assert row is not None
            assert row.attempt == 1
            assert view.lease(owner, ids[(turn + 1) % 3]) is None
        assert view.owner(owners[1]) == view.owners()[1]


def test_a_view_of_nothing(store: Store) -> None:
    with store.view() as view:
        assert view.position() == START
        assert view.owners() == []
        assert view.queues() == []
        assert view.leases(view.next_owner_id(), 1) == []
        assert view.job(view.next_job_id()) is None
        assert view.owner(view.next_owner_id()) is None
        assert view.owner_of(view.next_job_id()) is None
        assert (view.next_job_id(), view.next_owner_id()) == (1, 1)


def test_ids_are_never_given_twice(store: Store) -> None:
    first = do(store, register())
    [job] = do(store, put(b""))
    do(store, c.Cancel((JobRef(id=job.id),)))
    do(store, c.Expire(first, frozenset(), "", 10))
    assert do(store, put(b""))[0].id == job.id + 1
    assert do(store, register()) == first + 1


def test_failed_jobs_come_oldest_failure_first(store: Store) -> None:
    owner = do(store, register())
    do(store, put(*[b""] * 6))
    leases = do(store, c.Reserve(owner, ("q",), 6))
    order = [3, 0, 5, 1, 4, 2]
    for number, place in enumerate(order):
        settlement = c.Settlement(leases[place].job.id, 1, c.Exhausted("no"))
        do(store, c.Settle(owner, (settlement,)), now_ms=2_000 + number // 2)
    with store.view() as view:
        whole = view.failed("q", 100)
        assert whole == sorted(whole)
        assert [at_ms for at_ms, _ in whole] == [2000, 2000, 2001, 2001, 2002, 2002]
        pages: list[tuple[int, int]] = []
        while page := view.failed("q", 2, pages[-1] if pages else None):
            pages += page
        assert pages == whole


# ---------------------------------------------------------------- damage


def damage(store: Store, job_id: int) -> None:
    """Flip a bit of the job's row, as a bad disk would."""
    with store.view():
        assert store._parts is not None
        environment = store._parts.environment
    with environment.begin(write=True) as txn:
        jobs = environment.tables["jobs"]
        row = txn.get(encode_u64(job_id), db=jobs)
        assert row is not None
        txn.put(encode_u64(job_id), row[:-1] + bytes([row[-1] ^ 4]), db=jobs)


def test_a_damaged_row_is_a_corrupt_index_and_holds_up_nobody(store: Store) -> None:
    before, bad, after = (result.id for result in do(store, put(b"a", b"b", b"c")))
    damage(store, bad)
    with store.view() as view:
        with pytest.raises(CorruptIndex, match=f"job {bad}"):
            view.job(bad)
        assert view.job(after) is not None
    owner = do(store, register())
    leases = do(store, c.Reserve(owner, ("q",), 10))
    assert [lease.job.id for lease in leases] == [before, after]
    with store.view() as view:
        assert [job_id for _, job_id in view.failed("q", 10)] == [bad]
        counts = view.counts("q")
        assert counts is not None
        assert (counts.waiting, counts.running, counts.failed) == (0, 2, 1)


def test_another_jobs_row_is_found_out(store: Store) -> None:
    first, second = (result.id for result in do(store, put(b"a", b"b")))
    assert store._parts is not None
    environment = store._parts.environment
    with environment.begin(write=True) as txn:
        jobs = environment.tables["jobs"]
        row = txn.get(encode_u64(first), db=jobs)
        assert row is not None
        txn.put(encode_u64(second), row, db=jobs)
    with store.view() as view, pytest.raises(CorruptIndex):
        view.job(second)


def test_a_command_on_a_damaged_job_is_refused_alone(store: Store) -> None:
    good, bad = (result.id for result in do(store, put(b"a", b"b")))
    damage(store, bad)
    refused, done = do(store, c.Cancel((JobRef(id=bad), JobRef(id=good))))
    assert isinstance(refused, BideError)
    assert done is None


def test_counts_survive_their_bytes() -> None:
    counts = Counts(1, 2, 3, 4, 5, 6, 7, 1 << 63)
    assert decode_counts(encode_counts(counts)) == counts
