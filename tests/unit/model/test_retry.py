"""When a failed attempt runs again."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bide.errors import InvalidOption
from bide.model.retry import RetryPolicy, delay_unknown_task_ms
from tests.model.profile import STEADY

units = st.floats(0, 1, exclude_max=True)
backoffs = st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)).map(sorted)


@pytest.mark.parametrize(
    "attempt, delay", [(1, 1_000), (2, 2_000), (3, 4_000), (12, 2_048_000), (13, 3_600_000)]
)
def test_delays_double_up_to_an_hour(attempt: int, delay: int) -> None:
    assert RetryPolicy().delay_ms(attempt, 0.0) == delay


@given(backoffs, st.floats(0, 1), st.integers(1, 70_000), units)
@STEADY
def test_a_delay_lies_between_the_cap_and_what_jitter_leaves(
    bounds: list[int], jitter: float, attempt: int, unit: float
) -> None:
    low, high = bounds
    policy = RetryPolicy(backoff_ms=low, backoff_ms_max=high, jitter=jitter)
    delay = policy.delay_ms(attempt, unit)
    assert isinstance(delay, int)
    full = policy.delay_ms(attempt, 0.0)
    assert full <= high
    assert full >= min(low, high)
    assert math.floor(full * (1 - jitter)) <= delay <= full


@given(backoffs, st.integers(1, 100))
@STEADY
def test_without_jitter_delays_never_shrink(bounds: list[int], attempt: int) -> None:
    policy = RetryPolicy(backoff_ms=bounds[0], backoff_ms_max=bounds[1], jitter=0)
    assert policy.delay_ms(attempt, 0.9) <= policy.delay_ms(attempt + 1, 0.1)


def test_jitter_spreads() -> None:
    policy = RetryPolicy(jitter=0.5)
    assert policy.delay_ms(1, 0.0) == 1_000
    assert policy.delay_ms(1, 0.999999) == 500
    assert RetryPolicy(jitter=0).delay_ms(1, 0.7) == 1_000


@pytest.mark.parametrize(
    "options",
    [
        {"backoff_ms": -1},
        {"backoff_ms": 2, "backoff_ms_max": 1},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": math.nan},
        {"jitter": math.inf},
    ],
)
def test_refused_policies(options: dict[str, int]) -> None:
    with pytest.raises(InvalidOption):
        RetryPolicy(**options)


def test_an_unknown_task_is_waited_for_longer_and_longer() -> None:
    delays = [delay_unknown_task_ms(snoozes) for snoozes in range(100)]
    assert delays[:3] == [10_000, 20_000, 40_000]
    assert delays == sorted(delays)
    assert delays[-1] == 900_000
    assert sum(delays) > 12 * 3_600_000, "a rolling deploy has half a day at least"
