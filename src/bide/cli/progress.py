"""How far a long command has come: a bar on stderr, if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bide.cli.phrases import printable


@contextlib.contextmanager
def count_bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A block that is shown as a bar; it is given a function that tells of *n* more steps."""
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(title), total=total)
        yield lambda count: bar.advance(task, count)
