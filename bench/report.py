"""What a run tells: a table that fills as it goes, and ``results.json``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table

from bench.machine import Machine
from bench.peers.report import PeerVerdict
from bench.peers.run import PeerResults
from bench.plan import COMPARISONS, GOALS
from bench.series import Results, Series, Summary, Verdict
from bench.sizes import Sizes

_EXACT_BELOW = 100
_FRAME_HEIGHT = 6
"""Lines of a table that are not its rows."""


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the times lay below each bound, and not below the one before."""

    bounds_ms: tuple[float, ...]
    counts: tuple[int, ...]


BOUNDS_MS = tuple(round(0.05 * 2 ** (step / 2), 4) for step in range(30))
"""Two for each doubling, from 0.05 ms to a second and more; what is above is in the last."""


def histogram(times_ms: Sequence[float]) -> Histogram:
    counts = [0] * len(BOUNDS_MS)
    for time_ms in times_ms:
        counts[min(bisect_right(BOUNDS_MS, time_ms), len(counts) - 1)] += 1
    return Histogram(bounds_ms=BOUNDS_MS, counts=tuple(counts))


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``results.json``."""

    sizes: Sizes
    took_s: float
    machine: Machine
    figures: list[Summary]
    ratios: list[Summary]
    goals: list[Verdict]
    peers: PeerResults | None = None
    """None: they were left out."""
    peer_goals: list[PeerVerdict] = []
    histograms: dict[str, Histogram] = {}
    quick: list[Summary] = []
    """The figures of a quick run, for later ones to be held against."""


class Progress:
    """Shows each value as it comes: in a table on a terminal, else on a line."""

    def __init__(self, console: Console, results: Results) -> None:
        self._console = console
        self._results = results
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, auto_refresh=False, transient=True)

    def start(self) -> None:
        if self._live is not None:
            self._live.start()

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, series: Series, value: float, round_number: int) -> None:
        if self._live is None:
            mode = f", sync={series.sync}" if series.sync else ""
            text = f"round {round_number}: {series.name}{mode}: {number(value)} {series.unit}"
            self._console.print(text, highlight=False, soft_wrap=True)
        else:
            figures = self._results.figures()
            end = 1 + [(figure.name, figure.sync) for figure in figures].index(
                (series.name, series.sync)
            )
            height = max(1, self._console.height - _FRAME_HEIGHT)
            shown = figures[max(0, end - height) : max(end, height)]
            self._live.update(summary_table(f"Round {round_number}", shown), refresh=True)


def summary_table(title: str, summaries: Sequence[Summary]) -> Table:
    """A row for each summary."""
    table = Table(title=title, title_justify="left")
    for heading in ("figure", "sync"):
        table.add_column(heading)
    for heading in ("median", "min .. max"):
        table.add_column(heading, justify="right")
    table.add_column("unit")
    for s in summaries:
        spread = f"{number(s.min)} .. {number(s.max)}"
        table.add_row(s.name, s.sync or "-", number(s.median), spread, s.unit)
    return table


def verdict_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """A line for each goal."""
    lines: list[str] = []
    for v in verdicts:
        name = f"{v.name}, sync={v.sync}" if v.sync else v.name
        bound = f"at least {v.at_least:,}" if v.at_least is not None else f"at most {v.at_most:,}"
        reached = "yes" if v.reached else "no"
        lines.append(f"{name}: {number(v.value)} {v.unit}; goal: {bound}; reached: {reached}")
    return lines


def conclude(
    results: Results,
    *,
    sizes: Sizes,
    took_s: float,
    machine: Machine,
    samples: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> Document:
    """All that a run has to say, once each series has a value from each round."""
    measured = {(figure.name, figure.sync) for figure in results.figures()}

    def has(series: Series) -> bool:
        return (series.name, series.sync) in measured

    compared = [c for c in COMPARISONS if has(c.of) and has(c.to)]
    reachable = [g for g in GOALS if g.of in compared or (isinstance(g.of, Series) and has(g.of))]
    return Document(
        sizes=sizes,
        took_s=round(took_s, 1),
        machine=machine,
        figures=results.figures(),
        ratios=[results.summary(comparison) for comparison in compared],
        goals=[results.verdict(goal) for goal in reachable],
        histograms={name: histogram(times_ms) for name, times_ms in samples.items()},
    )


def write_document(document: Document, path: Path) -> None:
    """Write it for programs, and for a person who compares two of them."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=2)
    path.write_bytes(text + b"\n")


def number(value: float) -> str:
    """A value as a person reads it: three digits that count, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= _EXACT_BELOW else f"{value:.3g}"
