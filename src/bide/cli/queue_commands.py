"""The commands for whole queues: pause, resume, purge, channels, channel."""

from __future__ import annotations

import sys

import click

from bide.cli import output
from bide.cli.documents import channels_document
from bide.cli.options import changing, json_option, known_queue, looking
from bide.jobs.app import App
from bide.jobs.emptying import drop_steps, purge_steps
from bide.jobs.task import DEFAULT_MAX_RETRIES, DEFAULT_TIMEOUT_S
from bide.model.limits import check_source, check_topic

_QUEUE = click.argument("queue", metavar="QUEUE")
_CHANNEL = (
    click.argument("topic", metavar="TOPIC"),
    click.argument("channel", metavar="CHANNEL"),
)


@click.command(
    short_help="Have no more jobs started from a queue.",
    epilog="""\
\b
Examples:
  bide pause mail
  bide pause orders:billing
""",
)
@_QUEUE
@changing
def pause(*, app: App, queue: str) -> None:
    """Have nothing more started from QUEUE, a queue or a TOPIC:CHANNEL; what runs goes on."""
    app.pause(known_queue(app, check_source(queue)))
    output.print_line(f"{queue}: paused")


@click.command(short_help="Go on with a paused queue.", epilog="Example:  bide resume mail")
@_QUEUE
@changing
def resume(*, app: App, queue: str) -> None:
    """Have jobs started from QUEUE again."""
    app.resume(known_queue(app, check_source(queue)))
    output.print_line(f"{queue}: resumed")


@click.command(
    short_help="Withdraw all that waits or has failed in a queue.",
    epilog="""\
\b
Examples:
  bide purge mail
  bide purge orders:billing --yes --json
""",
)
@_QUEUE
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
@changing
def purge(*, app: App, queue: str, yes: bool, as_json: bool) -> None:
    """Withdraw all waiting and failed jobs of QUEUE, a queue or a TOPIC:CHANNEL.

    Running jobs and undecided transactions stay. On a terminal it asks first.
    """
    known_queue(app, check_source(queue))
    total = sum(one.waiting + one.failed for one in app.stats().queues if one.queue == queue)
    if not yes and total and _is_terminal():
        click.confirm(f"Withdraw {total} jobs of {queue}?", abort=True, err=True)
    gone, left = _purge(app, queue, total)
    if as_json:
        output.print_json({"queue": queue, "gone": gone, "left": left})
    else:
        output.print_line(f"{queue}: {gone} jobs withdrawn" + (f", {left} left" if left else ""))


def _purge(app: App, queue: str, total: int) -> tuple[int, int]:
    """Purge to the end; how many went, and how many came meanwhile and are left."""
    from bide.cli.progress import count_bar

    gone, left = 0, total
    try:
        with count_bar(f"purging {queue}", total) as advance:
            for step in purge_steps(app.backend, queue):
                gone, left = gone + step.gone, step.left
                advance(step.gone)
    except KeyboardInterrupt:
        output.print_note(f"bide: {queue}: stopped: {gone} jobs withdrawn, {left} left")
        raise
    return gone, left


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


@click.command(epilog="Example:  bide channels --url file:///var/lib/shop/jobs")
@json_option
@looking
def channels(*, app: App, as_json: bool) -> None:
    """List the channels of every topic, and what is in each."""
    found = app.channels()
    if as_json:
        output.print_json(channels_document(found))
    elif not found:
        output.print_line("there is no channel")
    else:
        from bide.cli import tables

        tables.print_channels(found)


@click.group(
    no_args_is_help=False,
    epilog="""\
\b
Examples:
  bide channel make orders billing
  bide channel drop orders billing
""",
)
def channel() -> None:
    """Make a channel of a topic, or drop one."""


@channel.command(
    "make",
    epilog="""\
\b
Examples:
  bide channel make orders billing
  bide channel make orders audit --max-retries 20 --timeout 600
""",
)
@_CHANNEL[0]
@_CHANNEL[1]
@click.option(
    "--max-retries",
    type=int,
    metavar="N",
    default=DEFAULT_MAX_RETRIES,
    show_default=True,
    help="Runs of a copy after the first one that fails.",
)
@click.option(
    "--timeout",
    type=float,
    metavar="S",
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    help="Seconds for each run.",
)
@changing
def make(*, app: App, topic: str, channel: str, max_retries: int, timeout: float) -> None:
    """Have a channel, which gets the messages due from now on."""
    is_changed = app.make_channel(topic, channel, max_retries=max_retries, timeout=timeout)
    output.print_line(f"{topic}:{channel}: {'made' if is_changed else 'it was there'}")


@channel.command("drop", epilog="Example:  bide channel drop orders billing")
@_CHANNEL[0]
@_CHANNEL[1]
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@changing
def drop(*, app: App, topic: str, channel: str, yes: bool) -> None:
    """End a channel: no more copies, and what waits or has failed there goes.

    Running jobs end as they will.
    """
    check_topic(topic)
    check_topic(channel)
    name = f"{topic}:{channel}"
    if not yes and _is_terminal():
        click.confirm(f"Drop {name} and what is in it?", abort=True, err=True)
    gone = sum(step.gone for step in drop_steps(app.backend, topic, channel))
    output.print_line(f"{name}: dropped, {gone} jobs withdrawn")
