"""The index is what its log makes: to the log's end, in any steps, and around damage."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from bide.backends.local import open_local
from bide.backends.port import Backend
from bide.format.row import encode_u64
from bide.model.commands import Exhausted, Retried, Settlement
from bide.model.job import JobId, JobRef, NewJob, State
from bide.storage import recovery
from bide.storage.tables import MemoryTables
from bide.testing import ManualClock
from tests.model.rebuild import assert_log_makes_index, rows_of
from tests.power import forget_boot


@contextmanager
def open_store(path: Path, clock: ManualClock) -> Iterator[Backend]:
    with closing(open_local(path, clock, sync="never", segment_size=4096)) as backend:
        yield backend


def parts_of(backend: Backend) -> tuple[Any, Any]:
    """The index's tables and the log."""
    store = cast("Any", backend)._shared_store
    with store.view():
        return store._parts.environment, store._parts.log


def put(backend: Backend, *, key: str | None = None) -> JobId:
    now_ms = backend.clock.now_ms()
    (result,) = backend.put([NewJob(queue="q", task="t", args=b"x" * 300, due_ms=now_ms, key=key)])
    return result.id


def work(backend: Backend) -> None:
    """A history over several segments, with every kind of table in use at its end."""
    worker = backend.attend(["q"])
    for number in range(40):
        put(backend, key=f"k{number}")
        put(backend)
        leases = backend.reserve(worker.owner, ["q"], 2).leases
        now_ms = backend.clock.now_ms()
        retried, failed = (
            Settlement(leases[0].job.id, leases[0].attempt, Retried(now_ms + 5, "no")),
            Settlement(leases[1].job.id, leases[1].attempt, Exhausted("no")),
        )
        backend.reserve(worker.owner, [], 0, [retried, failed][: 1 + number % 2])
    worker.leave()


def test_the_log_is_read_to_its_end(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", ManualClock()) as backend:
        work(backend)
        index = assert_log_makes_index(backend)
        _, log = parts_of(backend)
        assert len(log.files.bases()) > 3, "too short a history"
        made = MemoryTables()
        recovery.rebuild(log, made)  # as after a crash of the machine: nobody says where to stop
        assert rows_of(made) == index


def test_the_size_of_a_step_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "store", ManualClock()) as backend:
        work(backend)
        for step in (1, 7):
            monkeypatch.setattr(recovery, "RECORDS_PER_TRANSACTION", step)
            assert_log_makes_index(backend)


def test_a_lost_index_is_made_anew(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path / "store", clock) as backend:
        work(backend)
        before = assert_log_makes_index(backend), backend.stats()
    forget_boot(tmp_path / "store")
    with open_store(tmp_path / "store", clock) as backend:
        assert backend.stats() == before[1]
        assert assert_log_makes_index(backend) == before[0]
        assert put(backend) == 81, "ids go on where they were"


def damage_row(backend: Backend, job_id: JobId) -> None:
    """Flip a bit of the job's row in the index alone."""
    environment, _ = parts_of(backend)
    table = environment.tables["jobs"]
    with environment.begin(write=True) as txn:
        row = bytearray(txn.get(encode_u64(job_id), db=table))
        row[-1] ^= 1
        txn.put(encode_u64(job_id), bytes(row), db=table)


def test_a_job_set_aside_as_unreadable_is_whole_again_with_a_new_index(tmp_path: Path) -> None:
    clock = ManualClock()
    with open_store(tmp_path / "store", clock) as backend:
        damaged, sound = put(backend), put(backend)
        damage_row(backend, damaged)
        worker = backend.attend(["q"])
        leases = backend.reserve(worker.owner, ["q"], 5).leases
        worker.leave()
        assert [lease.job.id for lease in leases] == [sound]
        page = backend.list(queue="q", state=State.FAILED, limit=10)
        assert (page.jobs, page.unreadable) == ((), (damaged,))
    forget_boot(tmp_path / "store")
    with open_store(tmp_path / "store", clock) as backend:
        info = backend.get(JobRef(id=damaged))  # the log has it, unharmed
        assert info is not None
        assert info.state is State.FAILED
        assert backend.kick([JobRef(id=damaged)]) == (None,)
        info = backend.get(JobRef(id=damaged))
        assert info is not None
        assert info.state is State.READY
