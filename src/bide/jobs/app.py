"""The App: the tasks of a program, and the store that keeps their jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Concatenate, Self, cast, overload
from weakref import WeakKeyDictionary

from bide.backends.port import Backend, ChannelInfo, JobInfo, Opener, Page, Stats, Sync
from bide.clock import Clock, SystemClock
from bide.errors import (
    BideError,
    DuplicateTask,
    InvalidOption,
    JobNotFound,
)
from bide.jobs.batch import asked_sync, check_requests, strongest_sync, take_batch
from bide.jobs.connection import Connection
from bide.jobs.context import Context
from bide.jobs.emptying import drop_steps, purge_steps
from bide.jobs.handle import Handle, job_ref
from bide.jobs.merger import Merger
from bide.jobs.message import message_request
from bide.jobs.registry import (
    CHANNEL_OPTIONS,
    TASK_OPTIONS,
    Decorator,
    check_new,
    check_options,
    make_task,
)
from bide.jobs.task import (
    DEFAULT_MAX_RETRIES,
    DEFAULT_QUEUE,
    DEFAULT_TIMEOUT_S,
    P,
    R,
    Request,
    Task,
    check_sync,
)
from bide.jobs.transaction import Check, Transaction, prepared_job
from bide.jobs.when import delay_to_ms, due_to_ms, timeout_to_ms
from bide.model.commands import Change, PutResult
from bide.model.job import NewJob, State
from bide.model.limits import (
    PAGE_COUNT_MAX,
    check_destination,
    check_priority,
    check_queue,
    check_retries,
    check_source,
    check_topic,
)
from bide.model.queue import PREPARED_TASK, ChannelTerms, channel_queue


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
        self.clock: Clock = clock or SystemClock()
        self._connection = Connection(url, opener=opener, clock=self.clock, sync=sync)
        self.tasks: dict[str, Task[..., Any]] = {}
        self.check: Check | None = None
        """The checker; see `checker`."""
        self._mergers: WeakKeyDictionary[asyncio.AbstractEventLoop, Merger] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<App {self.url} with {len(self.tasks)} tasks>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str | None:
        """Where the jobs are kept; None if that was not said yet."""
        return self._connection.url

    def bind(self, url: str, *, create: bool = True, read_only: bool = False) -> None:
        """Say where the jobs are kept, before the store is first used.

        Args:
            create: Make the store if there is none; False: `NotAStore` then.
            read_only: Only look; a call that would change something raises
                `StoreReadOnly`. Nothing is made, also where there is none.
        """
        self._connection.bind(url, create=create, read_only=read_only)

    @property
    def backend(self) -> Backend:
        """The store, opened now if it was not."""
        return self._connection.backend

    def close(self) -> None:
        """Let go of the store; afterwards each call on it raises `StoreClosed`."""
        self._connection.close()

    @overload
    def task(self, function: Callable[Concatenate[Context, P], R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...
    @overload
    def task(self, function: None = None, /, **options: Any) -> Decorator: ...

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
        check_options("task", options, TASK_OPTIONS)
        check_queue(options.get("queue", DEFAULT_QUEUE))
        if function is None:
            return lambda decorated: self._register(decorated, options)
        return self._register(function, options)

    def subscribe(self, topic: str, channel: str, **options: Any) -> Decorator:
        """Register a function for the messages of a topic: ``@app.subscribe("orders", "mail")``.

        It gets the copies of channel *channel*, which a worker makes, if it
        is not there, as it starts. A message's fields are its arguments.

        Args:
            max_retries, timeout: As in `task`, for the channel's copies to come.
            retry_backoff, retry_backoff_max, retry_jitter, retry_on: As in `task`.

        Raises:
            DuplicateTask: Another function has the channel.
            UsageError: As `task`.
        """
        check_options("subscribe", options, CHANNEL_OPTIONS)
        name = channel_queue(check_topic(topic), check_topic(channel))
        options |= {"name": name, "queue": name}
        decorator: Any = lambda function: self._register(function, options)  # noqa: E731
        return cast("Decorator", decorator)

    def checker(self, function: Check) -> Check:
        """Register the function that decides transactions left undecided: ``@app.checker``.

        Called by a worker with a `Prepared`. True commits, False rolls back;
        after None or an exception it is asked again, ever later.
        """
        if self.check is not None:
            raise DuplicateTask(
                "the App has a checker already: it asks one function about all transactions",
                task=PREPARED_TASK,
            )
        if not callable(function):
            raise InvalidOption(f"checker {function!r}: use a function of a bide.Prepared")
        self.check = function
        return function

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
        """Put jobs, a thousand in each commit; they are as durable as asked when this returns.

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
        asked: set[Sync | None] = set()
        try:
            while batch := take_batch(iterator):
                now_ms = self.clock.now_ms()
                jobs = tuple([request.new_job(now_ms) for request in batch])
                mode = sync or asked_sync(batch)
                asked.add(mode)
                results = self.backend.put(jobs, sync=mode, wait=False)
                handles += [Handle(self, result.id, result.outcome) for result in results]
        finally:
            if asked:  # one wait for all the commits: the disk took them meanwhile
                self.backend.sync(strongest_sync(asked))
        return handles

    def enqueue_atomic(self, *requests: Request, sync: Sync | None = None) -> list[Handle]:
        """Put jobs, over any queues, in one commit: all of them or none.

        Raises:
            BatchTooLarge: Over 10,000, or 64 MiB of arguments.
            KeyTaken, StoreError: None was put.
        """
        check_sync(sync)
        batch = check_requests(requests, "enqueue_atomic")
        now_ms = self.clock.now_ms()
        jobs = [request.new_job(now_ms) for request in batch]
        return [self._handle(result) for result in self._put(jobs, sync or asked_sync(batch))]

    def prepare(
        self,
        *requests: Request,
        check_after: float | timedelta = 60.0,
        label: str = "",
        sync: Sync | None = None,
    ) -> Transaction:
        """Store jobs that are put by `commit` of what is returned, or never; see `Transaction`.

        Args:
            requests: Over any queues. Their delays count from now.
            check_after: Seconds, or a timedelta, until the app's checker is
                asked about it, should it not be decided by then.
            label: To tell the checker what it is about.
            sync: For this and for the decision; None: as in `enqueue_many`.

        Raises:
            BatchTooLarge: Over 10,000, or 64 MiB of arguments.
            StoreError: Nothing was stored.
        """
        check_sync(sync)
        batch = check_requests(requests, "prepare")
        new = prepared_job(batch, label, delay_to_ms(check_after), self.clock.now_ms())
        sync = sync or asked_sync(batch)
        (result,) = self._put((new,), sync)
        return Transaction(result.id, self.backend.decide, self._handle, sync=sync)

    def message(self, topic: str, message: Any, **options: Any) -> Request:
        """A message to publish together with other requests, as by `prepare`.

        Args:
            message: A mapping of names to values, a msgspec struct or a dataclass.
            delay, run_at, priority, sync: As in `Task.using`.
            key, on_conflict: The same, for as long as it waits in the topic.

        Raises:
            InvalidArguments, BodyTooLarge: It can't be stored.
        """
        return message_request(topic, message, **options)

    def publish(self, topic: str, message: Any, **options: Any) -> Handle:
        """Publish a message; at its time each channel of the topic gets a copy.

        It goes to the channels that were made by then, or else to the first
        one made later. Until then it is a job, to cancel or move by its
        handle. Options and errors are those of `message`.
        """
        return self.enqueue(self.message(topic, message, **options))

    async def apublish(self, topic: str, message: Any, **options: Any) -> Handle:
        """As `publish`, from async code."""
        return await self.aenqueue(self.message(topic, message, **options))

    def make_channel(
        self,
        topic: str,
        channel: str,
        *,
        max_retries: int = DEFAULT_MAX_RETRIES,
        timeout: float | timedelta | None = DEFAULT_TIMEOUT_S,
    ) -> bool:
        """Have a channel, with these terms for its copies to come; False if it was so before."""
        terms = ChannelTerms(
            topic=check_topic(topic),
            channel=check_topic(channel),
            max_retries=check_retries(max_retries),
            timeout_ms=timeout_to_ms(timeout),
        )
        return self.backend.make_channels([terms])

    def drop_channel(self, topic: str, channel: str) -> int:
        """End a channel: no copies from now on; what waits or has failed there goes.

        Running jobs end as they will. Returns how many jobs went.

        Raises:
            UnknownQueue: There is no such channel.
        """
        steps = drop_steps(self.backend, check_topic(topic), check_topic(channel))
        return sum(step.gone for step in steps)

    def channels(self) -> tuple[ChannelInfo, ...]:
        """Every channel, by topic and name."""
        return self.backend.channels()

    def pause(self, queue: str) -> None:
        """Have nothing more reserved from a queue, or from a channel, ``topic:channel``.

        Raises:
            UnknownQueue: A channel that is not there.
        """
        self.backend.pause(check_source(queue))

    def resume(self, queue: str) -> None:
        """Go on with a queue that was paused."""
        self.backend.resume(check_source(queue))

    def purge(self, queue: str) -> int:
        """Withdraw all waiting and failed jobs of a queue or channel; returns how many."""
        return sum(step.gone for step in purge_steps(self.backend, check_source(queue)))

    def cancel(
        self, job_id: int | None = None, *, key: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> bool:
        """Withdraw a job, by id or by key and queue; a running one is told to stop.

        Returns:
            False if there is no such live job: it ran, or was cancelled before.
        """
        (error,) = self.backend.cancel((job_ref(job_id, key, queue),))
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
        _raise(self.backend.move((Change(job_ref(job_id, key, queue), due_ms, priority),))[0])

    def kick(
        self, job_id: int | None = None, *, key: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> None:
        """Make a waiting job due now, or put a failed one back with its attempts anew.

        Raises:
            JobNotFound: There is no such live job.
            WrongState: It is running.
        """
        _raise(self.backend.kick((job_ref(job_id, key, queue),))[0])

    def get(
        self, job_id: int | None = None, *, key: str | None = None, queue: str = DEFAULT_QUEUE
    ) -> JobInfo | None:
        """A live job and where it is; None if it has succeeded or was cancelled."""
        return self.backend.get(job_ref(job_id, key, queue))

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
            check_destination(queue)
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

    def _register(self, function: Callable[..., Any], options: dict[str, Any]) -> Task[..., Any]:
        task = make_task(self, function, **options)
        check_new(task, self.tasks)
        self.tasks[task.name] = task
        return task

    def _put(self, jobs: Iterable[NewJob], sync: Sync | None) -> tuple[PutResult, ...]:
        return self.backend.put(tuple(jobs), sync=sync)

    def _handle(self, result: PutResult) -> Handle:
        return Handle(self, result.id, result.outcome)


def _raise(error: BideError | None) -> None:
    if error is not None:
        raise error
