"""One store in this process: commands in, answers out, through log and index.

Callers that arrive together share a commit: each leaves its commands in a
line, and whoever gets the commit lock commits all that waits. Of those that
want to know their commands on the disk one leads: it commits for all,
syncs once, and wakes them; who comes meanwhile waits for the next turn, so
that groups are as large as the disk is slow. Others hold up nobody, and
nobody holds them up: they commit the line, and leave the sync to those in it.
A sync that nobody waits for is the ticker's.

A commit, in LMDB's write transaction, which is also the lock between
processes::

    decide -> fact -> apply, for each fact of each command
    log.append(all facts)        a failure here aborts: nothing has happened
    commit
    sync the log                 only then is a durable command answered

All use of LMDB by this process is under one lock, so that a fork finds no
transaction under way.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import lmdb

from bide.errors import BideError, StoreClosed, StoreError, StoreFailed, StoreFull
from bide.format.commit import Entry, encode_commit
from bide.format.record import HEAD_SIZE
from bide.model.commands import Answer, Command
from bide.storage.apply import Applier
from bide.storage.ballast import NO_ROOM
from bide.storage.caller import Caller, held_lock, refuse, takes_space
from bide.storage.environment import index_error
from bide.storage.fork import ForkOrder, unforked, watch_forks
from bide.storage.index import IndexView
from bide.storage.log import Log
from bide.storage.log_files import START, Position
from bide.storage.parts import Parts, Snapshot
from bide.storage.tables import Environment
from bide.storage.ticker import Ticker

Sync = Literal["always", "interval", "never"]
"""When a durable command is answered: after `fdatasync`; at once, with an
`fdatasync` to follow within 50 ms; at once, and the kernel writes when it will."""

GROUP_JOBS_MAX = 10_000
GROUP_SIZE_MAX = 64 << 20
"""What one commit takes from the line: the first caller's commands, and others' up to this."""


class Store:
    """The log and index of one store, shared by all threads of this process.

    Args:
        open_parts: Opens the index's tables and the log; called on first
            use, again in a child of a fork, and whenever another index has
            taken the place of the one in use.
        path: Names the store in errors.
    """

    def __init__(self, open_parts: Callable[[], Parts], *, path: str) -> None:
        self._open_parts = open_parts
        self.path = path
        self._closed = False
        self._broken: StoreError | None = None
        self._start_afresh()
        watch_forks(self, ForkOrder.STORE)

    def _start_afresh(self) -> None:
        self._parts: Parts | None = None
        self._snapshot_lock = threading.Lock()  # taken before _lock: a snapshot is being read
        self._lock = threading.Lock()  # LMDB, and everything below it
        self._sync_lock = threading.Lock()  # taken after _lock, never before
        self._lead = threading.Lock()  # taken before both: one commits and syncs for the line
        self._line: deque[Caller] = deque()
        self._syncing = False
        self._sync_over = held_lock()  # released, and replaced, when a sync is over
        self._appended_end = 0
        self._synced_end = 0
        self._ticker = Ticker(self._sync_unasked, self._lock)

    def submit(
        self,
        commands: Sequence[Command],
        now_ms: int,
        *,
        sync: Sync,
        wait: bool = True,
        committed: Callable[[], object] | None = None,
    ) -> list[Answer | BideError]:
        """`commit`, and `persist` as *sync* says; or without *wait*, `persist_soon`.

        Args:
            committed: Called in between, by any thread; it must not raise.

        Raises:
            StoreFailed: It is done, but may be lost with the machine's power.
            StoreError: Nothing of it was done.
        """
        if wait and sync == "always":
            return self._submit_durably(Caller(commands, now_ms, committed))
        answers, _ = self.commit(commands, now_ms)
        if committed is not None:
            committed()
        self.persist_soon(sync)
        return answers

    def commit(
        self, commands: Sequence[Command], now_ms: int
    ) -> tuple[list[Answer | BideError], int]:
        """Carry out *commands* in one transaction, together with those of other callers.

        Returns:
            For each command its answer, or the `JobError` that refused it;
            and the log offset to `persist`.

        Raises:
            StoreError: Nothing of it was done.
        """
        caller = Caller(commands, now_ms)
        self._line.append(caller)
        with self._lock:
            while not caller.done:
                for one in self._commit_group():
                    one.wake()
            end = self._appended_end
        if caller.error is not None:
            raise caller.error
        return caller.answers, end

    def persist(self, end: int, sync: Sync) -> None:
        """Put the log up to offset *end* on the disk, in the way that *sync* says.

        Raises:
            StoreFailed: It may be lost with the machine's power.
        """
        if sync == "always":
            self._sync_to(end)
        else:
            self.persist_soon(sync)

    def persist_soon(self, sync: Sync) -> None:
        """The same for all that is committed, with nobody waiting: "always" begins it at once.

        If it fails, the store closes itself, and the next call says so.
        """
        if sync != "never":
            self._ticker.ask(hurry=sync == "always")

    @contextlib.contextmanager
    def view(self) -> Iterator[IndexView]:
        """The index as it is now. Short use only: commits wait meanwhile."""
        with self._lock:
            try:
                yield from self._view()
            except lmdb.Error as error:
                raise index_error(error, self.path) from error

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The store as it is now, for as long as the block reads it. Commits go on meanwhile.

        Not for long: the index's file grows while a snapshot is held, and
        no fork can be made, since the child's copy would end it.
        """
        with self._snapshot_lock, contextlib.ExitStack() as unforked_until:
            with self._lock:
                parts = self._open_current()  # before: to open takes what is not to be forked
            unforked_until.enter_context(unforked())
            with self._lock, contextlib.ExitStack() as held:
                txn = held.enter_context(parts.environment.begin(write=False))
                end = held.pop_all()
            try:
                view = IndexView(txn, parts.environment.tables)
                yield Snapshot(parts.environment, txn, parts.log, view)
            except lmdb.Error as error:
                raise index_error(error, self.path) from error
            finally:
                with self._lock:
                    end.close()

    @contextlib.contextmanager
    def at_rest(self) -> Iterator[Parts]:
        """The parts in use, with nothing of this process under way in them. Short use only."""
        with self._snapshot_lock, self._lock:
            try:
                yield self._open_current()
            except lmdb.Error as error:
                raise index_error(error, self.path) from error

    def fail(self, error: StoreFailed) -> None:
        """Close the store for good, since the disk has not kept what it was given."""
        with self._lock:
            self._break(self._open(), error)

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def end(self) -> int:
        """The log offset behind all that this process has committed."""
        return self._appended_end

    def close(self) -> None:
        """Sync, and let go of the files. Closing twice is harmless."""
        with self._snapshot_lock, self._lock, self._sync_lock:
            self._closed = True
            self._ticker.stop()
            parts, self._parts = self._parts, None
            if parts is not None:
                try:
                    self._sync_rest(parts)
                finally:
                    parts.close()

    def before_fork(self) -> None:
        self._lock.acquire()
        try:
            self._sync_lock.acquire()
        except BaseException:
            self._lock.release()
            raise

    def after_fork_in_parent(self) -> None:
        self._sync_lock.release()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        # Both locks are held, so nothing was under way. LMDB knows its own
        # process by its pid and touches nothing of the parent's here.
        if self._parts is not None:
            self._parts.release()
        self._start_afresh()

    def _sync_rest(self, parts: Parts) -> None:
        """Have all that was committed on the disk. Under both locks."""
        if self._broken is None and self._synced_end < self._appended_end:
            try:
                parts.log.sync(self._appended_end)
            except StoreFailed as error:
                self._break(parts, error)
                raise
            self._synced_end = self._appended_end

    def _break(self, parts: Parts, error: StoreFailed) -> None:
        """A sync has failed: nothing more is done here, and others shall know."""
        if self._broken is None:
            self._broken = error
            parts.distrust()

    def _view(self) -> Iterator[IndexView]:
        while True:
            environment = self._open().environment
            with environment.begin(write=False) as txn:
                view = IndexView(txn, environment.tables)
                if view.moved() is None:
                    yield view
                    return
            self._reopen()

    def _open_current(self) -> Parts:
        """The parts, of the index that is in force."""
        for _ in self._view():
            pass
        assert self._parts is not None
        return self._parts

    def _reopen(self) -> None:
        """Go on with the index that has taken the place of this one. Under _lock.

        No snapshot is being read: who makes one, and who moves an index,
        exclude each other over all processes.
        """
        with self._sync_lock:
            assert self._parts is not None
            self._sync_rest(self._parts)
            parts, self._parts = self._parts, None
            parts.release()

    def _open(self) -> Parts:
        if self._closed:
            raise StoreClosed(f"{self.path}: the store was closed; open a new App", path=self.path)
        if self._broken is not None:
            raise StoreClosed(
                f"{self.path}: the store closed itself: {self._broken}", path=self.path
            ) from self._broken
        if self._parts is None:
            self._parts = self._open_parts()
        return self._parts

    def _submit_durably(self, caller: Caller) -> list[Answer | BideError]:
        self._line.append(caller)
        while not caller.done:
            if self._lead.locked():
                caller.wait()
                continue
            try:
                with self._lead:
                    self._lead_line(caller)
            finally:
                self._wake_next()  # it came when this thread led, and waits
        if caller.error is not None:
            raise caller.error
        if not caller.synced:  # committed by one who does not sync, or was interrupted
            if caller.committed is not None:
                caller.committed()
            self._sync_to(self._appended_end)
        return caller.answers

    def _lead_line(self, caller: Caller) -> None:
        """Commit the line, and have it on the disk, for all who wait in it."""
        group: list[Caller] = []
        try:
            with self._lock:
                if not caller.done:
                    group = self._commit_group()
                end = self._appended_end
            for one in group:
                if one.committed is not None:
                    one.committed()
            if caller.error is None:  # else the others look for themselves
                self._sync_to(end)
                for one in group:
                    one.synced = True
        finally:
            for one in group:
                one.wake()

    def _wake_next(self) -> None:
        try:
            self._line[0].wake()
        except IndexError:
            return

    def _commit_group(self) -> list[Caller]:
        """Commit the head of the line; each caller that is returned is done."""
        group: list[Caller] = []
        try:
            self._take_group(group)
            try:
                self._commit(group)
            except Exception as error:  # noqa: BLE001  each caller raises it in its own thread
                if len(group) == 1 or self._broken is not None:
                    refuse(group, error)
                else:
                    for caller in group:  # one that can't be done must not undo the others
                        self._commit_alone(caller)
        finally:
            # An interrupt, from outside or from a task's timeout, may end the
            # thread that commits for others: what it has not done goes back.
            for caller in reversed(group):
                if not caller.done and caller not in self._line:
                    self._line.appendleft(caller)
        return group

    def _take_group(self, group: list[Caller]) -> None:
        line, jobs, size = self._line, 0, 0
        while line:
            caller = line[0]
            if group or len(line) > 1:  # one that is alone is not weighed
                more_jobs, more_size = caller.weight()
                jobs, size = jobs + more_jobs, size + more_size
                if group and (jobs > GROUP_JOBS_MAX or size > GROUP_SIZE_MAX):
                    break
            group.append(caller)  # before it leaves the line: it is never in neither
            line.popleft()

    def _commit_alone(self, caller: Caller) -> None:
        try:
            self._commit([caller])
        except Exception as error:  # noqa: BLE001  raised by the caller's own thread
            refuse([caller], error)

    def _commit(self, group: Sequence[Caller]) -> None:
        """Carry out the commands of *group* in one transaction."""
        assert group, "a caller is neither done nor in line"
        is_put = takes_space(group)
        parts = self._open()
        if not is_put:
            parts.check()
        elif not parts.has_room():
            raise StoreFull(NO_ROOM.format(path=self.path), path=self.path)
        while True:
            try:
                if self._commit_to(self._open(), group):
                    return
                self._reopen()
            except StoreFull:
                if is_put or not self._open().make_room():
                    raise

    def _commit_to(self, parts: Parts, group: Sequence[Caller]) -> bool:
        """The same; False if another index has taken the place of the one in *parts*."""
        environment, log = parts.environment, parts.log
        after, size = START, 0
        try:
            with environment.begin(write=True) as txn:
                applier = Applier(txn, environment.tables)
                view = IndexView(txn, environment.tables, applier.changed)
                if view.moved() is not None:
                    return False
                entries: list[Entry] = []
                for caller in group:
                    caller.carry_out(view, applier, entries)
                if entries:
                    body = encode_commit(entries)
                    size = HEAD_SIZE + len(body)
                    after = log.append(body, view.position(), group[0].now_ms)
                    applier.finish(after)
            self._settle_group(group, after)
        except lmdb.Error as error:
            raise index_error(error, self.path) from error
        except StoreFailed as error:
            self._break(parts, error)
            raise
        except Exception:
            raise
        except BaseException:
            # Interrupted, maybe just behind the commit: then it is done, and
            # must not be done again.
            if after != START and self._has_committed(environment, log, after, size):
                self._settle_group(group, after)
            raise
        return True

    def _settle_group(self, group: Sequence[Caller], after: Position) -> None:
        self._appended_end = max(self._appended_end, after.end)
        for caller in group:
            caller.done = True

    def _has_committed(
        self, environment: Environment, log: Log, after: Position, size: int
    ) -> bool:
        """Whether the transaction that appended up to *after* has committed.

        Another process may have committed since: behind our record, or in
        its place if ours was aborted.
        """
        with environment.begin(write=False) as txn:
            position = IndexView(txn, environment.tables).position()
        return position == after or (position.end > after.end and log.stands(after, size))

    def _sync_to(self, end: int) -> None:
        """Have the log on the disk up to *end*, by a sync of this thread's or of another's."""
        while self._synced_end < end:
            over = self._sync_over  # before the question: whoever makes it true will release it
            if self._syncing:
                # Not on _sync_lock: whoever came later might get that first, and
                # this thread would sit through a sync that it has no need of.
                with over:
                    continue
            with self._sync_lock:
                if self._synced_end >= end:
                    return
                if self._broken is not None:
                    raise self._broken
                if self._parts is None:
                    raise StoreClosed(
                        f"{self.path}: the store was closed before this was on the disk",
                        path=self.path,
                    )
                self._sync_once(self._parts)

    def _sync_once(self, parts: Parts) -> None:
        over, next_over = self._sync_over, held_lock()
        goal = self._appended_end
        try:
            self._syncing = True
            parts.log.sync(goal)
            self._synced_end = goal
        except StoreFailed as error:
            self._break(parts, error)
            raise
        finally:
            # No call before the release: an interrupt of this thread can't come in between.
            self._sync_over, self._syncing = next_over, False
            over.release()

    def _sync_unasked(self) -> bool:
        """For the ticker: sync, unless the store is closed."""
        if self._closed or self._broken is not None:
            return False
        with contextlib.suppress(StoreError):  # the next call says it
            self._sync_to(self._appended_end)
        return True
