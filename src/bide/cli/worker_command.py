"""The command that works: ``bide worker``."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from bide.cli import output
from bide.cli.loading import load_app
from bide.cli.options import choose_url, url_option
from bide.cli.phrases import printable
from bide.worker.options import WorkerOptions

if TYPE_CHECKING:
    from bide.worker.worker import Worker

_DEFAULTS = WorkerOptions()
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STOPPING = b"bide: stopping once the running jobs have ended; signal again to stop now\n"
_STOPPING_NOW = b"bide: stopping now\n"


@click.command(
    epilog="""\
\b
Examples:
  bide worker shop:app
  bide worker shop:app -q mail,default --threads 16
  bide worker shop:app --burst --url file:///var/lib/shop/jobs

\b
Signals:
  the first TERM or INT lets the running jobs end, the second stops now
"""
)
@click.argument("app_name", metavar="MODULE:ATTR")
@click.option(
    "-q",
    "--queue",
    "queues",
    metavar="QUEUE,...",
    multiple=True,
    help="Serve these, the first named first.  [default: all that the tasks name]",
)
@click.option(
    "--threads",
    type=int,
    metavar="N",
    default=_DEFAULTS.threads,
    show_default=True,
    help="Jobs to run at once.",
)
@click.option("--burst", is_flag=True, help="Stop once nothing is due and nothing runs.")
@click.option(
    "--drain-timeout",
    "drain_timeout_s",
    type=float,
    metavar="S",
    default=_DEFAULTS.drain_timeout_s,
    show_default=True,
    help="Seconds that a stopping worker lets its jobs run on.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least that is logged, to stderr.",
)
@url_option
def worker(
    *,
    app_name: str,
    queues: tuple[str, ...],
    threads: int,
    burst: bool,
    drain_timeout_s: float,
    log_level: str,
    url: str | None,
) -> None:
    """Run the jobs of the App at MODULE:ATTR until told to stop."""
    options = WorkerOptions(
        queues=tuple(name.strip() for names in queues for name in names.split(",")),
        threads=threads,
        burst=burst,
        drain_timeout_s=drain_timeout_s,
    )
    app = load_app(app_name)
    app_url = choose_url(url, app.url)
    if app_url != app.url:
        app.bind(app_url)
    from bide.worker.worker import Worker

    working = Worker(app, options)
    _log_to_stderr(log_level)
    backend = app.backend
    try:
        with _stopping_on_signals(working):
            output.print_line(
                f"bide worker: {app_name} at {app_url}; queues {', '.join(working.queues)}; "
                f"{threads} threads; tasks {', '.join(sorted(app.tasks))}"
            )
            summary = working.run()
    finally:
        backend.close()
    counts = ", ".join(f"{count} {name}" for name, count in asdict(summary).items())
    output.print_line(f"bide worker ended: {counts}")
    if summary.stuck:
        sys.stdout.flush()
        os._exit(0)  # an exit would join threads that a stuck task has started, and wait for ever


def _log_to_stderr(level: str) -> None:
    """Log what the worker and the tasks log, unless the App's module has set logging up itself."""
    import logging

    class Formatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            # An error may quote what a stranger has sent.
            return printable(super().format(record), keep="\n\t")

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.getLogger("bide").setLevel(level.upper())


@contextlib.contextmanager
def _stopping_on_signals(working: Worker) -> Iterator[None]:
    """A block in which the first signal drains the worker, and the second stops it.

    After it a signal ends the process, whatever may still hold it up.
    """
    signals = itertools.count(1)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        is_second = next(signals) > 1  # in one step: a signal may come while one is handled
        working.stop(now=is_second)
        with contextlib.suppress(OSError):  # not by sys.stderr: this may have interrupted it
            os.write(2, _STOPPING_NOW if is_second else _STOPPING)

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
