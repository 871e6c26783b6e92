"""``python -m tests.sim``: simulate worlds from seeds; ``--seed`` and ``--steps`` replay one.

Without a seed: fresh ones for about a minute. A failure is told with the
shortest script that was found to lead to it, and how to replay it.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.sim.running import STEPS, Failure, run, shrink

SECONDS = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this one")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"steps of each (default {STEPS})")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long, without a seed")
    options = parser.parse_args()
    if options.seed is not None:
        failure = run(options.seed, options.steps)
        if failure is not None:
            _tell(failure)
        print(f"seed={options.seed} steps={options.steps}: {'failed' if failure else 'clean'}")
        return int(failure is not None)
    until_s = time.monotonic() + options.seconds
    seeds = random.Random()
    count = failed = 0
    while time.monotonic() < until_s:
        failure = run(seeds.getrandbits(32), options.steps)
        count += 1
        if failure is not None:
            failed += 1
            _tell(failure)
    print(f"{count} worlds of {options.steps} steps: {failed} failed")
    return int(failed > 0)


def _tell(failure: Failure) -> None:
    print(
        f"\nFAILED: {failure.text}\nreplay: make sim SEED={failure.seed} STEPS={failure.step_count}"
    )
    short = shrink(failure)
    print(
        f"shortest script found, {len(short.numbers)} of {failure.step_count} steps: {short.text}"
    )
    for line in short.told:
        print("  " + line)


if __name__ == "__main__":
    sys.exit(main())
