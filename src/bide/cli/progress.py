"""How far long work has come: a bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from bide.cli.phrases import printable

Progress = Callable[[int, int], None]


@contextlib.contextmanager
def byte_bar(what: str) -> Iterator[Progress]:
    """A bar on stderr; call it with the bytes done, and with all there are."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Bar(*columns, TransferSpeedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextlib.contextmanager
def count_bar(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr; call it with how many more are done."""
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(title), total=total)
        yield lambda count: bar.advance(task, count)
