"""``python -m bench``: measure, compare, and say which goals are reached.

``QUICK=1`` in the environment does less of everything, in under half a minute, leaves
out the peers, and leaves ``results.json`` as it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from bench.machine import describe_machine
from bench.page import draw_plots, make_page
from bench.peers.environment import make_environment
from bench.peers.report import judge, peer_table, ratio_lines
from bench.peers.run import measure_peers
from bench.plan import MEASUREMENTS
from bench.report import Document, Progress, conclude, summary_table, verdict_lines, write_document
from bench.scene import ROOT, open_scene
from bench.series import Measurement, Results
from bench.sizes import FULL, QUICK, Sizes

RESULTS = Path(__file__).with_name("results.json")
QUICK_RESULTS = Path(__file__).with_name("quick.json")
PAGE = Path(__file__).with_name("REPORT.md")
PLOTS = Path(__file__).with_name("plots")
PEER_ROUNDS = 2


def run(
    sizes: Sizes,
    console: Console,
    *,
    measurements: Sequence[Measurement] = MEASUREMENTS,
    root: Path = ROOT,
) -> Document:
    """Go through *measurements* in rounds, showing what comes of them."""
    start_s = time.perf_counter()
    machine = describe_machine(root)
    results = Results()
    progress = Progress(console, results)
    progress.start()
    try:
        with open_scene(sizes, root) as scene:
            for round_number in range(1, sizes.rounds + 1):
                for measure in measurements:
                    for series, value in measure(scene):
                        results.add(series, value)
                        progress.show(series, value, round_number)
    finally:
        progress.stop()
    took_s = time.perf_counter() - start_s
    return conclude(results, sizes=sizes, took_s=took_s, machine=machine, samples=scene.samples)


def run_all(console: Console) -> Document:
    """The whole run, its page and its plots."""
    environment = make_environment(console.print)

    def tell(line: str) -> None:
        console.print(line, highlight=False)

    peers = measure_peers(PEER_ROUNDS, tell, environment=environment)
    document = replace(
        run(FULL, console), peers=peers, peer_goals=judge(peers), quick=run(QUICK, console).figures
    )
    write_document(document, RESULTS)
    reason = draw_plots(environment, RESULTS, PLOTS)
    if reason:
        tell(f"no plots: {reason}")
    PAGE.write_text(make_page(document, "" if reason else PLOTS.name))
    return document


def main() -> None:
    quick = os.environ.get("QUICK", "") not in {"", "0"}
    console = Console()
    if quick:
        document = run(QUICK, console)
        write_document(document, QUICK_RESULTS)
    else:
        document = run_all(console)
    where = QUICK_RESULTS if quick else RESULTS
    few, many = document.sizes.delayed_count_few, document.sizes.delayed_count_many
    title = f"Figures of a {document.sizes.name} run; few delayed jobs are {few:,}, many {many:,}"
    if not console.is_terminal:
        console.width = 140
    console.print(summary_table(title, document.figures))
    console.print(summary_table("Ratios, within each round", document.ratios))
    for line in verdict_lines(document.goals):
        console.print(line, highlight=False, soft_wrap=True)
    if document.peers is not None:
        console.print(peer_table(document.peers))
        for line in ratio_lines(document.peers):
            console.print(line, highlight=False, soft_wrap=True)
    console.print(f"{document.took_s:g} s; written to {where.relative_to(ROOT)}", highlight=False)


if __name__ == "__main__":
    main()
