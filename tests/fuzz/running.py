"""Finds the fuzz targets, and feeds them."""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable

import msgspec
from hypothesis import HealthCheck, Phase, given, settings

import tests.fuzz
from tests.fuzz.inputs import Inputs

PREFIX = "fuzz_"


class Target(msgspec.Struct, frozen=True):
    """A decoder's target: a module ``fuzz_NAME``."""

    name: str
    invariant: str
    inputs: Inputs
    check: Callable[[bytes], None]
    """Raises if the invariant does not hold for these bytes."""


class Found(msgspec.Struct, frozen=True):
    """Bytes for which an invariant does not hold, as short as could be found."""

    data: bytes
    error: BaseException


def load_targets() -> list[Target]:
    names = [module.name for module in pkgutil.iter_modules(tests.fuzz.__path__)]
    targets: list[Target] = []
    for name in sorted(names):
        if name.startswith(PREFIX):
            module = importlib.import_module(f"tests.fuzz.{name}")
            invariant = str(module.__doc__).split("\n\n")[0]
            targets.append(
                Target(name.removeprefix(PREFIX), invariant, module.INPUTS, module.check)
            )
    return targets


def feed(target: Target, count: int, *, is_fixed: bool = False) -> Found | None:
    """Feed *target* up to *count* inputs, always the same if *is_fixed*."""
    failing: list[bytes] = []

    @settings(
        max_examples=count,
        deadline=None,
        report_multiple_bugs=False,
        database=None,
        derandomize=is_fixed,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(target.inputs)
    def run(data: bytes) -> None:
        failing[:] = [data]
        target.check(data)

    try:
        run()
    except Exception as error:  # noqa: BLE001  whatever it is, it is not what the target allows
        return Found(failing[0], error)
    return None


def feed_for(target: Target, seconds: float) -> tuple[int, Found | None]:
    """Feed *target* for so long; returns how many inputs it had."""
    until_s = time.monotonic() + seconds
    count, step = 0, 500
    while True:
        found = feed(target, step)
        count += step
        if found is not None or time.monotonic() >= until_s:
            return count, found
