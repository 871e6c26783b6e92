"""One run of one job: its task is called, and what comes of it becomes an outcome."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from typing import Any

from bide.clock import Clock, random_unit
from bide.errors import InvalidOption, UnknownTask
from bide.format.group import decode_group
from bide.jobs.context import Context
from bide.jobs.outcome import Cancel, Fail, Retry, Snooze, TaskStopped, TaskTimeout
from bide.jobs.task import Task
from bide.jobs.transaction import Check, prepared_of
from bide.model import commands as c
from bide.model.job import Lease
from bide.model.limits import MISSES_MAX
from bide.model.queue import is_prepared
from bide.model.retry import delay_undecided_ms, delay_unknown_task_ms

Waker = Callable[[type[BaseException]], object]
"""Wakes a thread that waits, for the exception that was sent to it."""

SetWaker = Callable[[Waker | None], None]


class Runner:
    """Runs jobs of *tasks*, and asks *check* about undecided transactions."""

    def __init__(
        self, tasks: Mapping[str, Task[..., Any]], clock: Clock, check: Check | None = None
    ) -> None:
        self._tasks = tasks
        self._check = check
        self._clock = clock

    def knows(self, lease: Lease) -> bool:
        return lease.job.task in self._tasks or is_prepared(lease.job.queue)

    def unknown(self, lease: Lease) -> c.Outcome:
        """What becomes of a job whose task this program does not have.

        It waits: in a rolling deploy, another worker does have it.
        """
        misses = lease.job.misses
        if misses >= MISSES_MAX:
            task, queue = lease.job.task, lease.job.queue
            error = UnknownTask(
                f"task {task!r} is unknown to the workers of queue {queue!r}; "
                "deploy one that has it, then kick the job",
                task=task,
            )
            return c.Exhausted(f"{type(error).__name__}: {error}")
        return c.Snoozed(self._clock.now_ms() + delay_unknown_task_ms(misses), is_miss=True)

    def run(self, lease: Lease, context: Context, set_waker: SetWaker) -> c.Outcome:
        """Run the job, in this thread, to its end.

        Args:
            set_waker: Told what wakes this thread while it waits, so that
                an exception sent to it arrives: a coroutine's event loop
                waits in a system call. None: nothing does any more.

        Raises:
            TaskTimeout, TaskStopped: Came from outside, and ended it.
        """
        if is_prepared(lease.job.queue):
            return self._ask(lease, set_waker)
        task = self._tasks[lease.job.task]
        try:
            args, kwargs = task.arguments.decode(lease.job.args, context)
            result = _call(set_waker, task.function, *args, **kwargs)
        except (TaskTimeout, TaskStopped):
            raise
        except asyncio.CancelledError as error:
            if error.args and error.args[0] in _INTERRUPTS:
                raise error.args[0] from error
            return self._failed(task, lease, error)
        except BaseException as error:  # noqa: BLE001  a task's SystemExit ends its run, not the worker
            return self._asked_for(task, lease, error) or self._failed(task, lease, error)
        return self._asked_for(task, lease, result) or _COMPLETED

    def timed_out(self, lease: Lease) -> c.Outcome:
        """What becomes of a job whose run took longer than it may."""
        text = f"TaskTimeout: it ran longer than {lease.job.timeout_ms / 1000:g} s"
        if is_prepared(lease.job.queue):
            return c.Retried(self._ask_again_ms(lease), text)
        return self._retry(self._tasks[lease.job.task], lease, text)

    def _ask(self, lease: Lease, set_waker: SetWaker) -> c.Outcome:
        """What the checker decides; if it does not, it is asked again."""
        assert self._check is not None, "without a checker, no transaction is reserved"
        try:
            answer = _call(set_waker, self._check, prepared_of(lease.job))
            if isinstance(answer, bool):
                return c.Decided(answer, decode_group(lease.job.args).jobs)
            if answer is not None:
                raise InvalidOption(f"the checker said {answer!r}: return True, False or None")
        except (TaskTimeout, TaskStopped):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and error.args[:1] in _INTERRUPT_ARGS:
                raise error.args[0] from error
            text = "".join(traceback.format_exception(_without_our_frames(error)))
            return c.Retried(self._ask_again_ms(lease), text)
        return c.Snoozed(self._ask_again_ms(lease))

    def _ask_again_ms(self, lease: Lease) -> int:
        asked = lease.job.snoozes + lease.job.attempt
        return self._clock.now_ms() + delay_undecided_ms(asked)

    def _asked_for(self, task: Task[..., Any], lease: Lease, said: object) -> c.Outcome | None:
        """The outcome that the task asked for, by raising or returning *said*."""
        match said:
            case Retry(delay_ms=delay_ms, reason=reason):
                return self._retry(task, lease, f"Retry: {reason}", delay_ms)
            case Snooze(delay_ms=delay_ms):
                return c.Snoozed(self._clock.now_ms() + delay_ms)
            case Cancel():
                return c.Dropped()
            case Fail(reason=reason):
                return c.Exhausted(f"Fail: {reason}")
            case _:
                return None

    def _failed(self, task: Task[..., Any], lease: Lease, error: BaseException) -> c.Outcome:
        text = "".join(traceback.format_exception(_without_our_frames(error)))
        # What is no Exception (SystemExit, say) ended a run, and says nothing of the next.
        if isinstance(error, task.retry_on) or not isinstance(error, Exception):
            return self._retry(task, lease, text)
        return c.Exhausted(text)

    def _retry(
        self, task: Task[..., Any], lease: Lease, text: str, delay_ms: int | None = None
    ) -> c.Outcome:
        if delay_ms is None:
            delay_ms = task.retry.delay_ms(lease.attempt, random_unit())
        return c.Retried(self._clock.now_ms() + delay_ms, text)


_COMPLETED = c.Completed()
_INTERRUPTS = (TaskTimeout, TaskStopped)
_INTERRUPT_ARGS = tuple((kind,) for kind in _INTERRUPTS)


def _call(set_waker: SetWaker, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What *function* returns, or the coroutine that it makes."""
    # What it sets in its context is its own: the thread runs others after it.
    result = copy_context().run(function, *args, **kwargs)
    if inspect.iscoroutine(result):
        result = asyncio.run(_with_waker(result, set_waker))
    return result


async def _with_waker(coroutine: Coroutine[Any, Any, Any], set_waker: SetWaker) -> Any:
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    assert main is not None
    # Cancelling it wakes the loop, and ends it should a callback have swallowed the exception.
    set_waker(lambda interrupt: loop.call_soon_threadsafe(main.cancel, interrupt))
    try:
        return await coroutine
    finally:
        set_waker(None)


def _without_our_frames(error: BaseException) -> BaseException:
    """The error, its traceback starting in the user's code."""
    below = error.__traceback__
    while below is not None and below.tb_next and below.tb_frame.f_code.co_filename == __file__:
        below = below.tb_next
    return error.with_traceback(below)
