"""For the tests of programs that use bide, and of backends: a clock to move, a suite to pass."""

from __future__ import annotations

from bide.testing.clock import ManualClock
from bide.testing.conformance import CHECKS, DEATH_CHECKS, check_backend, run_check
from bide.testing.trial import Trial

__all__ = ["CHECKS", "DEATH_CHECKS", "ManualClock", "Trial", "check_backend", "run_check"]
