"""The conformance suite: what it means to be a `bide.backends.port.Backend`.

Each check is a function of a fresh `Trial`, and says by an AssertionError
what does not hold. To run them all, give `check_backend` a function that
opens the backend on an empty store; to run each as a test of its own, let
the test runner go through `CHECKS`::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check):
        run_check(check, open_backend)
"""

from __future__ import annotations

from collections.abc import Callable

from bide.testing import (
    check_change,
    check_channel,
    check_look,
    check_order,
    check_owner,
    check_prepared,
    check_put,
    check_queue,
    check_settle,
)
from bide.testing.trial import Kill, OpenBackend, Trial, begin_trial

Check = Callable[[Trial], None]

DEATH_CHECKS: tuple[Check, ...] = check_owner.DEATH_CHECKS
"""Those of `CHECKS` that need a way to kill a worker."""

CHECKS: tuple[Check, ...] = (
    *check_put.CHECKS,
    *check_order.CHECKS,
    *check_settle.CHECKS,
    *check_change.CHECKS,
    *check_look.CHECKS,
    *check_queue.CHECKS,
    *check_channel.CHECKS,
    *check_prepared.CHECKS,
    *check_owner.CHECKS,
    *DEATH_CHECKS,
)


def check_backend(open_backend: OpenBackend, *, kill: Kill | None = None) -> None:
    """Run the whole suite.

    Args:
        open_backend: Opens the backend on an empty store, anew at each call,
            with the clock that it is given.
        kill: Ends a worker as if its process had been killed. None: the
            checks of `DEATH_CHECKS` are left out, and are to be made with
            real processes instead.

    Raises:
        AssertionError: What does not hold, at the first check that fails.
    """
    for check in CHECKS:
        if kill is not None or check not in DEATH_CHECKS:
            run_check(check, open_backend, kill=kill)


def run_check(check: Check, open_backend: OpenBackend, *, kill: Kill | None = None) -> None:
    """Run one check of the suite on a store of its own."""
    if not __debug__:
        raise RuntimeError("the suite is made of assertions: run Python without -O")
    with begin_trial(open_backend, kill) as trial:
        check(trial)
