"""``python -m bench.peers``: bide beside the queues that people would otherwise use.

``--rounds`` and ``--only`` say how often, and who; ``--json`` prints one document.
"""

from __future__ import annotations

import argparse
import sys

import msgspec
from rich.console import Console

from bench.peers.catalog import VARIANTS
from bench.peers.report import peer_table, ratio_lines
from bench.peers.run import measure_peers


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    parts = options.only or [""]
    chosen = tuple(one for one in VARIANTS if any(part in one.name for part in parts))

    def tell(line: str) -> None:
        print(line, file=sys.stderr)

    results = measure_peers(options.rounds, tell, variants=chosen)
    if options.json:
        print(msgspec.json.encode(results).decode())
        return
    console = Console()
    if not console.is_terminal:
        console.width = 140
    console.print(peer_table(results))
    for line in ratio_lines(results):
        console.print(line, highlight=False)


if __name__ == "__main__":
    main()
