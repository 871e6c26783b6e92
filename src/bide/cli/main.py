"""``bide``: the group of its commands, and what becomes of an error.

Modules that a command needs, and others do not (rich, logging, the worker),
are imported when it runs: ``bide --help`` must not pay for them.
"""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any, NoReturn

import click

from bide.cli import output
from bide.cli.change_commands import cancel, kick
from bide.cli.follow_commands import follow, promote
from bide.cli.inspect_commands import failed, jobs, show, stats
from bide.cli.queue_commands import channel, channels, pause, purge, resume
from bide.cli.store_commands import backup, check, compact, restore
from bide.cli.worker_command import worker
from bide.errors import BideError, UsageError

DONE, NOT_DONE, WRONG_CALL, INTERRUPTED = 0, 1, 2, 130

_EPILOG = """\
\b
Examples:
  bide worker shop:app -q mail,default
  bide stats --url file:///var/lib/shop/jobs
  BIDE_URL=file:///var/lib/shop/jobs bide jobs --state ready

\b
Exit codes:
  0    done
  1    it could not be done: no such job, or the store refused
  2    the call was wrong: usage, unknown queue, app not found
  130  interrupted

\b
Environment:
  BIDE_URL  the store, where neither --url nor an App names one
  NO_COLOR  set to anything: no colour
"""


class Bide(click.Group):
    """A group whose errors are one line on stderr, and an exit code."""

    def main(self, *args: Any, **extra: Any) -> NoReturn:
        """Run one command line; leaves by `SystemExit`."""
        extra["standalone_mode"] = False
        try:
            code = super().main(*args, **extra)
        except click.ClickException as error:
            output.print_error(error.format_message())
            if isinstance(error, click.UsageError) and error.ctx is not None:
                click.echo(f"Try '{error.ctx.command_path} --help'.", err=True)
            code = error.exit_code
        except UsageError as error:
            output.print_error(str(error))
            code = WRONG_CALL
        except (BideError, OSError) as error:
            output.print_error(str(error))
            code = NOT_DONE
        except click.Abort:  # what click makes of KeyboardInterrupt
            code = INTERRUPTED
        output.flush()
        sys.exit(code if isinstance(code, int) else DONE)


def _print_version(ctx: click.Context, _parameter: click.Parameter, value: object) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            release = version("bide")
        except PackageNotFoundError:
            release = "(not installed)"
        click.echo(f"bide {release}, Python {sys.version.split()[0]}")
        ctx.exit()


@click.group(
    cls=Bide,
    name="bide",
    no_args_is_help=False,  # no command is an error like any other
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Run work later, and never lose it: workers, and a look at their jobs."""


_COMMANDS = (
    *(worker, stats, jobs, show, failed, cancel, kick),
    *(pause, resume, purge, channels, channel),
    *(backup, restore, compact, check, follow, promote),
)

for _command in _COMMANDS:
    cli.add_command(_command)


def main() -> NoReturn:
    """The program ``bide``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError, OSError):
                stream.reconfigure(errors="backslashreplace")  # any key prints on any terminal
    cli.main(prog_name="bide")
