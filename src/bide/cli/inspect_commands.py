"""The commands that look: stats, jobs, show, failed."""

from __future__ import annotations

import click

from bide.cli import output
from bide.cli.documents import job_document, listing_document, stats_document
from bide.cli.listing import Listing, list_jobs
from bide.cli.options import (
    JOB_ID,
    chosen_jobs,
    json_option,
    key_options,
    known_queue,
    looking,
    page_options,
    queue_option,
)
from bide.errors import JobNotFound
from bide.jobs.app import App
from bide.model.job import State

LIVE = (State.RUNNING, State.READY, State.SCHEDULED, State.PREPARED)


@click.command(epilog="Example:  bide stats --url file:///var/lib/shop/jobs")
@json_option
@looking
def stats(*, app: App, as_json: bool) -> None:
    """Count the jobs of each queue, and name the workers."""
    numbers = app.stats()
    if as_json:
        output.print_json(stats_document(numbers))
        return
    from bide.cli import tables

    tables.print_stats(numbers)


@click.command(
    short_help="List jobs.", epilog="Example:  bide jobs --state scheduled --queue mail --limit 20"
)
@click.option(
    "--state",
    type=click.Choice([state.value for state in State]),
    help="In this state alone.  [default: running, ready, scheduled, then prepared]",
)
@queue_option
@page_options
@json_option
@looking
def jobs(
    *,
    app: App,
    state: str | None,
    queue: str | None,
    limit: int,
    after: str | None,
    as_json: bool,
) -> None:
    """List jobs, queue by queue, each in the order in which they will run."""
    if queue is not None:
        known_queue(app, queue)
    states = LIVE if state is None else (State(state),)
    listing = list_jobs(app, states, queue=queue, limit=limit, after=after)
    if as_json:
        output.print_json(listing_document(listing))
    elif not listing.jobs:
        kind = "job waits or runs" if state is None else f"job is {state}"
        output.print_line(_no_more(f"no {kind}", queue, after))
    else:
        from bide.cli import tables

        show_table = tables.print_failed if states == (State.FAILED,) else tables.print_jobs
        show_table(listing.jobs, app.clock.now_ms())
    _print_notes(listing, as_json=as_json)


@click.command(
    short_help="List the jobs that failed for good.", epilog="Example:  bide failed --queue mail"
)
@queue_option
@page_options
@json_option
@looking
def failed(*, app: App, queue: str | None, limit: int, after: str | None, as_json: bool) -> None:
    """List the jobs that failed for good, the oldest failure first, with their errors."""
    if queue is not None:
        known_queue(app, queue)
    listing = list_jobs(app, (State.FAILED,), queue=queue, limit=limit, after=after)
    if as_json:
        output.print_json(listing_document(listing))
    elif not listing.jobs:
        output.print_line(_no_more("no job has failed", queue, after))
    else:
        from bide.cli import tables

        tables.print_failed(listing.jobs, app.clock.now_ms())
    _print_notes(listing, as_json=as_json)


@click.command(
    epilog="""\
\b
Examples:
  bide show 17
  bide show --key order-42 --queue mail
"""
)
@click.argument("job_id", metavar="[ID]", type=JOB_ID, required=False)
@key_options
@json_option
@looking
def show(
    *, app: App, job_id: int | None, key: str | None, queue: str | None, as_json: bool
) -> None:
    """Show one job: its arguments, when it runs, what went wrong."""
    (ref,) = chosen_jobs(app, () if job_id is None else (job_id,), key, queue)
    info = app.backend.get(ref)
    if info is None:
        raise JobNotFound(
            f"{ref}: no such live job; it may have run, or been cancelled", job_id=ref.id, key=key
        )
    if as_json:
        output.print_json(job_document(info))
        return
    from bide.cli import tables

    tables.print_job(info, app.clock.now_ms())


def _no_more(text: str, queue: str | None, after: str | None) -> str:
    where = "" if queue is None else f" in queue {queue}"
    return f"{text}{where}" if after is None else "there are no more"


def _print_notes(listing: Listing, *, as_json: bool) -> None:
    if listing.unreadable:
        ids = ", ".join(map(str, listing.unreadable))
        output.print_note(f"bide: jobs whose stored rows are damaged, not shown: {ids}")
    if listing.next is not None and not as_json:
        output.print_note(f"bide: there may be more: --after {listing.next}")
