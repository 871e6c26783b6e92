"""A function and options into a task, as ``@app.task`` and ``@app.subscribe`` make one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Concatenate, Protocol, overload

from bide.errors import DuplicateTask, InvalidName, InvalidOption
from bide.jobs.context import Context
from bide.jobs.task import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_S,
    Enqueuer,
    Options,
    P,
    R,
    Task,
    task_name,
)
from bide.jobs.when import delay_to_ms
from bide.model.limits import check_task_name
from bide.model.queue import PREPARED_TASK
from bide.model.retry import RetryPolicy


class Decorator(Protocol):
    """What ``@app.task(...)`` decorates with."""

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


def make_task(
    app: Enqueuer,
    function: Callable[..., Any],
    *,
    name: str | None = None,
    queue: str = DEFAULT_QUEUE,
    priority: int = 0,
    max_retries: int = DEFAULT_MAX_RETRIES,
    timeout: float | timedelta | None = DEFAULT_TIMEOUT_S,
    retry_backoff: float | timedelta = 1.0,
    retry_backoff_max: float | timedelta | None = None,
    retry_jitter: float = 0.5,
    retry_on: type[BaseException] | tuple[type[BaseException], ...] = Exception,
) -> Task[..., Any]:
    """The task; see `bide.jobs.app.App.task` for what is given."""
    if isinstance(function, Task):
        raise InvalidOption(f"{function!r} is a task already: put @app.task outermost")
    name = check_task_name(name or task_name(function))
    if name == PREPARED_TASK:
        raise InvalidName(f"task name {name!r} is bide's own: use another", name=name)
    backoff_ms = delay_to_ms(retry_backoff)
    if retry_backoff_max is None:
        backoff_ms_max = max(backoff_ms, RetryPolicy().backoff_ms_max)
    else:
        backoff_ms_max = delay_to_ms(retry_backoff_max)
    return Task(
        app,
        function,
        name=name,
        options=Options(queue=queue, priority=priority, max_retries=max_retries, timeout=timeout),
        retry=RetryPolicy(
            backoff_ms=backoff_ms,
            backoff_ms_max=backoff_ms_max,
            jitter=retry_jitter,
        ),
        retry_on=_check_retry_on(retry_on),
    )


def check_new(task: Task[..., Any], tasks: Mapping[str, Task[..., Any]]) -> None:
    """Refuse a second function under a name, with `DuplicateTask`."""
    if task.name in tasks:
        first, second = (_place(t.function) for t in (tasks[task.name], task))
        raise DuplicateTask(
            f"task {task.name!r} is defined at {first} and again at {second}: "
            "give one of them another name with @app.task(name=...)",
            task=task.name,
        )


def check_options(call: str, options: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse an option that *call* does not have, with `InvalidOption`."""
    unknown = sorted(set(options) - known)
    if unknown:
        names = ", ".join(sorted(known))
        raise InvalidOption(f"{call}() has no option {unknown[0]!r}; it has {names}")


TASK_OPTIONS = frozenset(inspect.signature(make_task).parameters) - {"app", "function"}
CHANNEL_OPTIONS = TASK_OPTIONS - {"name", "queue", "priority"}


def _check_retry_on(retry_on: object) -> tuple[type[BaseException], ...]:
    kinds = tuple(retry_on) if isinstance(retry_on, (tuple, list)) else (retry_on,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise InvalidOption(f"retry_on {retry_on!r}: use an exception, or a tuple of them")
    return kinds


def _place(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
