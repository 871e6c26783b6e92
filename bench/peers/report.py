"""What the peers' part of a run tells: a table, and bide's ratios to the best of them."""

from __future__ import annotations

import msgspec
from rich.table import Table

from bench.peers.run import ACTIONS, Delay, Figure, PeerResults

HEADINGS = {
    "put": "one by one",
    "put_16": "16 threads",
    "put_many": "in bulk",
    "drain_1": "drained by 1",
    "drain_2": "by 2",
}


class PeerGoal(msgspec.Struct, frozen=True, kw_only=True):
    """bide, in one mode, against the best peer that does as much for a put."""

    name: str
    own: str
    action: str
    is_durable: bool | None
    """Of the peers; None: any."""
    at_least: float


GOALS: tuple[PeerGoal, ...] = (
    PeerGoal(
        name="enqueue_many to the best peer's bulk call, each put synced",
        own="bide, sync=always",
        action="put_many",
        is_durable=True,
        at_least=1.5,
    ),
    PeerGoal(
        name="enqueue_many to the best peer's bulk call, not synced",
        own="bide, sync=interval",
        action="put_many",
        is_durable=False,
        at_least=1.5,
    ),
    PeerGoal(
        name="enqueue, 1 thread, sync=interval, to the best peer",
        own="bide, sync=interval",
        action="put",
        is_durable=False,
        at_least=3,
    ),
    PeerGoal(
        name="enqueue, 16 threads, each put synced, to the best peer",
        own="bide, sync=always",
        action="put_16",
        is_durable=True,
        at_least=5,
    ),
    PeerGoal(
        name="no-op jobs drained by one worker process, to the best peer",
        own="bide, sync=always",
        action="drain_1",
        is_durable=None,
        at_least=10,
    ),
)


class PeerVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """How a goal fared."""

    name: str
    value: float
    best: str
    at_least: float
    reached: bool


def judge(results: PeerResults) -> list[PeerVerdict]:
    """A verdict for each goal that has both sides."""
    verdicts: list[PeerVerdict] = []
    for goal in GOALS:
        own = [f for f in results.figures if f.name == goal.own and f.action == goal.action]
        peers = [
            figure
            for figure in results.figures
            if figure.action == goal.action
            and not figure.is_own
            and goal.is_durable in (None, figure.is_durable)
        ]
        if own and peers:
            best = max(peers, key=lambda figure: figure.median)
            value = own[0].median / best.median
            verdicts.append(
                PeerVerdict(
                    name=goal.name,
                    value=value,
                    best=best.name,
                    at_least=goal.at_least,
                    reached=value >= goal.at_least,
                )
            )
    return verdicts


def peer_table(results: PeerResults) -> Table:
    """A row for each peer: jobs per second, median of the rounds with the spread below it.

    From a put to the start, in ms, stand the p50 and the p99 of all rounds together.
    """
    table = Table(title="Jobs per second, beside the peers", title_justify="left", show_lines=True)
    table.add_column("who")
    for action in ACTIONS:
        table.add_column(HEADINGS[action], justify="right")
    table.add_column("put to start\nms", justify="right")
    table.add_column("what is synced")
    names = dict.fromkeys(figure.name for figure in results.figures)
    delays = {delay.name: delay for delay in results.delays}
    for name in names:
        own = {figure.action: figure for figure in results.figures if figure.name == name}
        one = next(iter(own.values()))
        cells = [*(_cell(own.get(action)) for action in ACTIONS), _delay_cell(delays.get(name))]
        table.add_row(f"{name}\n{one.version}", *cells, one.policy)
    for name, reason in results.missing.items():
        table.add_row(name, *[""] * (len(ACTIONS) + 1), f"not measured: {reason}")
    return table


def worker_lines(results: PeerResults) -> list[str]:
    """How one worker process of each was set up."""
    workers = {figure.name: figure.worker for figure in results.figures if figure.worker}
    return [f"worker of {name}: {worker}" for name, worker in workers.items()]


def ratio_lines(results: PeerResults) -> list[str]:
    return [
        f"{verdict.name} ({verdict.best}): {verdict.value:.3g} times; goal: at least "
        f"{verdict.at_least:g}; reached: {'yes' if verdict.reached else 'no'}"
        for verdict in judge(results)
    ]


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    return f"{figure.median:,.0f}\n{figure.min:,.0f} .. {figure.max:,.0f}"


def _delay_cell(delay: Delay | None) -> str:
    return "-" if delay is None else f"{delay.p50_ms:.3g}\n{delay.p99_ms:.3g}"
