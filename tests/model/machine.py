"""A Hypothesis machine that does the same to a backend and to the plain model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bide.backends.port import Attendance, Backend
from bide.errors import (
    BideError,
    JobNotFound,
    KeyTaken,
    LeaseLost,
    UnknownQueue,
    WrongState,
)
from bide.format.group import Group, encode_group
from bide.model import commands as c
from bide.model.job import JobId, JobRef, Lease, NewJob, State
from bide.model.queue import ChannelTerms
from bide.testing import ManualClock
from tests.model.plain import New, Plain, Row, Taken

# Names of which one is another's start, and the longest before the shortest.
QUEUES = ("test2", "test", "a")
CHANNELS = ("t:b", "t:a")
ALL = (*QUEUES, *CHANNELS, "t:")
KEYS = ("k", "k\N{SNOWMAN}")

queues = st.sampled_from(QUEUES)
sources = st.sampled_from((*CHANNELS, *QUEUES))
delays = st.integers(-3, 5)
priorities = st.integers(-1, 1)
picks = st.integers(0, 40)
outcomes = st.sampled_from(
    ["completed", "dropped", "retried", "exhausted", "snoozed", "returned", "retried"]
)
new_jobs = st.builds(
    New,
    queue=st.sampled_from((*QUEUES, "t:")),
    key=st.sampled_from([None, None, *KEYS]),
    conflict=st.sampled_from(["replace", "skip", "raise"]),
    due=st.integers(-3, 1) | st.integers(-3, 0) | delays,
    priority=priorities,
    max_retries=st.integers(0, 2),
)
owner_slots = st.integers(0, 1)


@dataclass
class Worker:
    """A worker and, for each of its leases that it has started, the slot on its board."""

    attendance: Attendance
    slots: dict[int, int]


class BackendMachine(RuleBasedStateMachine):
    """Subclasses say what is opened and how a worker dies."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.plain = Plain()
        self.backend = self.open()
        self.workers: dict[int, Worker] = {}
        self.first_free_id = 1
        self.ended: list[Lease] = []
        self.leases: dict[int, Lease] = {}

    def open(self) -> Backend:
        raise NotImplementedError

    def kill(self, worker: Attendance) -> None:
        raise NotImplementedError

    def teardown(self) -> None:
        for worker in self.workers.values():
            worker.attendance.leave()
        self.backend.close()

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    def owner(self, slot: int) -> int:
        return self.workers[slot].attendance.owner

    @initialize()
    def start_with_workers(self) -> None:
        for slot in (0, 1):
            self.workers[slot] = Worker(self.backend.attend(ALL), {})

    # ------------------------------------------------------------ time and workers

    @rule(seconds=st.sampled_from([0.001, 0.999, 1, 1, 4, 3600]))
    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(slot=owner_slots, fate=st.sampled_from(["stays", "stays", "leaves", "dies"]))
    def come_or_go(self, slot: int, fate: str) -> None:
        if slot not in self.workers:
            self.workers[slot] = Worker(self.backend.attend(ALL), {})
        elif fate != "stays":
            self.go(slot, is_killed=fate == "dies")

    def go(self, slot: int, *, is_killed: bool) -> None:
        owner = self.owner(slot)
        worker = self.workers.pop(slot)
        doomed = self.plain.doomed()
        if is_killed:
            self.kill(worker.attendance)
            self.backend.tick(QUEUES)
        else:
            worker.attendance.leave()
        for row in self.plain.held(owner):
            self.ended.append(self.leases.pop(row.id))
        self.plain.go(owner, self.now)
        if is_killed:
            self.keep_house(doomed)

    def keep_house(self, doomed: list[str]) -> None:
        """What a tick does for topics, in the plain model."""
        self.first_free_id = self.plain.spread(self.now, self.first_free_id)
        for name in doomed:
            self.plain.drop_channel(name, self.now, self.first_free_id)

    @invariant()
    def tick_tells_what_is_next(self) -> None:
        self.keep_house(self.plain.doomed())
        names = [*QUEUES, *CHANNELS]
        assert self.backend.tick(names) == self.plain.next_due(names)

    # ------------------------------------------------------------ putting

    @rule(batch=st.lists(new_jobs, min_size=1, max_size=4))
    def put(self, batch: list[New]) -> None:
        jobs = [self.new_job(new) for new in batch]
        try:
            expected = self.plain.put(batch, self.first_free_id)
        except Taken:
            try:
                self.backend.put(jobs)
            except KeyTaken:
                return
            raise AssertionError("a held key was given away") from None
        found = [(result.id, result.outcome) for result in self.backend.put(jobs)]
        assert found == expected
        self.first_free_id = max(self.first_free_id, *(job_id + 1 for job_id, _ in found))

    def new_job(self, new: New) -> NewJob:
        new.due = self.now + new.due * 1000
        return NewJob(
            queue=new.queue,
            task="task",
            args=f"{new.queue} {new.due}".encode(),
            due_ms=new.due,
            priority=new.priority,
            key=new.key,
            on_conflict=cast("Any", new.conflict),
            max_retries=new.max_retries,
        )

    # ------------------------------------------------------------ queues and channels

    @rule(queue=sources, verb=st.sampled_from(["pause", "resume", "resume"]))
    def pause(self, queue: str, verb: str) -> None:
        act = self.backend.pause if verb == "pause" else self.backend.resume
        if queue in CHANNELS and queue not in self.plain.channels:
            try:
                act(queue)
            except UnknownQueue:
                return
            raise AssertionError("a channel that is not there was paused")
        act(queue)
        if verb == "pause":
            self.plain.queues.add(queue)
            self.plain.paused.add(queue)
        else:
            self.plain.paused.discard(queue)

    @rule(queue=st.sampled_from(ALL), pick=picks, how=st.sampled_from(["all", "until", "below"]))
    def purge(self, queue: str, pick: int, how: str) -> None:
        rows = [row for row in self.plain.rows.values() if row.queue == queue]
        if not rows:
            return
        row = rows[pick % len(rows)]
        until = (row.due, row.id) if how == "until" else None
        below = row.id if how == "below" else None
        gone, after = 0, None
        while True:
            step = self.backend.purge(queue, limit=2, until=until, below_id=below, after=after)
            gone, after = gone + step.gone, step.after
            if after is None:
                break
        assert gone == self.plain.purge(queue, until, below)
        left = self.plain.count(queue, "waiting") + self.plain.count(queue, "failed")
        assert step.left == left

    @rule(name=st.sampled_from(CHANNELS), max_retries=st.integers(0, 2))
    def make_channel(self, name: str, max_retries: int) -> None:
        terms = ChannelTerms(topic="t", channel=name[2:], max_retries=max_retries, timeout_ms=0)
        self.backend.make_channels([terms])
        self.first_free_id = self.plain.make_channel(
            name, max_retries, self.now, self.first_free_id
        )

    @precondition(lambda self: self.plain.channels)
    @rule(pick=picks)
    def drop_channel(self, pick: int) -> None:
        names = sorted(self.plain.channels)
        name = names[pick % len(names)]
        step = self.backend.drop_channel("t", name[2:])
        gone, self.first_free_id = self.plain.drop_channel(name, self.now, self.first_free_id)
        assert (step.gone, step.left, step.after) == (gone, 0, None)

    # ------------------------------------------------------------ transactions

    @rule(batch=st.lists(new_jobs, min_size=1, max_size=3))
    def prepare(self, batch: list[New]) -> None:
        jobs = tuple(self.new_job(new) for new in batch)
        queue, due = f":{QUEUES[0]}", self.now + 1_000
        args = encode_group(Group("", jobs))
        (result,) = self.backend.put([NewJob(queue=queue, task="task", args=args, due_ms=due)])
        self.plain.put([New(queue, None, "raise", due, 0, 5)], self.first_free_id)
        assert result.id == self.first_free_id
        self.first_free_id += 1
        self.plain.prepared[result.id] = batch

    @precondition(lambda self: self.plain.prepared)
    @rule(pick=picks, is_commit=st.booleans())
    def decide(self, pick: int, is_commit: bool) -> None:
        ids = sorted(self.plain.prepared)
        job_id = ids[pick % len(ids)]
        row = self.plain.rows.get(job_id)
        try:
            results = self.backend.decide(JobId(job_id), is_commit=is_commit)
        except JobNotFound:
            assert row is None
            del self.plain.prepared[job_id]
            return
        except KeyTaken:
            assert is_commit
            try:
                self.plain.put(self.plain.prepared[job_id], self.first_free_id)
            except Taken:
                return
            raise AssertionError("it is free") from None
        assert row is not None
        batch = self.plain.prepared.pop(job_id) if is_commit else []
        self.plain.prepared.pop(job_id, None)
        self.plain.remove(job_id, "succeeded" if is_commit else "cancelled")
        expected = self.plain.put(batch, self.first_free_id)
        assert [(result.id, result.outcome) for result in results] == expected
        self.first_free_id = max([self.first_free_id, *(one + 1 for one, _ in expected)])

    # ------------------------------------------------------------ running

    @precondition(lambda self: self.workers)
    @rule(
        slot=owner_slots,
        order=st.sampled_from(
            [QUEUES, QUEUES, QUEUES[::-1], QUEUES[1:], CHANNELS, ("t:a", "a"), ()]
        ),
        limit=st.sampled_from([4, 9, 2, 1, 0]),
        settles=st.lists(st.tuples(picks, outcomes, delays), min_size=1, max_size=4),
    )
    def work(
        self, slot: int, order: Sequence[str], limit: int, settles: list[tuple[int, str, int]]
    ) -> None:
        """Settle and reserve in one call."""
        slot = slot if slot in self.workers else 1 - slot
        owner = self.owner(slot)
        settlements: list[c.Settlement] = []
        for pick, outcome, delay in settles:
            held = self.plain.held(owner)
            if held:
                row = held[pick % len(held)]
                settlements.append(self.settle_one(slot, row, outcome, self.now + delay * 1000))
        if limit and any(q in self.plain.channels and self.plain.is_served(q) for q in order):
            self.first_free_id = self.plain.spread(self.now, self.first_free_id)
        expected = self.plain.reserve(owner, list(order), limit, self.now)
        reserved = self.backend.reserve(cast("Any", owner), order, limit, settlements)
        assert reserved.refused == (None,) * len(settlements)
        assert [lease.job.id for lease in reserved.leases] == [row.id for row in expected]
        for lease, row in zip(reserved.leases, expected, strict=True):
            assert lease.owner == owner
            assert lease.attempt == row.attempts + 1
            assert row.id not in self.leases, "a job is held by two"
            self.leases[row.id] = lease

    def settle_one(self, slot: int, row: Row, outcome: str, due: int) -> c.Settlement:
        lease = self.leases.pop(row.id)
        self.ended.append(lease)
        worker = self.workers[slot]
        if row.id in worker.slots:
            worker.attendance.clear(worker.slots.pop(row.id))
        made: dict[str, Callable[[], c.Outcome]] = {
            "completed": c.Completed,
            "dropped": c.Dropped,
            "retried": lambda: c.Retried(due, "no"),
            "exhausted": lambda: c.Exhausted("no"),
            "snoozed": lambda: c.Snoozed(due),
            "returned": c.Returned,
        }
        self.plain.settle(row, outcome, due, self.now)
        return c.Settlement(lease.job.id, lease.attempt, made[outcome]())

    @precondition(lambda self: self.leases)
    @rule(slot=owner_slots, pick=picks)
    def begin(self, slot: int, pick: int) -> None:
        if slot in self.workers:
            held = [row for row in self.plain.held(self.owner(slot)) if not row.started]
            if held:
                row = held[pick % len(held)]
                row.started = True
                worker = self.workers[slot]
                worker.slots[row.id] = worker.attendance.start(self.leases[row.id])

    @precondition(lambda self: self.ended)
    @rule(pick=picks, outcome=st.sampled_from([c.Completed(), c.Returned(), c.Retried(0, "late")]))
    def settle_late(self, pick: int, outcome: c.Outcome) -> None:
        """What ended once is over, whatever became of the job since."""
        lease = self.ended[pick % len(self.ended)]
        now = self.leases.get(lease.job.id)
        if now is not None and (now.owner, now.attempt) == (lease.owner, lease.attempt):
            return  # it did not count, and the same owner has it again: the same fence
        settlement = c.Settlement(lease.job.id, lease.attempt, outcome)
        (refused,) = self.backend.reserve(lease.owner, (), 0, [settlement]).refused
        assert isinstance(refused, LeaseLost)

    # ------------------------------------------------------------ changing

    def pick_ref(self, pick: int, queue: str, key: str | None) -> tuple[JobRef, Row | None]:
        if key is not None:
            holder = self.plain.keys.get((queue, key))
            return JobRef(queue=queue, key=key), None if holder is None else self.plain.rows[holder]
        job_id = 1 + pick % self.first_free_id
        return JobRef(id=JobId(job_id)), self.plain.rows.get(job_id)

    @rule(
        verb=st.sampled_from(["cancel", "kick", "move", "move"]),
        pick=picks,
        queue=queues,
        key=st.sampled_from([None, None, *KEYS]),
        due=st.none() | delays,
        priority=st.none() | priorities,
    )
    def change(
        self,
        *,
        verb: str,
        pick: int,
        queue: str,
        key: str | None,
        due: int | None,
        priority: int | None,
    ) -> None:
        ref, row = self.pick_ref(pick, queue, key)
        match verb:
            case "cancel":
                self.cancel(ref, row)
            case "kick":
                self.kick_one(ref, row)
            case _:
                self.move(ref, row, None if due is None else self.now + due * 1000, priority)

    def cancel(self, ref: JobRef, row: Row | None) -> None:
        (error,) = self.backend.cancel([ref])
        assert_answer(error, None if row else JobNotFound)
        if row:
            if row.where == "running":
                self.ended.append(self.leases.pop(row.id))
            for worker in self.workers.values():
                if row.id in worker.slots:
                    worker.attendance.clear(worker.slots.pop(row.id))
            self.plain.remove(row.id, "cancelled")

    def move(self, ref: JobRef, row: Row | None, due: int | None, priority: int | None) -> None:
        (error,) = self.backend.move([c.Change(ref, due, priority)])
        if row is None:
            assert_answer(error, JobNotFound)
        elif row.where != "waiting":
            assert_answer(error, WrongState)
        else:
            assert_answer(error, None)
            row.due = row.due if due is None else due
            row.priority = row.priority if priority is None else priority

    def kick_one(self, ref: JobRef, row: Row | None) -> None:
        (error,) = self.backend.kick([ref])
        if row is None:
            assert_answer(error, JobNotFound)
        else:
            assert_answer(error, None if self.plain.kick(row.id, self.now) else WrongState)

    # ------------------------------------------------------------ what must always hold

    @invariant()
    def each_job_is_where_it_should_be(self) -> None:
        for job_id in range(1, self.first_free_id):
            info = self.backend.get(JobRef(id=JobId(job_id)))
            row = self.plain.rows.get(job_id)
            if info is None or row is None:
                assert (info, row) == (None, None)
                continue
            job = info.job
            assert info.state == state_of(row, self.now)
            assert job.max_retries == row.max_retries
            assert (job.queue, job.priority, job.due_ms) == (row.queue, row.priority, row.due)
            assert (job.attempt, job.snoozes, job.failed_ms) == (
                row.attempts,
                row.snoozes,
                row.failed_at,
            )
            assert [error.attempt for error in job.errors] == row.errors
            if row.where == "running":  # a running job's key is told by who holds it
                assert info.owner is not None
                assert info.owner.id == row.owner
            else:
                assert job.key == row.key
        for queue in ALL:
            for key in KEYS:
                info = self.backend.get(JobRef(queue=queue, key=key))
                assert (info.job.id if info else None) == self.plain.keys.get((queue, key))

    @invariant()
    def listings_agree(self) -> None:
        undecided = sorted(r.id for r in self.plain.rows.values() if r.queue.startswith(":"))
        assert sorted(self.listed(None, State.PREPARED)) == undecided
        for queue in ALL:
            ready = [row.id for row in self.plain.in_order(queue, due_by=self.now)]
            waiting = [row.id for row in self.plain.in_order(queue, due_by=1 << 60)]
            assert self.listed(queue, State.READY) == ready
            later = [job_id for job_id in waiting if job_id not in set(ready)]
            assert self.listed(queue, State.SCHEDULED) == later
            failed = [
                r for r in self.plain.rows.values() if (r.where, r.queue) == ("failed", queue)
            ]
            failed.sort(key=lambda row: (row.failed_at, row.id))
            assert self.listed(queue, State.FAILED) == [row.id for row in failed]
        running = [row for slot in self.workers for row in self.plain.held(self.owner(slot))]
        assert sorted(self.listed(None, State.RUNNING)) == sorted(row.id for row in running)
        assert set(self.leases) == {row.id for row in running}
        held = list(self.leases.values())
        assert self.backend.lost(held) == frozenset()

    def listed(self, queue: str | None, state: State) -> list[int]:
        page = self.backend.list(queue=queue, state=state, limit=1_000)
        return [info.job.id for info in page.jobs]

    @invariant()
    def numbers_agree(self) -> None:
        stats = self.backend.stats()
        assert {s.queue for s in stats.queues} == self.plain.queues
        assert {owner.id for owner in stats.owners} == {self.owner(slot) for slot in self.workers}
        for s in stats.queues:
            assert s.waiting == self.plain.count(s.queue, "waiting")
            assert s.running == self.plain.count(s.queue, "running")
            assert s.failed == self.plain.count(s.queue, "failed")
            assert s.ready == len(self.plain.in_order(s.queue, due_by=self.now))
            assert s.paused == (s.queue in self.plain.paused)
            assert s.prepared == self.plain.count(f":{s.queue}", "waiting")
            happened = self.plain.happened
            assert s.put_total == happened[s.queue, "put"]
            assert s.succeeded_total == happened[s.queue, "succeeded"]
            assert s.failed_total == happened[s.queue, "failed"]
            assert s.cancelled_total == happened[s.queue, "cancelled"]
            assert s.rescheduled_total == happened[s.queue, "rescheduled"]


def state_of(row: Row, now: int) -> str:
    if row.where != "waiting":
        return row.where
    if row.queue.startswith(":"):
        return "prepared"
    return "ready" if row.due <= now else "scheduled"


def assert_answer(error: BideError | None, kind: type[BideError] | None) -> None:
    assert (None if error is None else type(error)) is kind
