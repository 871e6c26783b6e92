"""Options that commands share, and what they lead to: the App, the queue, the jobs meant."""

from __future__ import annotations

import functools
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import click
from click.core import ParameterSource

from bide import App as NewApp
from bide.cli.loading import load_app
from bide.connect import directory_of
from bide.errors import InvalidOption, InvalidUrl, UnknownQueue
from bide.jobs.app import App
from bide.jobs.task import DEFAULT_QUEUE
from bide.model.job import JobId, JobRef
from bide.model.limits import check_key

Command = Callable[..., Any]

JOB_ID = click.IntRange(1, (1 << 63) - 1)

url_option = click.option(
    "--url",
    envvar="BIDE_URL",
    show_envvar=True,
    metavar="URL",
    help="Where the jobs are kept, such as file:///var/lib/shop/jobs.",
)

app_option = click.option(
    "--app", "app_name", metavar="MODULE:ATTR", help="The App whose jobs are meant."
)

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document, for programs."
)

queue_option = click.option("--queue", metavar="QUEUE", help="Of this queue alone.")


def page_options(command: Command) -> Command:
    """``--limit`` and ``--after``, for the commands that list."""
    command = click.option(
        "--after", metavar="CURSOR", help="Go on where the call that printed CURSOR ended."
    )(command)
    return click.option(
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        default=100,
        show_default=True,
        help="At most so many jobs.",
    )(command)


def key_options(command: Command) -> Command:
    """``--key`` and ``--queue``, for the commands that take a job by its key."""
    command = click.option(
        "--queue", metavar="QUEUE", help=f"The key's queue.  [default: {DEFAULT_QUEUE}]"
    )(command)
    return click.option("--key", metavar="KEY", help="The job by its key, instead of its id.")(
        command
    )


def looking(command: Command) -> Command:
    """``--url`` and ``--app``, for a command that looks at jobs and changes nothing."""
    return _with_app(command, read_only=True)


def changing(command: Command) -> Command:
    """``--url`` and ``--app``, for a command that changes jobs."""
    return _with_app(command, read_only=False)


def _with_app(command: Command, *, read_only: bool) -> Command:
    """The command is called with the App that the options lead to, open.

    The store must be there: looking at jobs makes none.
    """

    @functools.wraps(command)
    def with_app(*, url: str | None, app_name: str | None, **rest: Any) -> Any:
        app = NewApp() if app_name is None else load_app(app_name)
        own_url = app.url
        app_url = choose_url(url, own_url)
        try:
            app.bind(app_url, create=False, read_only=read_only)
        except InvalidOption:  # its module has used it already: then that store it is
            if app_url != own_url:
                raise
        backend = app.backend  # opened now: closing an App that was never used would open it
        try:
            return command(app=app, **rest)
        finally:
            backend.close()

    return app_option(url_option(with_app))


def store_directory(command: Command) -> Command:
    """``--url`` and ``--app``; the command is called with the *path* of the store's directory.

    An argument *store*, if the command has one, comes before them.
    """

    @functools.wraps(command)
    def with_path(*, url: str | None, app_name: str | None, **rest: Any) -> Any:
        named = rest.pop("store", None)
        if named is not None:
            return command(path=directory_of(named), **rest)
        own_url = None if app_name is None else load_app(app_name).url
        return command(path=directory_of(choose_url(url, own_url)), **rest)

    return app_option(url_option(with_path))


def choose_url(url: str | None, own_url: str | None) -> str:
    """The store that is meant.

    What the command line says comes first. What the App's own code says
    comes before the environment, since the programs that put the jobs do
    not read that.

    Raises:
        InvalidUrl: Nothing names one.
    """
    source = click.get_current_context().get_parameter_source("url")
    chosen = url if source is ParameterSource.COMMANDLINE else own_url or url
    if not chosen:
        raise InvalidUrl(
            "which store? Give --url file:///path/to/jobs, set BIDE_URL, or use an App that has one"
        )
    return chosen


def known_queue(app: App, queue: str) -> str:
    """*queue*, if a job was ever in it or a task names it.

    Raises:
        UnknownQueue: Neither.
    """
    known = {stats.queue for stats in app.stats().queues}
    known |= {task.options.queue for task in app.tasks.values()}
    if queue in known:
        return queue
    names = ", ".join(sorted(known))
    close = get_close_matches(queue, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    there = f"the queues are {names}" if known else "no job was ever put here"
    raise UnknownQueue(f"no queue {queue!r}: {hint}{there}", queue=queue)


def chosen_jobs(
    app: App, ids: tuple[int, ...], key: str | None, queue: str | None
) -> tuple[JobRef, ...]:
    """The jobs that a command's ids, or its ``--key`` and ``--queue``, name.

    Raises:
        click.UsageError: Both, or neither.
        UnknownQueue: The queue is none.
    """
    if key is None:
        if queue is not None:
            raise click.UsageError("--queue goes with --key; an id needs no queue")
        if not ids:
            raise click.UsageError("name the job by its id, or by --key and --queue")
        return tuple(JobRef(id=JobId(job_id)) for job_id in ids)
    if ids:
        raise click.UsageError("name the job by its id, or by --key and --queue, not by both")
    name = DEFAULT_QUEUE if queue is None else queue
    return (JobRef(queue=known_queue(app, name), key=check_key(key)),)
