"""What a check of the conformance suite works with: one empty store, and its clock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bide.backends.port import Attendance, Backend, JobInfo, QueueStats
from bide.clock import Clock
from bide.errors import BideError, LeaseLost
from bide.model.commands import Change, Outcome, PutResult, Settlement
from bide.model.job import JobId, JobRef, Lease, NewJob, OnConflict, State
from bide.testing.clock import ManualClock

OpenBackend = Callable[[Clock], Backend]
"""Opens an empty store that goes by the given clock."""

Kill = Callable[[Attendance], None]
"""Lets a worker end as if its process had been killed: nothing is told to the store."""

ALL = 10_000


class Trial:
    """One backend, opened on an empty store, and short ways to use it."""

    def __init__(self, backend: Backend, clock: ManualClock, kill: Kill | None) -> None:
        self.backend = backend
        self.clock = clock
        self._kill = kill
        self._present: list[Attendance] = []

    def job(
        self,
        *,
        delay_ms: int = 0,
        queue: str = "q",
        task: str = "task",
        args: bytes = b"",
        priority: int = 0,
        key: str | None = None,
        on_conflict: OnConflict = "raise",
        max_retries: int = 5,
    ) -> NewJob:
        """A job to put, due *delay_ms* from now."""
        return NewJob(
            queue=queue,
            task=task,
            args=args,
            due_ms=self.clock.now_ms() + delay_ms,
            priority=priority,
            key=key,
            on_conflict=on_conflict,
            max_retries=max_retries,
        )

    def put(self, **fields: Any) -> JobId:
        """Put one job, made as by `job`."""
        (result,) = self.backend.put([self.job(**fields)])
        return result.id

    def put_all(self, jobs: Sequence[NewJob]) -> list[JobId]:
        return [result.id for result in self.backend.put(jobs)]

    def outcomes(self, jobs: Sequence[NewJob]) -> list[tuple[JobId, str]]:
        """Put *jobs*; what became of each."""
        return [_pair(result) for result in self.backend.put(jobs)]

    def attend(self, *queues: str) -> Attendance:
        """A worker, which leaves when the trial ends."""
        worker = self.backend.attend(queues or ("q",))
        self._present.append(worker)
        return worker

    def kill(self, worker: Attendance) -> None:
        assert self._kill is not None, "this check needs a way to kill a worker"
        self._present.remove(worker)
        self._kill(worker)

    def reserve(self, worker: Attendance, *queues: str, limit: int = ALL) -> tuple[Lease, ...]:
        return self.backend.reserve(worker.owner, queues or ("q",), limit).leases

    def reserve_one(self, worker: Attendance, *queues: str) -> Lease:
        leases = self.reserve(worker, *queues, limit=1)
        assert len(leases) == 1, f"one job is due, {len(leases)} were leased"
        return leases[0]

    def settle(self, lease: Lease, outcome: Outcome) -> BideError | None:
        """End one lease; None, or why it does not count."""
        settlement = Settlement(lease.job.id, lease.attempt, outcome)
        (refused,) = self.backend.reserve(lease.owner, ("q",), 0, [settlement]).refused
        return refused

    def end(self, lease: Lease, outcome: Outcome) -> None:
        """End one lease, which must count."""
        refused = self.settle(lease, outcome)
        assert refused is None, f"refused: {refused}"

    def refuses(self, lease: Lease, outcome: Outcome) -> bool:
        """Whether ending *lease* is answered with `LeaseLost` that names the job."""
        refused = self.settle(lease, outcome)
        return isinstance(refused, LeaseLost) and refused.job_id == lease.job.id

    def cancel(self, job_id: JobId) -> BideError | None:
        return self.backend.cancel([JobRef(id=job_id)])[0]

    def kick(self, job_id: JobId) -> BideError | None:
        return self.backend.kick([JobRef(id=job_id)])[0]

    def move(
        self, job_id: JobId, *, due_ms: int | None = None, priority: int | None = None
    ) -> BideError | None:
        return self.backend.move([Change(JobRef(id=job_id), due_ms, priority)])[0]

    def info(self, job_id: JobId) -> JobInfo:
        """The job, which must be live."""
        info = self.backend.get(JobRef(id=job_id))
        assert info is not None, f"job {job_id} is gone"
        return info

    def state(self, job_id: JobId) -> State | None:
        """Where the job is; None if it is gone."""
        info = self.backend.get(JobRef(id=job_id))
        return None if info is None else info.state

    def by_key(self, key: str, queue: str = "q") -> JobId | None:
        """The live job that holds *key*."""
        info = self.backend.get(JobRef(queue=queue, key=key))
        return None if info is None else info.job.id

    def list_ids(
        self, state: State, *, queue: str | None = None, limit: int = 1_000
    ) -> list[JobId]:
        """The ids of all jobs in *state*, gathered page by page."""
        found: list[JobId] = []
        after: str | None = None
        while True:
            page = self.backend.list(queue=queue, state=state, limit=limit, after=after)
            assert len(page.jobs) <= limit, f"a page of {limit} has {len(page.jobs)} jobs"
            assert page.unreadable == ()
            assert all(info.state is state for info in page.jobs)
            found += [info.job.id for info in page.jobs]
            after = page.next
            if after is None:
                return found
            assert page.jobs, "an empty page that is not the last"

    def stats(self, queue: str = "q") -> QueueStats:
        """The numbers of one queue, which must be known."""
        (stats,) = [stats for stats in self.backend.stats().queues if stats.queue == queue]
        return stats

    def leave_all(self) -> None:
        while self._present:
            self._present.pop().leave()


@contextlib.contextmanager
def begin_trial(open_backend: OpenBackend, kill: Kill | None = None) -> Iterator[Trial]:
    """A trial on a store of its own; its workers leave and it is closed at the end."""
    clock = ManualClock()
    backend = open_backend(clock)
    trial = Trial(backend, clock, kill)
    try:
        yield trial
        trial.leave_all()
    finally:
        backend.close()


def ids(leases: Sequence[Lease]) -> list[JobId]:
    """The jobs of *leases*, in order."""
    return [lease.job.id for lease in leases]


@contextlib.contextmanager
def raising(kind: type[BideError]) -> Iterator[list[Any]]:
    """Requires that the block raises *kind*; the error is then the list's only item."""
    caught: list[Any] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
    else:
        raise AssertionError(f"{kind.__name__} was not raised")


def _pair(result: PutResult) -> tuple[JobId, str]:
    return result.id, result.outcome
