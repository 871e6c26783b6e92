"""`bide.storage.consumed`: a replica of puts drops what was done with, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from bide.model import commands as c
from bide.model.job import JobId, JobRef, NewJob
from bide.storage.consumed import Consumed, ConsumedQueue, apply_consumed, export_consumed
from bide.storage.store import Store
from tests.unit.storage.histories import (
    check_tables,
    do,
    dump_store,
    memory_store,
    new_job,
    register,
    waiting_args,
)


def pair(*jobs: NewJob) -> tuple[Store, Store]:
    """A store with *jobs*, and its replica."""
    stores = memory_store(), memory_store()
    for store in stores:
        do(store, c.Put(jobs))
    return stores


def export(store: Store) -> Consumed:
    with store.view() as view:
        return export_consumed(view)


def apply(store: Store, consumed: Consumed, **options: Any) -> int:
    gone = apply_consumed(lambda command: do(store, command), consumed, **options)
    check_tables(dump_store(store))
    return gone


def jobs(*dues: int, queue: str = "q") -> list[NewJob]:
    return [
        new_job(b"%d" % due, queue=queue, due_ms=due, priority=due % 3, key=f"k{due}")
        for due in dues
    ]


def complete(store: Store, count: int, queue: str = "q") -> None:
    owner = do(store, register(f"token {queue} {count}"))
    for lease in do(store, c.Reserve(owner, (queue,), count)):
        settlement = c.Settlement(lease.job.id, lease.attempt, c.Completed())
        do(store, c.Settle(owner, (settlement,)))


@pytest.mark.parametrize("limit", [1, 2, 5_000])
def test_what_is_older_goes_whatever_its_priority(limit: int) -> None:
    leader, replica = pair(*jobs(50, 10, 41, 30, 20, 40))
    do(leader, c.Cancel(tuple(JobRef(id=JobId(job_id)) for job_id in (2, 4, 5, 6))))
    consumed = export(leader)
    assert consumed == Consumed(JobId(7), (ConsumedQueue("q", (41, JobId(3)), 2),))
    assert apply(replica, consumed, limit=limit) == 4
    assert sorted(waiting_args(replica)) == [b"41", b"50"]
    assert apply(replica, consumed, limit=limit) == 0, "once more changes nothing"


def test_the_oldest_is_told_apart_by_its_id() -> None:
    leader, replica = pair(*(new_job(b"%d" % n, due_ms=5, priority=-n) for n in range(3)))
    do(leader, c.Cancel((JobRef(id=JobId(1)),)))
    assert export(leader).queues[0].oldest == (5, 2)
    assert apply(replica, export(leader)) == 1
    assert waiting_args(replica) == [b"1", b"2"]


def test_an_empty_queue_drops_all_and_leaves_the_others() -> None:
    leader, replica = pair(*jobs(1, 2), *jobs(1, 2, queue="qq"))
    complete(leader, 2)
    assert apply(replica, export(leader)) == 2
    assert (waiting_args(replica), len(waiting_args(replica, "qq"))) == ([], 2)


def test_a_stale_state_spares_what_came_later_though_it_is_due_earlier() -> None:
    leader, replica = pair(*jobs(10, 20))
    complete(leader, 2)
    stale = export(leader)
    for store in (leader, replica):
        do(store, c.Put(tuple(jobs(5))))
    assert apply(replica, stale) == 2
    assert waiting_args(replica) == [b"5"]


def test_a_stale_state_spares_what_came_later_beside_an_oldest_one() -> None:
    leader, replica = pair(*jobs(10, 20))
    stale = export(leader)
    do(replica, c.Put(tuple(jobs(5))))
    assert apply(replica, stale) == 0


def test_a_running_job_is_not_consumed() -> None:
    leader, replica = pair(*jobs(10, 20, 30))
    owner = do(leader, register())
    leases = do(leader, c.Reserve(owner, ("q",), 3))
    late = [lease for lease in leases if lease.job.due_ms != 20]
    settlements = tuple(c.Settlement(x.job.id, x.attempt, c.Completed()) for x in late)
    do(leader, c.Settle(owner, settlements))
    consumed = export(leader)
    assert consumed.queues == (ConsumedQueue("q", (20, JobId(2)), 1),)
    assert apply(replica, consumed) == 1


def test_a_queue_that_the_replica_does_not_have_is_no_obstacle() -> None:
    leader, _ = pair(*jobs(1))
    complete(leader, 1)
    assert apply(memory_store(), export(leader)) == 0
