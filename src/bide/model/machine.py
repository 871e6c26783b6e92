"""The rules: a command and a view of the index in, facts and an answer out.

`decide` is a generator. Whoever drives it applies each fact before asking
for the next, so the rules always look at what is true, also in the middle
of a command. A command that is refused raises before its first fact: it is
done whole or not at all.

What is legal, by state (ready is scheduled whose time has come)::

    command    scheduled/ready     running              failed
    reserve    -> running          -                    -
    settle     LeaseLost           -> gone, scheduled   LeaseLost
                                      or failed
    move       -> scheduled        WrongState           WrongState
    kick       -> ready            WrongState           -> ready, attempts anew
    cancel     -> gone             -> gone, told        -> gone
    expire     -                   -> ready or failed   -
    purge      -> gone             -                    -> gone

A job that stands for an undecided transaction goes through the same
states, but never fails: `settle` and `expire` let it wait again.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec.structs import replace

from bide.errors import BideError, CorruptIndex, JobNotFound, KeyTaken, LeaseLost, WrongState
from bide.model import commands as c
from bide.model import facts as f
from bide.model.channels import drop_channel, make_channels, pause, served, spread, topics_of
from bide.model.deciding import decide_prepared, end_prepared
from bide.model.job import (
    Failed,
    Job,
    JobId,
    JobRef,
    Lease,
    Leased,
    LeaseRow,
    NewJob,
    Owner,
    OwnerId,
    Scheduled,
    Withdrawn,
)
from bide.model.purging import purge
from bide.model.putting import place_of, put_jobs, refuse_taken_keys
from bide.model.queue import is_prepared
from bide.model.retry import delay_undecided_ms
from bide.model.view import View


def decide(command: c.Command, view: View, now_ms: int) -> Generator[f.Fact, None, c.Answer]:
    """The facts that *command* brings about at *now_ms*, and its answer.

    Raises:
        JobError: The command as a whole is refused; no fact was yielded.
    """
    match command:
        case c.Put():
            return (yield from put_jobs(command.jobs, view, now_ms))
        case c.Reserve():
            return (yield from _reserve(command, view, now_ms))
        case c.Settle():
            return (yield from _settle(command, view, now_ms))
        case c.Cancel():
            return (yield from _cancel(command, view))
        case c.Move():
            return (yield from _move(command, view))
        case c.Kick():
            return (yield from _kick(command, view, now_ms))
        case c.Expire():
            return (yield from _expire(command, view, now_ms))
        case c.Register():
            return (yield from _register(command, view, now_ms))
        case c.Pause():
            return (yield from pause(command, view, now_ms))
        case c.Purge():
            return (yield from purge(command, view))
        case c.MakeChannels():
            return (yield from make_channels(command, view, now_ms))
        case c.DropChannel():
            return (yield from drop_channel(command, view, now_ms))
        case c.Spread():
            return (yield from spread(command.topic, view, now_ms))
        case c.Decide():
            return (yield from decide_prepared(command, view, now_ms))


def _register(command: c.Register, view: View, now_ms: int) -> Generator[f.Fact, None, c.Answer]:
    owner = Owner(
        id=view.next_owner_id(),
        token=command.token,
        host=command.host,
        pid=command.pid,
        started_ms=now_ms,
        queues=command.queues,
    )
    yield f.OwnerRegistered(owner)
    return owner.id


def _reserve(command: c.Reserve, view: View, now_ms: int) -> Generator[f.Fact, None, c.Answer]:
    if view.owner(command.owner) is None:
        raise LeaseLost(f"owner {command.owner} is not registered, or was taken for dead")
    leases: list[Lease] = []
    rows: list[LeaseRow] = []
    unreadable: list[Withdrawn] = []
    queues = served(view, command.queues)
    for topic in topics_of(view, queues):
        yield from spread(topic, view, now_ms)
    for queue in queues:
        for priority, due_ms, job_id in view.due(queue, now_ms, command.limit - len(leases)):
            try:
                job = view.job(job_id)
            except CorruptIndex:
                job = None
            if job is None:  # one that cannot be read must not hold up the rest
                place = Scheduled(priority, due_ms)
                unreadable.append(Withdrawn(job_id, queue, None, place))
                continue
            attempt = job.attempt + 1
            rows.append(LeaseRow(job_id, queue, priority, due_ms, attempt, job.key))
            leases.append(Lease(command.owner, job, attempt))
        if len(leases) == command.limit:
            break
    if unreadable:
        yield f.JobsQuarantined(tuple(unreadable), now_ms)
    if rows:
        yield f.JobsReserved(command.owner, tuple(rows))
    return tuple(leases)


class _Ended:
    """Leases of one owner that end together, sorted by what becomes of their jobs."""

    def __init__(self, owner: OwnerId, view: View, now_ms: int) -> None:
        self.owner = owner
        self.view = view
        self.now_ms = now_ms
        self.completed: list[Withdrawn] = []
        self.cancelled: list[Withdrawn] = []
        self.returned: list[LeaseRow] = []
        self.keyless: list[Job] = []  # returned, but their key is a successor's now
        self.rescheduled: list[Job] = []
        self.failed: list[Job] = []
        self.unreadable: list[Withdrawn] = []
        self.decided: list[tuple[LeaseRow, Withdrawn, tuple[NewJob, ...] | None]] = []
        self.refused: dict[JobId, BideError] = {}
        """Decisions that could not be carried out, known once `facts` has ended."""

    def end(self, row: LeaseRow, outcome: c.Outcome) -> None:
        gone = Withdrawn(row.id, row.queue, row.key, Leased(self.owner))
        match outcome:
            case c.Completed():
                self.completed.append(gone)
                return
            case c.Dropped():
                self.cancelled.append(gone)
                return
            case c.Decided(is_commit, jobs):
                self.decided.append((row, gone, jobs if is_commit else None))
                return
            case c.Returned() if self._still_holds_key(row):
                self.returned.append(row)
                return
        try:
            job = self.view.job(row.id)
        except CorruptIndex:
            job = None
        if job is None:
            self.unreadable.append(gone)
            return
        if not self._still_holds_key(row):
            job = replace(job, key=None)
        match outcome:
            case c.Retried(due_ms, error):
                self._attempt_failed(job, row, due_ms, error)
            case c.Exhausted(error):
                self._attempt_failed(job, row, None, error)
            case c.Snoozed(due_ms, is_miss):
                misses = job.misses + 1 if is_miss else 0
                again = replace(job, due_ms=due_ms, snoozes=job.snoozes + 1, misses=misses)
                self.rescheduled.append(again)
            case _:
                self.keyless.append(job)

    def _attempt_failed(self, job: Job, row: LeaseRow, due_ms: int | None, error: str) -> None:
        errors = job.after_error(row.attempt, self.now_ms, error)
        job = replace(job, attempt=row.attempt, errors=errors, misses=0)
        if is_prepared(row.queue):  # never fails: someone has to decide it
            if due_ms is None or due_ms <= self.now_ms:  # its worker died, say: not again at once
                due_ms = self.now_ms + delay_undecided_ms(job.snoozes + row.attempt - 1)
            attempt = min(job.attempt, job.max_retries)
            self.rescheduled.append(replace(job, due_ms=due_ms, attempt=attempt))
        elif due_ms is None or job.attempt > job.max_retries:
            self.failed.append(replace(job, failed_ms=self.now_ms))
        else:
            self.rescheduled.append(replace(job, due_ms=due_ms))

    def _still_holds_key(self, row: LeaseRow) -> bool:
        return row.key is None or self.view.holder(row.queue, row.key) == row.id

    def facts(self) -> Generator[f.Fact, None, None]:
        if self.completed:
            yield f.JobsCompleted(tuple(self.completed))
        if self.cancelled:
            yield f.JobsCancelled(tuple(self.cancelled))
        if self.returned:
            yield f.JobsReturned(self.owner, tuple(self.returned))
        if self.keyless:
            places = (Leased(self.owner),) * len(self.keyless)
            yield f.JobsMoved(tuple(self.keyless), places)
        if self.rescheduled:
            yield f.JobsRescheduled(tuple(self.rescheduled), self.owner)
        if self.failed:
            yield f.JobsFailed(tuple(self.failed), self.owner)
        if self.unreadable:
            yield f.JobsQuarantined(tuple(self.unreadable), self.now_ms)
        for row, gone, jobs in self.decided:
            yield from self._decide(row, gone, jobs)

    def _decide(
        self, row: LeaseRow, gone: Withdrawn, jobs: tuple[NewJob, ...] | None
    ) -> Generator[f.Fact, None, None]:
        try:
            refuse_taken_keys(jobs or (), self.view)
        except KeyTaken as error:  # as if the checker had failed: it is asked again
            self.refused[row.id] = error
            again = _Ended(self.owner, self.view, self.now_ms)
            again.end(row, c.Exhausted(f"KeyTaken: {error}"))
            yield from again.facts()
            return
        yield from end_prepared(gone, jobs, self.view, self.now_ms)


def _settle(command: c.Settle, view: View, now_ms: int) -> Generator[f.Fact, None, c.Answer]:
    ended = _Ended(command.owner, view, now_ms)
    answers: list[BideError | None] = []
    settled: set[JobId] = set()
    for settlement in command.settlements:
        row = view.lease(command.owner, settlement.id)
        if row is None or row.attempt != settlement.attempt or row.id in settled:
            answers.append(
                LeaseLost(
                    f"job {settlement.id}: attempt {settlement.attempt} is no longer owner "
                    f"{command.owner}'s; it was cancelled, or another run counts",
                    job_id=settlement.id,
                )
            )
            continue
        settled.add(row.id)
        ended.end(row, settlement.outcome)
        answers.append(None)
    yield from ended.facts()
    ids = (settlement.id for settlement in command.settlements)
    return tuple(a or ended.refused.get(x) for x, a in zip(ids, answers, strict=True))


def _expire(command: c.Expire, view: View, now_ms: int) -> Generator[f.Fact, None, c.Answer]:
    if view.owner(command.owner) is None:
        return 0
    ended = _Ended(command.owner, view, now_ms)
    rows = view.leases(command.owner, command.limit)
    for row in rows:
        if (row.id, row.attempt) in command.started:
            ended.end(row, c.Retried(row.due_ms, command.reason))
        else:
            ended.end(row, c.Returned())
    yield from ended.facts()
    remaining = len(view.leases(command.owner, 1))
    if not remaining:
        yield f.OwnerRemoved(command.owner)
    return remaining


def _find(ref: JobRef, view: View) -> Job:
    job_id = ref.id
    if ref.key is not None:
        job_id = view.holder(ref.queue, ref.key)
    job = None if job_id is None else view.job(job_id)
    if job is None:
        raise JobNotFound(
            f"{ref}: no such live job; it may have run, or been cancelled",
            job_id=job_id,
            key=ref.key,
        )
    return job


def _cancel(command: c.Cancel, view: View) -> Generator[f.Fact, None, c.Answer]:
    answers: list[BideError | None] = []
    gone: dict[JobId, Withdrawn] = {}
    for ref in command.refs:
        try:
            job = _find(ref, view)
            if job.id in gone:
                raise JobNotFound(f"{ref}: named twice in one call", job_id=job.id, key=ref.key)
            gone[job.id] = Withdrawn(job.id, job.queue, job.key, place_of(job, view))
        except (JobNotFound, CorruptIndex) as error:
            answers.append(error)
        else:
            answers.append(None)
    if gone:
        yield f.JobsCancelled(tuple(gone.values()))
    return tuple(answers)


def _move(command: c.Move, view: View) -> Generator[f.Fact, None, c.Answer]:
    answers: list[BideError | None] = []
    for change in command.changes:
        try:
            job = _find(change.ref, view)
            place = place_of(job, view)
            if not isinstance(place, Scheduled):
                raise WrongState(
                    f"{change.ref} {_STATE_OF[type(place)]}: only a waiting job can be moved",
                    job_id=job.id,
                    key=job.key,
                )
        except (JobNotFound, WrongState, CorruptIndex) as error:
            answers.append(error)
            continue
        moved = replace(
            job,
            due_ms=job.due_ms if change.due_ms is None else change.due_ms,
            priority=job.priority if change.priority is None else change.priority,
        )
        if moved != job:
            yield f.JobsMoved((moved,), (place,))
        answers.append(None)
    return tuple(answers)


def _kick(command: c.Kick, view: View, now_ms: int) -> Generator[f.Fact, None, c.Answer]:
    answers: list[BideError | None] = []
    for ref in command.refs:
        try:
            job = _find(ref, view)
            place = place_of(job, view)
            if isinstance(place, Leased):
                raise WrongState(
                    f"{ref} is running: only a waiting or failed job can be kicked",
                    job_id=job.id,
                    key=job.key,
                )
        except (JobNotFound, WrongState, CorruptIndex) as error:
            answers.append(error)
            continue
        if isinstance(place, Failed):
            key = None if job.key is None or view.holder(job.queue, job.key) else job.key
            again = replace(job, due_ms=now_ms, failed_ms=None, attempt=0, key=key)
            yield f.JobsMoved((again,), (place,))
        elif job.due_ms > now_ms:
            yield f.JobsMoved((replace(job, due_ms=now_ms),), (place,))
        answers.append(None)
    return tuple(answers)


_STATE_OF = {Leased: "is running", Failed: "has failed", Scheduled: "is waiting"}
