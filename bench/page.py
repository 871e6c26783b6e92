"""``REPORT.md``: what a full run found, for people, with plots."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.peers.environment import Environment
from bench.peers.report import HEADINGS
from bench.peers.run import ACTIONS, PeerResults
from bench.report import Document, number
from bench.series import Summary

_PLOT = Path(__file__).parent / "peers" / "drivers" / "plot.py"
PLOTS = {
    "peers": "Jobs per second beside the peers, on a log scale.",
    "put": "From a put to the start in another process: idle, and beside a load.",
    "lateness": "How late delayed jobs start: idle, and beside a load.",
    "pending": "Costs, rate and memory against the jobs that are pending.",
    "processes": "Rates against the processes that share a store.",
}


def draw_plots(environment: Environment, results: Path, place: Path) -> str:
    """Draw them by the peers' Python; returns why that failed, "" if it did not."""
    command = [str(environment.python), str(_PLOT), str(results), str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def make_page(document: Document, plots: str) -> str:
    """The page's text.

    Args:
        plots: The directory of the plots, as seen from the page; "" for none.
    """
    machine = document.machine
    lines = [
        "# What a run of `make bench` found",
        "",
        f"{machine.at}: {machine.core_count} cores of {machine.cpu}, {machine.kernel}, "
        f"{machine.filesystem}, {machine.python}, "
        + ", ".join(f"{name} {version}" for name, version in machine.libraries.items())
        + f". {document.sizes.rounds} rounds, each figure a median. "
        "Other machines have other figures; the ratios are what can be compared.",
        "",
        "## Goals",
        "",
        *_table(
            ("what", "value", "goal", "reached"),
            [
                *(
                    (
                        f"{v.name}, sync={v.sync}" if v.sync else v.name,
                        f"{number(v.value)} {v.unit}",
                        _bound(v.at_least, v.at_most),
                        "yes" if v.reached else "no",
                    )
                    for v in document.goals
                ),
                *(
                    (
                        f"{v.name} ({v.best})",
                        f"{number(v.value)} times",
                        _bound(v.at_least, None),
                        "yes" if v.reached else "no",
                    )
                    for v in document.peer_goals
                ),
            ],
        ),
        *(_peer_lines(document.peers) if document.peers else []),
        *_plot_lines(plots),
        "## Figures",
        "",
        *_figures(document.figures),
        "## Ratios, within each round",
        "",
        *_figures(document.ratios),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _bound(at_least: float | None, at_most: float | None) -> str:
    return f"at least {at_least:,g}" if at_least is not None else f"at most {at_most:,g}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *rows]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def _figures(figures: Sequence[Summary]) -> list[str]:
    rows = [
        (s.name, s.sync or "-", number(s.median), f"{number(s.min)} .. {number(s.max)}", s.unit)
        for s in figures
    ]
    return _table(("what", "sync", "median", "min .. max", "unit"), rows)


def _peer_lines(peers: PeerResults) -> list[str]:
    heads = ["who", "version", *(HEADINGS[action] for action in ACTIONS), "what is synced"]
    rows: list[list[str]] = []
    for name in dict.fromkeys(figure.name for figure in peers.figures):
        own = {figure.action: figure for figure in peers.figures if figure.name == name}
        one = next(iter(own.values()))
        cells = [number(own[action].median) if action in own else "-" for action in ACTIONS]
        rows.append([name, one.version, *cells, one.policy])
    missing = [f"- {name}: {reason}" for name, reason in peers.missing.items()]
    return [
        "## Beside the peers",
        "",
        "Jobs per second, by the same harness in the same run: the same body, the same task.",
        "",
        *_table(heads, rows),
        *(["Not measured:", "", *missing, ""] if missing else []),
    ]


def _plot_lines(plots: str) -> list[str]:
    if not plots:
        return []
    lines = ["## Plots", ""]
    for name, text in PLOTS.items():
        lines += [f"![{text}]({plots}/{name}.svg)", ""]
    return lines
