"""One clock for all processes of a replay: three numbers, handed on in the environment."""

from __future__ import annotations

from collections.abc import Mapping

import bide

START_MS, RATE, ORIGIN_NS = "FLIGHTS_START_MS", "FLIGHTS_RATE", "FLIGHTS_ORIGIN_NS"


def clock_from(environ: Mapping[str, str]) -> bide.Clock:
    """The clock of the replay that this process is part of; else the machine's."""
    if START_MS not in environ:
        return bide.SystemClock()
    return bide.ScaledClock(
        start_ms=int(environ[START_MS]),
        rate=float(environ[RATE]),
        origin_ns=int(environ[ORIGIN_NS]),
    )


def environ_of(clock: bide.ScaledClock) -> dict[str, str]:
    """What a process needs in its environment for `clock_from` to give it this clock."""
    return {
        START_MS: str(clock.start_ms),
        RATE: repr(clock.rate),  # every digit: a float read back is the same
        ORIGIN_NS: str(clock.origin_ns),
    }
