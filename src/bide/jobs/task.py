"""A task: a Python function under a name, and how its jobs are to be run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from bide.backends.port import Sync
from bide.errors import InvalidOption
from bide.jobs.arguments import Arguments
from bide.jobs.handle import Handle
from bide.jobs.when import due_to_ms, moment_to_ms, timeout_to_ms
from bide.model.job import NewJob, OnConflict
from bide.model.limits import (
    check_destination,
    check_key,
    check_priority,
    check_queue,
    check_retries,
)
from bide.model.retry import RetryPolicy

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

DEFAULT_QUEUE = "default"
DEFAULT_MAX_RETRIES = 5
DEFAULT_TIMEOUT_S = 120.0

_CONFLICTS = ("raise", "skip", "replace")
SYNCS: tuple[Sync, ...] = ("always", "interval", "never")
"""The strongest first."""


def check_sync(sync: object) -> None:
    """Refuse what is neither a mode of syncing nor None, with `InvalidOption`."""
    if sync is not None and sync not in SYNCS:
        raise InvalidOption(f"sync {sync!r}: use one of {', '.join(SYNCS)}")


class Options(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How a job is put. Checked when it is built; `using` builds another."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    max_retries: int = DEFAULT_MAX_RETRIES
    timeout: float | timedelta | None = DEFAULT_TIMEOUT_S
    delay: float | timedelta | None = None
    run_at: datetime | None = None
    key: str | None = None
    on_conflict: OnConflict = "raise"
    sync: Sync | None = None

    def __post_init__(self) -> None:
        check_destination(self.queue)
        check_priority(self.priority)
        check_retries(self.max_retries)
        timeout_to_ms(self.timeout)
        if self.delay is not None:
            due_to_ms(self.delay, self.run_at, 0)
        elif self.run_at is not None:
            moment_to_ms(self.run_at)
        if self.key is not None:
            check_key(self.key)
        if self.on_conflict not in _CONFLICTS:
            raise InvalidOption(f"on_conflict {self.on_conflict!r}: use one of {_CONFLICTS}")
        check_sync(self.sync)


class Request(msgspec.Struct, frozen=True, gc=False):
    """A job to be put: made by `Task.request`, put by `App.enqueue_many`."""

    task: str
    args: bytes
    options: Options
    timeout_ms: int

    def new_job(self, now_ms: int) -> NewJob:
        """What to put at *now_ms*, from which a delay counts."""
        options = self.options
        is_now = options.delay is None and options.run_at is None
        return NewJob(
            queue=options.queue,
            task=self.task,
            args=self.args,
            due_ms=now_ms if is_now else due_to_ms(options.delay, options.run_at, now_ms),
            priority=options.priority,
            key=options.key,
            on_conflict=options.on_conflict,
            max_retries=options.max_retries,
            timeout_ms=self.timeout_ms,
        )


class Enqueuer(Protocol):
    """What a task asks of its App."""

    def enqueue(self, request: Request) -> Handle: ...
    def aenqueue(self, request: Request) -> Coroutine[Any, Any, Handle]: ...


class Task(Generic[P, R]):
    """A function that can be run later. Made by `App.task`; calling it runs it now, here."""

    def __init__(
        self,
        app: Enqueuer,
        function: Callable[..., R],
        *,
        name: str,
        options: Options,
        retry: RetryPolicy,
        retry_on: tuple[type[BaseException], ...],
    ) -> None:
        self.name = name
        self.function = function
        self.options = options
        self.retry = retry
        self.retry_on = retry_on
        self.arguments = Arguments(function, name)
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self._app = app
        self.timeout_ms = timeout_to_ms(options.timeout)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def request(self, *args: P.args, **kwargs: P.kwargs) -> Request:
        """A job to put later, together with others, by `App.enqueue_many`.

        Raises:
            InvalidArguments: They do not fit the function's signature.
            BodyTooLarge: Encoded, they are over 1 MiB.
        """
        encoded = self.arguments.encode(args, kwargs)
        return Request(self.name, encoded, self.options, self.timeout_ms)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """Put a job; it is kept, as durably as the store is set, when this returns.

        Raises:
            InvalidArguments, BodyTooLarge: As `request`.
            KeyTaken: A live job of the queue holds the key.
            StoreError: It was not put.
        """
        return self._app.enqueue(self.request(*args, **kwargs))

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """The same as `enqueue`, by the name that Celery gave it."""
        return self._app.enqueue(self.request(*args, **kwargs))

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle:
        """As `enqueue`, from async code; puts awaited together share a commit."""
        return await self._app.aenqueue(self.request(*args, **kwargs))

    def using(self, **options: Any) -> Task[P, R]:
        """This task with other options, for the puts made through what is returned.

        Args:
            delay: Seconds, or a timedelta, until it is due.
            run_at: An aware datetime instead; one that has passed is now.
            queue: Another queue than the task's.
            priority: From -100 to 100; the higher runs first among due jobs.
            key: A name, unique in the queue while the job lives.
            on_conflict: If the key is held: "raise", "skip" or "replace".
            max_retries: Runs after the first one that fails.
            timeout: Seconds, or a timedelta, for each run; None: no limit.
            sync: "always", "interval" or "never", other than the store's.

        Raises:
            UsageError: An option that is not one, or not in its range.
        """
        unknown = sorted(set(options) - set(Options.__struct_fields__))
        if unknown:
            known = ", ".join(Options.__struct_fields__)
            raise InvalidOption(f"using() has no option {unknown[0]!r}; it has {known}")
        check_queue(options.get("queue", DEFAULT_QUEUE))  # channels are for topics to fill
        other: Task[P, R] = object.__new__(Task)
        other.__dict__ = self.__dict__ | {"options": replace(self.options, **options)}
        other.timeout_ms = timeout_to_ms(other.options.timeout)
        return other


def task_name(function: Callable[..., Any]) -> str:
    """The name of a function's task: its module and its own name in it.

    A script's module is called as a worker would import it, so that a job
    put by ``python shop.py`` is known to ``bide worker shop:app``.
    """
    module = function.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        if spec is not None:
            module = spec.name.removesuffix(".__main__")
        elif getattr(main, "__file__", None):
            module = Path(str(main.__file__)).stem
    return f"{module}.{function.__qualname__}".replace("<locals>.", "")
