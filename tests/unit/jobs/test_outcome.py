"""What a task can say of its run."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from bide import Cancel, Fail, Retry, Snooze, TaskTimeout
from bide.errors import InvalidDelay


def test_a_retry_has_a_delay_of_its_own_or_the_tasks() -> None:
    assert Retry().delay_ms is None
    assert Retry(0).delay_ms == 0
    assert Retry(delay=1.5, reason="busy").delay_ms == 1_500
    assert Retry(timedelta(minutes=1)).delay_ms == 60_000
    assert "busy" in str(Retry(reason="busy"))


def test_a_snooze_has_a_delay() -> None:
    assert Snooze(60).delay_ms == 60_000
    assert Snooze(delay=timedelta(days=1)).delay_ms == 86_400_000


@pytest.mark.parametrize("delay", [-1, math.nan, math.inf, 1e18, True, "5"])
@pytest.mark.parametrize("kind", [Retry, Snooze])
def test_refused_delays(kind: Any, delay: Any) -> None:
    with pytest.raises(InvalidDelay):
        kind(delay=delay)


def test_reasons_are_kept() -> None:
    assert Cancel("no longer wanted").reason == str(Cancel("no longer wanted"))
    assert Fail("hopeless").reason == "hopeless"


def test_a_timeout_is_not_caught_by_mistake() -> None:
    assert not issubclass(TaskTimeout, Exception)
    for kind in (Retry, Snooze, Cancel, Fail):
        assert issubclass(kind, Exception)
