"""The seam over the embedded engine, wherever its store lives.

`bide.backends.local` opens it on a directory, `bide.backends.memory` in
this process's memory; from here up they are one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from typing import cast

from msgspec.structs import replace

from bide.backends import listing
from bide.backends.port import (
    Attendance,
    ChannelInfo,
    JobInfo,
    Page,
    Reserved,
    Stats,
    Sync,
)
from bide.clock import Clock, random_token
from bide.errors import BideError, StoreClosed, UnknownQueue
from bide.format.group import decode_group
from bide.model import commands as c
from bide.model.channels import is_any_due, next_due
from bide.model.job import JobId, JobRef, Lease, NewJob, Owner, OwnerId, State
from bide.model.limits import PURGE_STEP, check_batch
from bide.model.queue import ChannelTerms, channel_queue, is_prepared, topic_of, topic_queue
from bide.storage.index import IndexView
from bide.storage.presence import POLL_S, Presence, Seat
from bide.storage.store import Store
from bide.storage.upkeep import Upkeep

EXPIRE_STEP = 256
"""Leases of a dead worker taken back in one transaction."""

_EXPIRED = "its worker died while it ran (owner {owner.id}, {owner.host} pid {owner.pid})"


class Embedded:
    """A `Backend` over a `Store` in this process."""

    def __init__(
        self,
        store: Store,
        presence: Presence,
        clock: Clock,
        *,
        sync: Sync,
        on_close: Callable[[], None],
        upkeep: Upkeep | None = None,
    ) -> None:
        self.clock = clock
        self._closed = False
        self._shared_store = store
        self._presence = presence
        self._sync = sync
        self._on_close = on_close
        self._upkeep = upkeep
        self._unsubscribe = clock.subscribe(presence.ring)

    def put(
        self, jobs: Sequence[NewJob], *, sync: Sync | None = None, wait: bool = True
    ) -> tuple[c.PutResult, ...]:
        check_batch(len(jobs), sum([len(new.args) for new in jobs]))
        if not jobs:
            return ()
        due_ms = min([new.due_ms for new in jobs])
        (answer,) = self._store.submit(
            (c.Put(tuple(jobs)),),
            self.clock.now_ms(),
            sync=sync or self._sync,
            wait=wait,
            # Before the sync: a worker may well start the job meanwhile.
            committed=lambda: self._ring_for(due_ms),
        )
        return cast("tuple[c.PutResult, ...]", _checked(answer))

    def attend(self, queues: Sequence[str]) -> Attendance:
        with self._store.view() as view:
            known = frozenset(owner.token for owner in view.owners())
        self._presence.sweep(known)
        seat = self._presence.take_seat(random_token())
        command = c.Register(seat.token, socket.gethostname(), os.getpid(), tuple(queues))
        try:
            owner = cast("OwnerId", self._submit(command, "never"))
        except BaseException:
            seat.leave()
            self._presence.forget(seat.token)
            raise
        return _Attendance(self, seat, owner)

    def reserve(
        self,
        owner: OwnerId,
        queues: Sequence[str],
        limit: int,
        settlements: Sequence[c.Settlement] = (),
    ) -> Reserved:
        commands: list[c.Command] = []
        if settlements:
            commands.append(c.Settle(owner, tuple(settlements)))
        now_ms = self.clock.now_ms()
        if limit > 0 and (settlements or self._any_due(queues, now_ms)):
            commands.append(c.Reserve(owner, tuple(queues), limit))
        if not commands:
            return Reserved((), ())
        answers, _ = self._store.commit(commands, now_ms)
        refused: tuple[BideError | None, ...] = ()
        leases: tuple[Lease, ...] = ()
        if settlements:
            self._store.persist_soon(self._sync)
            refused = cast("tuple[BideError | None, ...]", _checked(answers.pop(0)))
            again = [s.outcome.due_ms for s in settlements if isinstance(s.outcome, _AGAIN)]
            if again:
                self._ring_for(min(again))
            elif any(isinstance(s.outcome, (c.Returned, c.Decided)) for s in settlements):
                self._presence.ring()
        if answers:
            leases = cast("tuple[Lease, ...]", _checked(answers.pop()))
        return Reserved(leases, refused)

    def sync(self, mode: Sync | None = None) -> None:
        self._store.persist(self._store.end, mode or self._sync)

    def lost(self, leases: Sequence[Lease]) -> frozenset[int]:
        with self._store.view() as view:
            rows = [view.lease(lease.owner, lease.job.id) for lease in leases]
        return frozenset(
            lease.job.id
            for lease, row in zip(leases, rows, strict=True)
            if row is None or row.attempt != lease.attempt
        )

    def cancel(self, refs: Sequence[JobRef]) -> tuple[BideError | None, ...]:
        check_batch(len(refs))
        answer = self._submit(c.Cancel(tuple(refs)), self._sync)
        self._presence.ring()  # whoever runs one of them shall know
        return cast("tuple[BideError | None, ...]", answer)

    def move(self, changes: Sequence[c.Change]) -> tuple[BideError | None, ...]:
        check_batch(len(changes))
        answer = self._submit(c.Move(tuple(changes)), self._sync)
        moved = [change.due_ms for change in changes if change.due_ms is not None]
        if moved:
            self._ring_for(min(moved))
        return cast("tuple[BideError | None, ...]", answer)

    def kick(self, refs: Sequence[JobRef]) -> tuple[BideError | None, ...]:
        check_batch(len(refs))
        answer = self._submit(c.Kick(tuple(refs)), self._sync)
        self._presence.ring()
        return cast("tuple[BideError | None, ...]", answer)

    def pause(self, queue: str) -> None:
        self._set_paused(queue, is_paused=True)

    def resume(self, queue: str) -> None:
        self._set_paused(queue, is_paused=False)
        self._presence.ring()

    def purge(
        self,
        queue: str,
        *,
        limit: int = PURGE_STEP,
        until: tuple[int, int] | None = None,
        below_id: int | None = None,
        after: tuple[int, ...] | None = None,
    ) -> c.Purged:
        command = c.Purge(queue, limit, until, below_id, after)
        return cast("c.Purged", self._submit(command, self._sync))

    def make_channels(self, channels: Sequence[ChannelTerms]) -> bool:
        command = c.MakeChannels(tuple(channels))
        is_changed = bool(self._submit(command, self._sync))
        if is_changed:
            self._presence.ring()
        return is_changed

    def drop_channel(self, topic: str, channel: str, *, is_begun: bool = False) -> c.Purged:
        command = c.DropChannel(channel_queue(topic, channel), PURGE_STEP, is_begun)
        purged = cast("c.Purged | None", self._submit(command, self._sync))
        if purged is None and not is_begun:
            raise UnknownQueue(f"{command.queue}: there is no such channel", queue=command.queue)
        return purged or c.Purged(0, 0, None)

    def channels(self) -> tuple[ChannelInfo, ...]:
        with self._store.view() as view:
            return listing.channels(view)

    def decide(
        self, job_id: JobId, *, is_commit: bool, sync: Sync | None = None
    ) -> tuple[c.PutResult, ...]:
        jobs: tuple[NewJob, ...] = ()
        if is_commit:
            with self._store.view() as view:
                job = view.job(job_id)
            if job is not None and is_prepared(job.queue):
                jobs = decode_group(job.args).jobs
        (answer,) = self._store.submit(
            (c.Decide(job_id, is_commit, jobs),),
            self.clock.now_ms(),
            sync=sync or self._sync,
            committed=self._presence.ring,  # also for who is asked about it just now
        )
        return cast("tuple[c.PutResult, ...]", _checked(answer))

    def get(self, ref: JobRef) -> JobInfo | None:
        with self._store.view() as view:
            job_id = ref.id if ref.key is None else view.holder(ref.queue, ref.key)
            job = None if job_id is None else view.job(job_id)
            return None if job is None else listing.info(job, view, self.clock.now_ms())

    def list(
        self, *, queue: str | None, state: State, limit: int, after: str | None = None
    ) -> Page:
        with self._store.view() as view:
            return listing.page(
                view, self.clock.now_ms(), queue=queue, state=state, limit=limit, after=after
            )

    def stats(self) -> Stats:
        with self._store.view() as view:
            stats = listing.stats(view, self.clock.now_ms())
        # A dead one is known until a living one has taken its jobs back.
        alive = tuple(owner for owner in stats.owners if self._presence.is_alive(owner.token))
        return replace(stats, owners=alive)

    def tick(self, queues: Sequence[str]) -> int | None:
        now_ms = self.clock.now_ms()
        with self._store.view() as view:
            owners = view.owners()
            chores = _channel_chores(view, now_ms)
        for owner in owners:
            if not self._presence.is_alive(owner.token):
                self._expire(owner)
        for chore in chores:
            self._submit(chore, "never")
        with self._store.view() as view:
            next_due_ms = next_due(view, queues)
        if self._upkeep is not None:
            self._upkeep.start_if_due()
        return next_due_ms

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._unsubscribe()
            self._presence.close()
            if self._upkeep is not None:
                self._upkeep.join()
            self._on_close()

    @property
    def _store(self) -> Store:
        if self._closed:
            raise StoreClosed("this App was closed; make a new one", path=self._shared_store.path)
        return self._shared_store

    def _expire(self, owner: Owner) -> None:
        """Take back what a dead worker held, and forget it."""
        started = self._presence.started(owner.token)
        reason = _EXPIRED.format(owner=owner)
        command = c.Expire(owner.id, started, reason, EXPIRE_STEP)
        while self._submit(command, "never"):
            pass
        self._presence.forget(owner.token)
        self._presence.ring()

    def _leave(self, owner: OwnerId, seat: Seat) -> None:
        started = self._presence.started(seat.token)
        seat.leave()
        reason = "its worker stopped before its outcome was stored"
        while self._submit(c.Expire(owner, started, reason, EXPIRE_STEP), "never"):
            pass
        self._presence.forget(seat.token)
        self._presence.ring()

    def _submit(self, command: c.Command, sync: Sync) -> c.Answer:
        return _checked(self._store.submit((command,), self.clock.now_ms(), sync=sync)[0])

    def _any_due(self, queues: Sequence[str], now_ms: int) -> bool:
        """Look, without taking the lock between processes, whether a reserve would find a job."""
        with self._store.view() as view:
            return is_any_due(view, queues, now_ms)

    def _set_paused(self, queue: str, *, is_paused: bool) -> None:
        if not self._submit(c.Pause(queue, is_paused), self._sync):
            raise UnknownQueue(f"{queue}: there is no such channel", queue=queue)

    def _ring_for(self, due_ms: int) -> None:
        """Wake the workers for a job due so soon that they would not see it by themselves."""
        if self.clock.seconds_until(due_ms) < 2 * POLL_S:
            self._presence.ring()


class _Attendance:
    """This process as a worker of an `Embedded` backend."""

    def __init__(self, backend: Embedded, seat: Seat, owner: OwnerId) -> None:
        self.owner = owner
        self._backend = backend
        self._seat = seat

    def start(self, lease: Lease) -> int:
        return self._seat.start(lease.job.id, lease.attempt)

    def clear(self, slot: int) -> None:
        self._seat.clear(slot)

    def wait(self, until_ms: int | None, timeout_s: float) -> None:
        if until_ms is not None:
            timeout_s = min(timeout_s, self._backend.clock.seconds_until(until_ms))
        self._seat.wait(timeout_s)

    def wake(self) -> None:
        self._seat.wake()

    def leave(self) -> None:
        self._backend._leave(self.owner, self._seat)  # noqa: SLF001  the same module's


_AGAIN = (c.Retried, c.Snoozed)


def _channel_chores(view: IndexView, now_ms: int) -> list[c.Command]:
    """A step for each topic with due messages, and for each channel that is on its way out."""
    rows = [row for row in view.queue_rows() if topic_of(row.name) is not None]
    topics = {topic_of(row.name) or "" for row in rows if row.dropped_ms is None}
    steps: list[c.Command] = [
        c.Spread(topic) for topic in sorted(topics) if view.due(topic_queue(topic), now_ms, 1)
    ]
    for row in rows:
        waiting, running, failed = view.live(row.name)
        if row.dropped_ms is not None and (waiting or failed or not running):
            steps.append(c.DropChannel(row.name, PURGE_STEP, is_begun=True))
    return steps


def _checked(answer: c.Answer | BideError) -> c.Answer:
    if isinstance(answer, BideError):
        raise answer
    return answer
