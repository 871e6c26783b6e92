"""What is seen of a replay while it runs: a live board on a terminal, else a line now and then."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.flights.data import NEW_YORK, Flight

NEXT_SHOWN = 8
"""How many departures the board shows."""

BAR_WIDTH = 30
BOARD_WIDTH = 80


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker process, as it is shown."""

    number: int
    pid: int
    runs: int
    was_killed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A moment of a replay."""

    now_ms: int
    put: int
    flights: int
    boarded: int
    boardings: int
    """How many will have boarded at the end."""
    jobs_per_s: float
    p50_ms: float
    p99_ms: float
    departures: Sequence[tuple[int, Flight]]
    """The next flights, each with when it boards, in Unix ms."""
    workers: Sequence[WorkerState]


class Screen(AbstractContextManager["Screen"], Protocol):
    """Shows a replay."""

    interval_s: float
    """How often it wants a scene."""

    def show(self, scene: Scene) -> None: ...
    def say(self, text: str) -> None: ...


def open_screen() -> Screen:
    """The screen for wherever the output goes."""
    console = Console()
    return LiveScreen(console) if console.is_terminal else PlainScreen()


class PlainScreen:
    """A line every few seconds, for files and pipes."""

    interval_s = 5.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left open."""

    def show(self, scene: Scene) -> None:
        self.say(
            f"{local_time(scene.now_ms)}  boarded {scene.boarded:,} of {scene.boardings:,}  "
            f"{scene.jobs_per_s:,.0f} jobs/s  {lateness(scene)}".rstrip()
        )

    def say(self, text: str) -> None:
        print(text, flush=True)


class LiveScreen:
    """The departures board, drawn anew five times a second."""

    interval_s = 0.2

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._said: list[str] = []

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, at)

    def show(self, scene: Scene) -> None:
        self._live.update(draw(scene, self._said), refresh=True)

    def say(self, text: str) -> None:
        self._said.append(text)


def local_time(at_ms: int) -> str:
    """A moment as New York's calendars and clocks have it."""
    return f"{datetime.fromtimestamp(at_ms / 1000, tz=NEW_YORK):%a %d %b %H:%M}"


def lateness(scene: Scene) -> str:
    """How late the boardings were so far; empty before the first."""
    if not scene.boarded:
        return ""
    return f"late p50 {scene.p50_ms:.1f} ms, p99 {scene.p99_ms:.1f} ms"


def remark(flight: Flight) -> Text:
    """What the board says beside a flight."""
    match flight.delay_min:
        case None:
            return Text("cancelled", "bold red")
        case 0:
            return Text("on time", "green")
        case minutes if minutes < 0:
            return Text(f"{-minutes} min early", "cyan")
        case minutes:
            return Text(f"{minutes} min late", "yellow")


def draw(scene: Scene, said: Sequence[str]) -> Group:
    """The whole board."""
    head = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=scene.boardings, completed=scene.boarded, width=BAR_WIDTH)
    head.add_row(
        Text(local_time(scene.now_ms), "bold"),
        bar,
        f"boarded {scene.boarded:,} of {scene.boardings:,}",
    )
    numbers = Text(
        f"{scene.put:,} of {scene.flights:,} flights put   {scene.jobs_per_s:,.0f} jobs/s   "
        f"{lateness(scene)}"
    )
    return Group(
        Panel(
            Group(head, numbers, Text(), _departures(scene), Text(), _workers(scene)),
            title="A month of departures from New York",
            width=BOARD_WIDTH,
        ),
        *(Text(text, "magenta") for text in said),
    )


def _departures(scene: Scene) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for column in ("Boards", "Flight", "From", "To", "Remarks"):
        table.add_column(column)
    for at_ms, flight in scene.departures:
        table.add_row(local_time(at_ms), flight.name, flight.origin, flight.dest, remark(flight))
    for _ in range(NEXT_SHOWN - len(scene.departures)):
        table.add_row()
    return table


def _workers(scene: Scene) -> Table:
    table = Table.grid(padding=(0, 2))
    for worker in scene.workers:
        state = Text("killed", "bold red") if worker.was_killed else Text("works", "green")
        table.add_row(
            f"  worker {worker.number}", f"pid {worker.pid}", state, f"{worker.runs:,} jobs run"
        )
    return table
