"""The commands that change jobs: cancel, kick."""

from __future__ import annotations

from collections.abc import Sequence

import click

from bide.cli import output
from bide.cli.documents import changes_document
from bide.cli.options import JOB_ID, changing, chosen_jobs, json_option, key_options
from bide.cli.phrases import printable
from bide.errors import BideError
from bide.jobs.app import App
from bide.model.job import JobRef


@click.command(
    short_help="Withdraw jobs.",
    epilog="""\
\b
Examples:
  bide cancel 17 18
  bide cancel --key order-42 --queue mail
""",
)
@click.argument("ids", metavar="[ID]...", type=JOB_ID, nargs=-1)
@key_options
@json_option
@changing
def cancel(
    *, app: App, ids: tuple[int, ...], key: str | None, queue: str | None, as_json: bool
) -> None:
    """Withdraw jobs, whatever their state; one that runs is told to stop."""
    refs = chosen_jobs(app, ids, key, queue)
    _report("cancelled", refs, app.backend.cancel(refs), as_json=as_json)


@click.command(
    short_help="Make jobs due now, also failed ones.",
    epilog="""\
\b
Examples:
  bide kick 17 18
  bide kick --key order-42 --queue mail
""",
)
@click.argument("ids", metavar="[ID]...", type=JOB_ID, nargs=-1)
@key_options
@json_option
@changing
def kick(
    *, app: App, ids: tuple[int, ...], key: str | None, queue: str | None, as_json: bool
) -> None:
    """Make waiting jobs due now; put failed ones back, their attempts anew."""
    refs = chosen_jobs(app, ids, key, queue)
    _report("due now", refs, app.backend.kick(refs), as_json=as_json)


def _report(
    done: str, refs: Sequence[JobRef], errors: Sequence[BideError | None], *, as_json: bool
) -> None:
    """Say what became of each job; leave with 1 if one was refused."""
    if as_json:
        output.print_json(changes_document(refs, errors))
    for ref, error in zip(refs, errors, strict=True):
        if error is not None:
            output.print_error(str(error))
        elif not as_json:
            output.print_line(printable(f"{ref}: {done}"))
    output.exit_with(int(any(errors)))
