"""Apps for tests: in memory, by a clock that stands still."""

import bide
from bide.clock import Clock
from bide.testing import ManualClock


def make_app(clock: Clock | None = None) -> bide.App:
    return bide.App("memory:", clock=clock or ManualClock())
