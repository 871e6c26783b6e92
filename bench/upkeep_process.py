"""``python -m bench.upkeep_process PATH``: round after round of upkeep, until stdin closes."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from bide import SystemClock
from bide.backends.local import open_upkeep


def main() -> None:
    done = threading.Event()

    def watch() -> None:
        sys.stdin.buffer.read()
        done.set()

    threading.Thread(target=watch, daemon=True).start()
    count = 0
    with open_upkeep(Path(sys.argv[1]), SystemClock()) as upkeep:
        while not done.is_set():
            upkeep.run(compact=True)
            count += 1
            print(count, flush=True)


if __name__ == "__main__":
    main()
