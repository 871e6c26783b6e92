"""The App: the tasks of a program, and the store that keeps their jobs."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Concatenate, Protocol, Self, overload
from weakref import WeakKeyDictionary

from bide.backends.port import Backend, JobInfo, Page, Stats, Sync
from bide.clock import Clock, SystemClock
from bide.errors import (
    BideError,
    DuplicateTask,
    InvalidOption,
    InvalidUrl,
    JobNotFound,
    StoreClosed,
)
from bide.jobs.context import Context
from bide.jobs.handle import Handle
from bide.jobs.merger import Merger
from bide.jobs.task import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_S,
    SYNCS,
    Options,
    P,
    R,
    Request,
    Task,
    check_sync,
    task_name,
)
from bide.jobs.when import delay_to_ms, due_to_ms
from bide.model.commands import Change, PutResult
from bide.model.job import JobId, JobRef, NewJob, State
from bide.model.limits import (
    PAGE_COUNT_MAX,
    check_key,
    check_priority,
    check_queue,
    check_task_name,
)
from bide.model.retry import RetryPolicy
from bide.storage.fork import ForkOrder, watch_forks

COMMIT_JOBS = 1_000
COMMIT_SIZE = 8 << 20
"""What `App.enqueue_many` puts in one commit, at most: jobs, and bytes of arguments."""


class Opener(Protocol):
    """Makes a backend from a URL; `bide.connect.connect` is one."""

    def __call__(
        self,
        url: str,
        clock: Clock,
        *,
        sync: Sync | None = None,
        create: bool = True,
        read_only: bool = False,
    ) -> Backend: ...


class _Decorator(Protocol):
    """What ``@app.task(...)`` decorates with."""

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R]: ...


class App:
    """The tasks of a program, and the store that keeps their jobs.

    The store is opened on first use, so a module with an App can be
    imported anywhere. Threads may share an App, and so may forked children.

    Args:
        url: Where the jobs are kept, such as ``file:///var/lib/shop/jobs``;
            None: given later, by `bind` or by ``bide --url`` or ``$BIDE_URL``.
        opener: Makes the backend. `bide.App` comes with one.
        clock: What time it is; the machine's, unless a test or a replay says otherwise.
        sync: When a put is answered: "always" (the default), once it is on
            the disk; "interval", at once, and on the disk within 50 ms;
            "never", when the system will. A worker waits for none of them.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        opener: Opener,
        clock: Clock | None = None,
        sync: Sync | None = None,
    ) -> None:
        if url is not None and not isinstance(url, str):
            raise InvalidUrl(f"url {url!r}: use a str, such as file:///path/to/jobs")
        check_sync(sync)
        self.url = url
        self.clock: Clock = clock or SystemClock()
        self.tasks: dict[str, Task[..., Any]] = {}
        self._opener = opener
        self._sync: Sync | None = sync
        self._create = True
        self._read_only = False
        self._closed = False
        self._lock = threading.Lock()
        self._backend: Backend | None = None
        watch_forks(self, ForkOrder.APP)
        self._mergers: WeakKeyDictionary[asyncio.AbstractEventLoop, Merger] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<App {self.url} with {len(self.tasks)} tasks>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def bind(self, url: str, *, create: bool = True, read_only: bool = False) -> None:
        """Say where the jobs are kept, before the store is first used.

        Args:
            create: Make the store if there is none; False: `NotAStore` then.
            read_only: Only look; a call that would change something raises
                `StoreReadOnly`. Nothing is made, also where there is none.
        """
        if self._backend is not None:
            raise InvalidOption(f"the App already uses {self.url}: bind it before its first use")
        self.url = url
        self._create = create
        self._read_only = read_only

    @property
    def backend(self) -> Backend:
        """The store, opened now if it was not."""
        if self._backend is None:
            with self._lock:
                if self._backend is None:
                    if self._closed:
                        raise StoreClosed(
                            "this App was closed; make a new one", path=self.url or ""
                        )
                    if self.url is None:
                        raise InvalidUrl(
                            'the App has no store: write App("file:///path/to/jobs"), or set '
                            "BIDE_URL for the command line"
                        )
                    self._backend = self._opener(
                        self.url,
                        self.clock,
                        sync=self._sync,
                        create=self._create,
                        read_only=self._read_only,
                    )
        return self._backend

    def close(self) -> None:
        """Let go of the store; afterwards each call on it raises `StoreClosed`."""
        with self._lock:
            self._closed = True
            if self._backend is not None:
                self._backend.close()

    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: None = None, /, **options: Any) -> _Decorator: ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Register a function as a task: ``@app.task`` or ``@app.task(queue="mail")``.

        Args:
            name: Other than ``module.function``.
            queue, priority, max_retries, timeout: As in `Task.using`; by
                default "default", 0, 5 and 120 seconds.
            retry_backoff: Seconds until the first retry, doubled for each
                further one; by default 1.
            retry_backoff_max: Seconds that it is never more than; by default
                an hour, or `retry_backoff` if that is more.
            retry_jitter: The random share taken off, from 0 to 1; by default 0.5.
            retry_on: Exceptions after which it is run again; any other fails
                the job at once. By default `Exception`.

        Raises:
            DuplicateTask: Another function has the name.
            InvalidArguments: A parameter's type can't be stored.
            UsageError: An option that is not one, or not in its range.
        """
        unknown = sorted(set(options) - _TASK_OPTIONS)
        if unknown:
            known = ", ".join(sorted(_TASK_OPTIONS))
            raise InvalidOption(f"task() has no option {unknown[0]!r}; it has {known}")
        if function is None:
            return lambda decorated: self._register(decorated, **options)
        return self._register(function, **options)

    def enqueue(self, request: Request) -> Handle:
        """Put one job; see `Task.enqueue`."""
        new = request.new_job(self.clock.now_ms())
        return self._handle(self.backend.put((new,), sync=request.options.sync)[0])

    async def aenqueue(self, request: Request) -> Handle:
        """Put one job from async code; see `Task.aenqueue`."""
        loop = asyncio.get_running_loop()
        merger = self._mergers.get(loop)
        if merger is None:
            merger = self._mergers[loop] = Merger(self._put)
        new = request.new_job(self.clock.now_ms())
        return self._handle(await merger.put(new, request.options.sync))

    def enqueue_many(
        self, requests: Iterable[Request], *, sync: Sync | None = None
    ) -> list[Handle]:
        """Put jobs, a thousand in each commit.

        Args:
            requests: Made by `Task.request`; taken as they are needed, so it
                may be a generator over millions.
            sync: For these puts; None: the strongest that a request of the
                commit asks for, or as the store was opened.

        Returns:
            A handle for each, in order. If it raises, the commits before
            stay: the jobs of each are stored all or none.
        """
        handles: list[Handle] = []
        iterator = iter(requests)
        check_sync(sync)
        while batch := _take_batch(iterator):
            now_ms = self.clock.now_ms()
            jobs = [request.new_job(now_ms) for request in batch]
            results = self._put(jobs, sync or _strongest_sync(batch))
            handles += map(self._handle, results)
        return handles

    def cancel(
        self, job_id: int | None = None, *, key: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> bool:
        """Withdraw a job, by id or by key and queue; a running one is told to stop.

        Returns:
            False if there is no such live job: it ran, or was cancelled before.
        """
        (error,) = self.backend.cancel((_ref(job_id, key, queue),))
        if isinstance(error, JobNotFound):
            return False
        _raise(error)
        return True

    def move(
        self,
        job_id: int | None = None,
        *,
        key: str | None = None,
        queue: str = DEFAULT_QUEUE,
        delay: float | timedelta | None = None,
        run_at: datetime | None = None,
        priority: int | None = None,
    ) -> None:
        """Change when a waiting job is due, counted from now, or its priority.

        Raises:
            JobNotFound: There is no such live job.
            WrongState: It is running, or has failed.
        """
        if delay is None and run_at is None and priority is None:
            raise InvalidOption("move() needs a delay, a run_at or a priority")
        due_ms = None
        if delay is not None or run_at is not None:
            due_ms = due_to_ms(delay, run_at, self.clock.now_ms())
        if priority is not None:
            check_priority(priority)
        _raise(self.backend.move((Change(_ref(job_id, key, queue), due_ms, priority),))[0])

    def kick(
        self, job_id: int | None = None, *, key: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> None:
        """Make a waiting job due now, or put a failed one back with its attempts anew.

        Raises:
            JobNotFound: There is no such live job.
            WrongState: It is running.
        """
        _raise(self.backend.kick((_ref(job_id, key, queue),))[0])

    def get(
        self, job_id: int | None = None, *, key: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> JobInfo | None:
        """A live job and where it is; None if it has succeeded or was cancelled."""
        return self.backend.get(_ref(job_id, key, queue))

    def jobs(
        self,
        state: State,
        *,
        queue: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page:
        """Jobs in one state, in order of service; failed ones by the time of their failure.

        Args:
            queue: None: of all queues, one after another.
            limit: At most 1,000.
            after: The `next` of the page before.
        """
        if queue is not None:
            check_queue(queue)
        try:
            state = State(state)
        except ValueError:
            raise InvalidOption(f"state {state!r}: use one of {', '.join(State)}") from None
        count: object = limit
        if not (isinstance(count, int) and 1 <= count <= PAGE_COUNT_MAX):
            raise InvalidOption(f"limit {limit!r}: use 1 to {PAGE_COUNT_MAX}")
        return self.backend.list(queue=queue, state=state, limit=limit, after=after)

    def stats(self) -> Stats:
        """How many jobs are where, in each queue, and which workers are known."""
        return self.backend.stats()

    async def acancel(
        self, job_id: int | None = None, *, key: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> bool:
        """As `cancel`, from async code."""
        return await asyncio.to_thread(self.cancel, job_id, key=key, queue=queue)

    async def amove(self, job_id: int | None = None, **where: Any) -> None:
        """As `move`, from async code."""
        await asyncio.to_thread(self.move, job_id, **where)

    async def akick(
        self, job_id: int | None = None, *, key: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> None:
        """As `kick`, from async code."""
        await asyncio.to_thread(self.kick, job_id, key=key, queue=queue)

    async def aget(
        self, job_id: int | None = None, *, key: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> JobInfo | None:
        """As `get`, from async code."""
        return await asyncio.to_thread(self.get, job_id, key=key, queue=queue)

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        self._lock.release()

    def after_fork_in_child(self) -> None:
        self._lock.release()

    def _register(
        self,
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
        if isinstance(function, Task):
            raise InvalidOption(f"{function!r} is a task already: put @app.task outermost")
        name = check_task_name(name or task_name(function))
        if name in self.tasks:
            first, second = (_place(f) for f in (self.tasks[name].function, function))
            raise DuplicateTask(
                f"task {name!r} is defined at {first} and again at {second}: "
                "give one of them another name with @app.task(name=...)",
                task=name,
            )
        backoff_ms = delay_to_ms(retry_backoff)
        if retry_backoff_max is None:
            backoff_ms_max = max(backoff_ms, RetryPolicy().backoff_ms_max)
        else:
            backoff_ms_max = delay_to_ms(retry_backoff_max)
        task: Task[..., Any] = Task(
            self,
            function,
            name=name,
            options=Options(
                queue=queue, priority=priority, max_retries=max_retries, timeout=timeout
            ),
            retry=RetryPolicy(
                backoff_ms=backoff_ms,
                backoff_ms_max=backoff_ms_max,
                jitter=retry_jitter,
            ),
            retry_on=_check_retry_on(retry_on),
        )
        self.tasks[name] = task
        return task

    def _put(self, jobs: Iterable[NewJob], sync: Sync | None) -> tuple[PutResult, ...]:
        return self.backend.put(tuple(jobs), sync=sync)

    def _handle(self, result: PutResult) -> Handle:
        return Handle(self, result.id, result.outcome)


def _take_batch(requests: Iterable[Request]) -> list[Request]:
    batch: list[Request] = []
    size = 0
    for request in islice(requests, COMMIT_JOBS):
        if not isinstance(request, Request):
            raise InvalidOption(
                f"enqueue_many() takes what task.request(...) makes, not {type(request).__name__}"
            )
        batch.append(request)
        size += len(request.args)
        if size >= COMMIT_SIZE:
            break
    return batch


def _strongest_sync(batch: Sequence[Request]) -> Sync | None:
    asked: set[Sync | None] = {request.options.sync for request in batch}
    if asked <= {None, "never"}:
        return None if None in asked else "never"
    if None in asked:
        return "always"  # the store's default may be any: this is as strong as each
    return next(sync for sync in SYNCS if sync in asked)


def _ref(job_id: int | None, key: str | None, queue: str) -> JobRef:
    if (job_id is None) == (key is None):
        raise InvalidOption("name the job by its id, or by key= and queue=")
    if key is not None:
        return JobRef(queue=check_queue(queue), key=check_key(key))
    if isinstance(job_id, bool) or not isinstance(job_id, int) or not 0 < job_id < 1 << 63:
        raise InvalidOption(f"job id {job_id!r}: use a positive int")
    return JobRef(id=JobId(job_id))


def _raise(error: BideError | None) -> None:
    if error is not None:
        raise error


def _check_retry_on(retry_on: object) -> tuple[type[BaseException], ...]:
    kinds = tuple(retry_on) if isinstance(retry_on, (tuple, list)) else (retry_on,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        raise InvalidOption(f"retry_on {retry_on!r}: use an exception, or a tuple of them")
    return kinds


_TASK_OPTIONS = frozenset(inspect.signature(App._register).parameters) - {"self", "function"}  # noqa: SLF001


def _place(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
