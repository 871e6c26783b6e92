"""Tables for people: as wide as the terminal at most, in colour only on one.

Where the output is no terminal nothing is cut or folded: a job is a line.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from bide.backends.port import READY_COUNT_MAX, ChannelInfo, JobInfo, QueueStats, Stats
from bide.cli import output
from bide.cli.phrases import call, distance, last_line, moment, printable
from bide.model.job import Job, State
from bide.model.queue import PREPARED_PREFIX

_PIPE_WIDTH = 1 << 20

_STYLES = {
    State.SCHEDULED: "cyan",
    State.READY: "green",
    State.RUNNING: "bold green",
    State.FAILED: "red",
    State.PREPARED: "magenta",
}


def print_stats(stats: Stats) -> None:
    """Three tables: where the jobs are now, how many went which way, and the workers."""
    extra: list[tuple[str, Callable[[QueueStats], Text]]] = []
    if any(queue.prepared for queue in stats.queues):
        extra.append(("PREPARED", lambda queue: _text(queue.prepared)))
    if any(queue.paused for queue in stats.queues):
        extra.append(("PAUSED", lambda queue: _paused(paused=queue.paused)))
    names = [name for name, _ in extra]
    now = _table("QUEUE", "READY", "SCHEDULED", "RUNNING", "FAILED", "NEXT DUE", *names)
    for queue in stats.queues:
        due_ms = queue.next_due_ms
        now.add_row(
            _text(queue.queue),
            _ready(queue),
            _text(queue.waiting - queue.ready),
            _text(queue.running),
            _text(queue.failed, "red" if queue.failed else ""),
            _text("-" if due_ms is None else distance(due_ms - stats.now_ms)),
            *(show(queue) for _, show in extra),
        )
    ever = _table("QUEUE", "PUT", "SUCCEEDED", "FAILED", "CANCELLED", "PUT OFF")
    for queue in stats.queues:
        totals = (
            queue.put_total,
            queue.succeeded_total,
            queue.failed_total,
            queue.cancelled_total,
            queue.rescheduled_total,
        )
        ever.add_row(_text(queue.queue), *map(_text, totals))
    workers = _table("WORKER", "HOST", "PID", "STARTED", "QUEUES")
    for owner in stats.owners:
        workers.add_row(
            _text(owner.id),
            _text(owner.host),
            _text(owner.pid),
            _text(moment(owner.started_ms, stats.now_ms)),
            _text(", ".join(owner.queues)),
        )
    _print(
        _titled("Now", now, "no job was ever put here"),
        _titled("So far", ever, ""),
        _titled("Workers", workers, "no worker is known"),
    )


def print_channels(channels: Sequence[ChannelInfo]) -> None:
    """One line for each channel."""
    table = _table("TOPIC", "CHANNEL", "WAITING", "RUNNING", "FAILED", "PAUSED")
    for info in channels:
        table.add_row(
            _text(info.topic),
            _text(info.channel),
            _text(info.waiting),
            _text(info.running),
            _text(info.failed, "red" if info.failed else ""),
            _text("dropped", "red") if info.dropped else _paused(paused=info.paused),
        )
    _print(table)


def print_jobs(jobs: Sequence[JobInfo], now_ms: int) -> None:
    """One line for each job that waits or runs; what is so for none of them has no column."""
    extra: list[tuple[str, Callable[[Job], object]]] = []
    if any(info.job.priority for info in jobs):
        extra.append(("PRIORITY", lambda job: job.priority))
    if any(info.job.attempt for info in jobs):
        extra.append(("ATTEMPTS", _attempts))
    if any(info.job.key is not None for info in jobs):
        extra.append(("KEY", lambda job: "-" if job.key is None else job.key))
    table = _table("JOB", "STATE", "QUEUE", "DUE", "CALL", *(name for name, _ in extra))
    for info in jobs:
        job = info.job
        table.add_row(
            _text(job.id),
            _text(info.state, _STYLES[info.state]),
            _text(job.queue.removeprefix(PREPARED_PREFIX)),
            _text(moment(job.due_ms, now_ms, precision="minutes")),
            _cut(call(job.task, job.args)),
            *(_text(value(job)) for _, value in extra),
        )
    _print(table)


def print_failed(jobs: Sequence[JobInfo], now_ms: int) -> None:
    """One line for each job that failed for good, with its last error."""
    table = _table("JOB", "TASK", "ATTEMPTS", "WHEN", "ERROR")
    for info in jobs:
        job = info.job
        table.add_row(
            _text(job.id),
            _text(job.task),
            _text(job.attempt),
            _text(moment(job.failed_ms, now_ms, precision="minutes")),
            _text(last_line(job.errors[-1].text) if job.errors else "-", "red"),
        )
    _print(table)


def print_job(info: JobInfo, now_ms: int) -> None:
    """All that is known of one job."""
    job, owner = info.job, info.owner
    rows = [
        ("job", _text(job.id)),
        ("state", _text(info.state, _STYLES[info.state])),
        ("queue", _text(job.queue.removeprefix(PREPARED_PREFIX))),
        ("key", _text("-" if job.key is None else job.key)),
        ("call", _text(call(job.task, job.args, size_max=None))),
        ("due", _text(moment(job.due_ms, now_ms))),
        ("put", _text(moment(job.put_ms, now_ms))),
        ("priority", _text(job.priority)),
        ("attempts", _text(_attempts(job))),
        ("timeout", _text(f"{job.timeout_ms / 1_000:g} s" if job.timeout_ms else "-")),
    ]
    if job.snoozes:
        rows.append(("snoozed", _text(f"{job.snoozes} times")))
    if job.failed_ms is not None:
        rows.append(("failed", _text(moment(job.failed_ms, now_ms))))
    if owner is not None:
        where = f"worker {owner.id}, pid {owner.pid} on {owner.host}"
        rows.append(("run by", _text(where)))
    for error in job.errors:
        title = f"attempt {error.attempt} ended {moment(error.at_ms, now_ms)}"
        text = Text(printable(error.text.rstrip(), keep="\n"), style="red")
        rows.append(("error", Text(title + "\n") + text))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, value)
    _print(grid)


_FOLDED = {"QUEUE", "CALL", "KEY", "TASK", "ERROR", "HOST", "QUEUES", "TOPIC", "CHANNEL"}
_LEFT = {*_FOLDED, "STATE", "NEXT DUE", "DUE", "WHEN", "STARTED", "PAUSED"}


def _table(*names: str) -> Table:
    """A table whose columns of text give way when the terminal is narrow, and no others."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in names:
        table.add_column(
            name,
            no_wrap=name not in _FOLDED,
            overflow="fold",
            justify="left" if name in _LEFT else "right",
        )
    return table


def _titled(title: str, table: Table, empty: str) -> Table | Text:
    if not table.row_count:
        return Text(empty)
    table.title, table.title_justify, table.title_style = title, "left", Style(italic=True)
    return table


def _paused(*, paused: bool) -> Text:
    return _text("paused", "yellow") if paused else _text("-")


def _ready(queue: QueueStats) -> Text:
    more = "+" if queue.ready == READY_COUNT_MAX else ""
    return _text(f"{queue.ready}{more}", "green" if queue.ready else "")


def _text(value: object, style: str = "") -> Text:
    """A cell. Never markup: a key may be called ``[red]``."""
    return Text(printable(str(value)), style=style)


def _cut(text: str) -> Text:
    """A cell that keeps to one line, however narrow its column."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def _attempts(job: Job) -> str:
    return f"{job.attempt} of {job.max_retries + 1}"


def _print(*parts: Table | Text) -> None:
    # Drawn in memory: rich has an idea of its own of what becomes of a broken pipe.
    stdout, picture = Console(), io.StringIO()
    if stdout.is_terminal:
        console = Console(
            file=picture,
            width=stdout.width,
            force_terminal=True,
            color_system=stdout.color_system,  # type: ignore[arg-type]  # what it says itself
        )
    else:
        console = Console(file=picture, width=_PIPE_WIDTH, force_terminal=False)
    for part in _separated(parts):
        console.print(part, highlight=False)
    output.print_line("\n".join(line.rstrip() for line in picture.getvalue().splitlines()))


def _separated(parts: Iterable[Table | Text]) -> Iterable[Table | Text]:
    shown = [part for part in parts if not (isinstance(part, Text) and not part.plain)]
    for index, part in enumerate(shown):
        if index:
            yield Text("")
        yield part
