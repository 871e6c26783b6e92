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
    JobInfo,
    Page,
    Reserved,
    Stats,
    Sync,
)
from bide.clock import Clock, random_token
from bide.errors import BideError, StoreClosed
from bide.model import commands as c
from bide.model.job import JobRef, Lease, NewJob, Owner, OwnerId, State
from bide.model.limits import check_batch
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

    def put(self, jobs: Sequence[NewJob], *, sync: Sync | None = None) -> tuple[c.PutResult, ...]:
        check_batch(len(jobs), sum(len(new.args) for new in jobs))
        if not jobs:
            return ()
        (answer,), end = self._store.commit((c.Put(tuple(jobs)),), self.clock.now_ms())
        results = _checked(answer)
        # Before the sync: a worker may well start the job meanwhile.
        self._ring_for(min(new.due_ms for new in jobs))
        self._store.persist(end, sync or self._sync)
        return cast("tuple[c.PutResult, ...]", results)

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
            elif any(isinstance(s.outcome, c.Returned) for s in settlements):
                self._presence.ring()
        if answers:
            leases = cast("tuple[Lease, ...]", _checked(answers.pop()))
        return Reserved(leases, refused)

    def sync(self) -> None:
        self._store.persist(self._store.end, self._sync)

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
        with self._store.view() as view:
            owners = view.owners()
        for owner in owners:
            if not self._presence.is_alive(owner.token):
                self._expire(owner)
        with self._store.view() as view:
            times = [due for name in queues if (due := view.next_due(name)) is not None]
        if self._upkeep is not None:
            self._upkeep.start_if_due()
        return min(times, default=None)

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
            return any(view.due(name, now_ms, 1) for name in queues)

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


def _checked(answer: c.Answer | BideError) -> c.Answer:
    if isinstance(answer, BideError):
        raise answer
    return answer
