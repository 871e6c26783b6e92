"""``python -m bench.peers``: bide beside the queues that people would otherwise use.

``--rounds`` and ``--only`` say how often, and who; ``--json`` prints one document.
``--lock`` measures nothing: it installs the newest of what the peers need in their
turn, and writes down what that was.
"""

from __future__ import annotations

import argparse
import sys

import msgspec
from rich.console import Console

from bench.peers.catalog import VARIANTS
from bench.peers.environment import LOCK, freeze, make_environment
from bench.peers.report import peer_table, ratio_lines, worker_lines
from bench.peers.run import measure_peers

_INSTALLERS = ("pip==", "setuptools==")
_LOCK_HEAD = "# All that the peers need, made by python -m bench.peers --lock from peers.txt."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lock", action="store_true")
    options = parser.parse_args()

    def tell(line: str) -> None:
        print(line, file=sys.stderr)

    if options.lock:
        LOCK.unlink(missing_ok=True)
        environment = make_environment(tell)
        pins = [pin for pin in freeze(environment.python) if not pin.startswith(_INSTALLERS)]
        LOCK.write_text("\n".join([_LOCK_HEAD, *pins]) + "\n")
        return
    parts = options.only or [""]
    chosen = tuple(one for one in VARIANTS if any(part in one.name for part in parts))
    results = measure_peers(options.rounds, tell, variants=chosen)
    if options.json:
        print(msgspec.json.encode(results).decode())
        return
    console = Console()
    if not console.is_terminal:
        console.width = 140
    console.print(peer_table(results))
    for line in (*worker_lines(results), *ratio_lines(results)):
        console.print(line, highlight=False)


if __name__ == "__main__":
    main()
