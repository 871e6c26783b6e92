"""``python -m tests.fuzz``: feed each decoder fresh inputs, for a minute in all.

``--target`` names one, ``--hex`` gives it one input again.
"""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.fuzz.running import feed_for, load_targets

SECONDS = 60.0


def main() -> int:
    targets = {target.name: target for target in load_targets()}
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long, in all")
    parser.add_argument("--target", choices=targets, help="this one alone")
    parser.add_argument("--hex", type=bytes.fromhex, help="this input alone")
    options = parser.parse_args()
    if options.hex is not None:
        if options.target is None:
            parser.error("--hex needs --target")
        targets[options.target].check(options.hex)
        print(f"{options.target}: holds")
        return 0
    chosen = [targets[options.target]] if options.target else list(targets.values())
    failed = 0
    for target in chosen:
        count, found = feed_for(target, options.seconds / len(chosen))
        print(f"{target.name}: {count} inputs, {'FAILED' if found else 'holds'}", flush=True)
        if found is not None:
            failed += 1
            print(f"  {target.invariant}")
            traceback.print_exception(found.error)
            again = f"python -m tests.fuzz --target {target.name} --hex {found.data.hex()}"
            print(f"  again: {again}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
