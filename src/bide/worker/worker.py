"""The worker: one loop that reserves, hands out, settles and sleeps.

It runs in the thread that calls `Worker.run`, and is the only one that
talks to the store; the executor's threads run the jobs. Each turn settles
all that has ended and reserves what there is room for, in one transaction,
so a busy worker's batches grow by themselves. It never waits for the disk to
sync what was settled: that goes on behind it, and is waited for at the end.

Jobs are held ahead of the threads only if they take about as long as a
turn, and go back to the queue when no thread comes to them: no other worker
idles beside a hoard.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from bide.backends.port import Attendance, Backend
from bide.errors import BideError, InvalidOption, StoreFull, UnknownQueue
from bide.jobs.app import App
from bide.jobs.task import Task
from bide.model import commands as c
from bide.model.job import Lease
from bide.model.limits import encodable
from bide.model.queue import ChannelTerms, channel_of, prepared_queue, topic_of, topic_queue
from bide.worker.options import WorkerOptions
from bide.worker.run import Runner
from bide.worker.threads import GRACE_S, Ended, ThreadExecutor

logger = logging.getLogger("bide.worker")

TURN_S = 0.2
"""The longest between two looks for dead workers and cancelled jobs."""

AHEAD_S = 0.005
"""Work held ahead of the threads, in seconds of it."""

AHEAD_MAX = 512
"""The same, in jobs."""

HELD_S_MAX = 0.05
"""Once every thread has been at its job for so long, what is held goes back to the queue."""

LINGER_S = 0.002
"""How long ended runs wait for others to be settled with them, while threads are busy."""

BACKOFF_S = 1.0

LOOK_UNDECIDED_S = 5.0
"""Between two looks for transactions that only a checker can decide."""


class WorkerSummary(msgspec.Struct):
    """How many runs ended how."""

    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    snoozed: int = 0
    cancelled: int = 0
    unsettled: int = 0
    """Runs whose outcome did not count: cancelled meanwhile, or stopped on the way."""
    stuck: int = 0
    """Runs that would not stop: they end, and run again, once this process ends."""


class Worker:
    """Runs the jobs of an app's queues until it is stopped.

    Raises:
        InvalidOption: The app has no task.
        UnknownQueue: No task of the app names one of the queues.
    """

    def __init__(self, app: App, options: WorkerOptions | None = None) -> None:
        self._app = app
        self._options = options or WorkerOptions()
        self.queues = _choose_queues(app.tasks.values(), self._options.queues)
        self._clock = app.clock
        self._stopping = False
        self._stop_now = False
        self._attendance: Attendance | None = None

    def stop(self, *, now: bool = False) -> None:
        """Have `run` come to an end; from any thread, or a signal handler.

        It takes no more jobs, returns those that it only holds, and lets
        running ones go on for the drain timeout; *now*: not any longer.
        Stopping twice is harmless.
        """
        if now:  # no read-and-write: a second signal may come in the midst of the first
            self._stop_now = True
        self._stopping = True
        attendance = self._attendance
        if attendance is not None:
            attendance.wake()

    def run(self) -> WorkerSummary:
        """Work, in this thread, until stopped (or, with `burst`, until nothing is due).

        Raises:
            StoreError: The store can't go on; what was running will run again.
        """
        backend = self._app.backend
        self._make_channels(backend)
        attendance = self._attendance = backend.attend(self.queues)
        loop = _Loop(self._app, self._options, self.queues, attendance, lambda: self._stopping)
        try:
            loop.executor.start()
            while not self._stopping:
                loop.turn()
                if self._options.burst and loop.is_idle:
                    break
            loop.drain(lambda: self._stop_now)
            self._app.backend.sync()
        finally:
            # What still runs holds its seat until the process ends: given to
            # another now, it would run twice at once.
            if loop.executor.end() == 0:
                attendance.leave()
        return loop.summary

    def _make_channels(self, backend: Backend) -> None:
        """Have the channels that the app's tasks subscribe to, by their present terms."""
        channels = [
            ChannelTerms(
                topic=topic,
                channel=channel_of(task.options.queue),
                max_retries=task.options.max_retries,
                timeout_ms=task.timeout_ms,
            )
            for task in self._app.tasks.values()
            if (topic := topic_of(task.options.queue)) and task.options.queue in self.queues
        ]
        if channels:
            backend.make_channels(channels)


class _Loop:
    """The state of a worker at work."""

    def __init__(
        self,
        app: App,
        options: WorkerOptions,
        queues: Sequence[str],
        attendance: Attendance,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._backend: Backend = app.backend
        self._clock = app.clock
        self._options = options
        self._undecided = _undecided_queues(queues)
        # Questions come first: they are few, and what waits for them is many jobs.
        self._queues = (*self._undecided, *queues) if app.check else tuple(queues)
        self._lacks_checker = app.check is None
        self._attendance = attendance
        self._runner = Runner(app.tasks, app.clock, app.check)
        self._notified = False
        self.executor = ThreadExecutor(
            options.threads,
            self._runner,
            attendance,
            app.clock,
            notify=self._notify,
            is_stopping=is_stopping,
        )
        self.summary = WorkerSummary()
        self.is_idle = False
        """Whether the last turn found nothing due, and nothing in hand."""
        self._ended: list[Ended] = []
        self._returned: list[Lease] = []
        self._looked_s = float("-inf")
        self._look_undecided_s = float("-inf")
        self._is_full = False

    def turn(self) -> None:
        """Settle what has ended and reserve what there is room for; sleep if there was nothing."""
        if self._unless_full(self._turn) is not None:
            self._attendance.wait(None, BACKOFF_S)

    def _unless_full(self, step: Callable[[], None]) -> StoreFull | None:
        """Do *step*; a full store is told of once, and returned."""
        try:
            step()
        except StoreFull as error:
            if not self._is_full:
                self._is_full = True
                logger.error("%s; trying again every %g s", error, BACKOFF_S)
            return error
        if self._is_full:
            self._is_full = False
            logger.info("the store has space again")
        return None

    def _turn(self) -> None:
        room = self._room(self._begin_turn())
        leases = self._exchange(room)
        for lease in leases:
            self._hand_out(lease)
        if leases:
            self.is_idle = False
            return
        next_due_ms = self._backend.tick(self._queues) if room else None
        is_due = next_due_ms is not None and next_due_ms <= self._clock.now_ms()
        self.is_idle = not (room == 0 or is_due or self.executor.in_hand or self._ended)
        if not (self.is_idle and self._options.burst):
            self._sleep(next_due_ms)

    def drain(self, is_urgent: Callable[[], bool]) -> None:
        """Return what is held, and wait for what runs; give up on what does not stop."""
        start_s = self._clock.monotonic()
        interrupted_s: float | None = None
        self._returned += self.executor.take_back()
        while True:
            full = self._unless_full(self._settle)
            if not (self.executor.in_hand or self._ended or self._returned):
                return
            now_s = self._clock.monotonic()
            if is_urgent() or now_s - start_s >= self._options.drain_timeout_s:
                interrupted_s = now_s if interrupted_s is None else interrupted_s
                self.executor.interrupt_all(now_s)
            if interrupted_s is not None and now_s - interrupted_s > GRACE_S:
                stuck = self.executor.abandon()
                if stuck:
                    self.summary.stuck += stuck
                    logger.warning(
                        "%d jobs do not stop; they run again once this process ends", stuck
                    )
                if full is not None:
                    raise full
                return
            if full is None:
                self._sleep(None)
            else:
                self._attendance.wait(None, BACKOFF_S)

    def _settle(self) -> None:
        self._begin_turn()
        self._exchange(room=0)

    def _begin_turn(self) -> float:
        """What every turn starts with; returns the time, in seconds of the monotonic clock."""
        now_s = self._clock.monotonic()
        if now_s - self._looked_s >= TURN_S:
            self._look_around(now_s)
        self.executor.enforce(now_s)
        if self.executor.waiting_count and not self.executor.flowing_count(now_s, HELD_S_MAX):
            self._returned += self.executor.take_back()
        self._notified = False  # first, so that what ends from here on is noticed
        self._ended += self.executor.collect()
        return now_s

    def _notify(self) -> None:
        if not self._notified:
            self._notified = True
            self._attendance.wake()

    def _room(self, now_s: float) -> int:
        """How many more jobs to take: one for each idle thread, and short ones ahead.

        A thread that has been at its job for long flows no more: nothing is
        held for it, however short the jobs before were.
        """
        mean_s = self.executor.mean_s
        ahead = 0
        if mean_s is not None:
            flowing = self.executor.flowing_count(now_s, AHEAD_S)
            ahead = min(int(flowing * AHEAD_S / max(mean_s, 1e-6)), AHEAD_MAX)
        self.executor.notify_at = max(1, ahead // 2)
        room = self._options.threads + ahead - self.executor.in_hand
        return room if room > ahead // 2 else 0

    def _exchange(self, room: int) -> tuple[Lease, ...]:
        """Settle what has ended and reserve up to *room*, in one transaction."""
        settlements = [
            c.Settlement(e.lease.job.id, e.lease.attempt, e.outcome) for e in self._ended
        ]
        settlements += [c.Settlement(x.job.id, x.attempt, c.Returned()) for x in self._returned]
        if not settlements and room <= 0:
            return ()
        reserved = self._backend.reserve(self._attendance.owner, self._queues, room, settlements)
        for ended, refused in zip(self._ended, reserved.refused, strict=False):
            self._account(ended, refused)
        self._ended.clear()
        self._returned.clear()
        return reserved.leases

    def _account(self, ended: Ended, refused: BideError | None) -> None:
        self._attendance.clear(ended.mark)
        job, summary = ended.lease.job, self.summary
        if refused is not None:
            summary.unsettled += 1
            logger.info("job %d (%s): its outcome does not count: %s", job.id, job.task, refused)
            return
        match ended.outcome:
            case c.Completed() | c.Decided():
                summary.succeeded += 1
            case c.Retried(error=error) | c.Exhausted(error=error):
                last = encodable(error.rstrip().rpartition("\n")[2])
                is_final = isinstance(ended.outcome, c.Exhausted)
                if is_final or ended.lease.attempt > job.max_retries:
                    summary.failed += 1
                    logger.error(
                        "job %d (%s) failed for good at attempt %d: %s",
                        job.id, job.task, ended.lease.attempt, last,
                    )  # fmt: skip
                else:
                    summary.retried += 1
                    logger.warning(
                        "job %d (%s) failed at attempt %d of %d: %s",
                        job.id, job.task, ended.lease.attempt, job.max_retries + 1, last,
                    )  # fmt: skip
            case c.Snoozed():
                summary.snoozed += 1
            case c.Dropped():
                summary.cancelled += 1
            case c.Returned():
                summary.unsettled += 1

    def _hand_out(self, lease: Lease) -> None:
        if self._runner.knows(lease):
            self.executor.submit(lease)
            return
        job = lease.job
        logger.warning(
            "job %d: no task %r here; it waits for a worker that has it", job.id, job.task
        )
        mark = self._attendance.start(lease)
        self._ended.append(Ended(lease, mark, self._runner.unknown(lease)))

    def _look_around(self, now_s: float) -> None:
        """What need not be seen at once: dead workers, and jobs cancelled while they run."""
        self._looked_s = now_s
        self._backend.tick(self._queues)
        if self._lacks_checker and now_s >= self._look_undecided_s:
            self._look_undecided_s = now_s + LOOK_UNDECIDED_S
            self._tell_undecided()
        running = self.executor.running
        if running:
            self.executor.tell_cancelled(self._backend.lost(running))

    def _is_any_undecided(self) -> bool:
        next_due_ms = self._backend.tick(self._undecided)
        return next_due_ms is not None and next_due_ms <= self._clock.now_ms()

    def _tell_undecided(self) -> None:
        """Say once that transactions wait for a worker with a checker."""
        if self._is_any_undecided():
            self._lacks_checker = False
            logger.warning(
                "undecided transactions wait to be checked, and this app has no checker: "
                "run a worker whose app has a function under @app.checker"
            )

    def _sleep(self, until_ms: int | None) -> None:
        """Sleep until there may be something to do: a job, an end, a deadline, a look around."""
        timeout_s = TURN_S
        if self.executor.waiting_count:
            timeout_s = HELD_S_MAX
        if self.executor.has_ended:
            timeout_s = LINGER_S
        if self._ended:
            timeout_s = 0.0
        deadline_s = self.executor.next_deadline_s()
        if deadline_s is not None:
            timeout_s = min(timeout_s, max(0.0, deadline_s - self._clock.monotonic()))
        self._attendance.wait(until_ms, timeout_s)


def _undecided_queues(queues: Sequence[str]) -> tuple[str, ...]:
    """Where transactions wait whose first job goes to one of *queues*, or is for one to copy."""
    firsts: dict[str, None] = {}
    for queue in queues:
        firsts[queue] = None
        topic = topic_of(queue)
        if topic is not None:
            firsts[topic_queue(topic)] = None
    return tuple(map(prepared_queue, firsts))


def _choose_queues(tasks: Iterable[Task[..., Any]], wanted: tuple[str, ...]) -> tuple[str, ...]:
    known = sorted({task.options.queue for task in tasks})
    if not known:
        raise InvalidOption(
            "the app has no task: decorate functions with @app.task, in modules that it imports"
        )
    for queue in wanted:
        if queue not in known:
            raise UnknownQueue(
                f"queue {queue!r}: no task of this app names it; it has {', '.join(known)}",
                queue=queue,
            )
    return wanted or tuple(known)
