"""`bide.storage.retention`: what goes is exactly what may."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bide.format.state import Retention
from bide.storage.retention import FOLLOWED_SIZE_MAX, first_kept
from tests.model.profile import STEADY


@st.composite
def logs(draw: st.DrawFn) -> dict[str, object]:
    """The arguments of `first_kept`, as a log and those who want it may be."""
    unit = draw(st.sampled_from([1, FOLLOWED_SIZE_MAX // 4]))
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=8))
    start = draw(st.integers(0, 3))
    bases = [(start + sum(sizes[:index])) * unit for index in range(len(sizes))]
    end = bases[-1] + draw(st.integers(0, 5)) * unit
    times = sorted(draw(st.lists(st.integers(0, 20), min_size=len(bases), max_size=len(bases))))
    return {
        "bases": bases,
        "needed": draw(st.sampled_from(bases)),
        "end": end,
        "followed": draw(st.lists(st.integers(0, end // unit).map(lambda n: n * unit), max_size=3)),
        "retention": Retention(
            size=draw(st.integers(0, 12)) * unit, age_ms=draw(st.integers(0, 15))
        ),
        "now_ms": draw(st.integers(times[-1], 30)),
        "times": dict(zip(bases, times, strict=True)),
    }


@given(logs())
@STEADY
def test_what_goes_is_exactly_what_may(log: dict[str, object]) -> None:
    times = log.pop("times")
    assert isinstance(times, dict)
    kept = first_kept(**log, written_ms=times.__getitem__)  # type: ignore[arg-type]
    bases, end, retention = log["bases"], log["end"], log["retention"]
    assert isinstance(bases, list)
    assert isinstance(end, int)
    assert isinstance(retention, Retention)

    def is_wanted(base: int, following: int) -> bool:
        """Whether anyone wants a byte of the segment from *base* up to *following*."""
        last_ms = times[following]  # nothing in it was written later
        return (
            following > log["needed"]  # type: ignore[operator]
            or following > end - retention.size
            or any(
                got < following and end - got <= FOLLOWED_SIZE_MAX
                for got in log["followed"]  # type: ignore[attr-defined]
            )
            or (retention.age_ms > 0 and log["now_ms"] - last_ms < retention.age_ms)
        )

    wanted = [base for base, following in pairwise(bases) if is_wanted(base, following)]
    assert kept == min([*wanted, bases[-1]])


def test_the_only_segment_stays() -> None:
    assert (
        first_kept(
            [7],
            needed=7,
            end=7,
            followed=(),
            retention=Retention(),
            now_ms=0,
            written_ms=lambda _: 0,
        )
        == 7
    )


def test_a_follower_far_behind_keeps_nothing() -> None:
    for got, kept in [(0, 20), (10, 10), (15, 10), (20, 20)]:
        found = first_kept(
            [10, 20],
            needed=20,
            end=FOLLOWED_SIZE_MAX + 10,
            followed=[got],
            retention=Retention(),
            now_ms=0,
            written_ms=lambda _: 0,
        )
        assert found == kept, got


def test_no_clock_is_asked_for_without_an_age() -> None:
    def fail(base: int) -> int:
        raise AssertionError(base)

    assert (
        first_kept(
            [0, 5],
            needed=5,
            end=9,
            followed=(),
            retention=Retention(),
            now_ms=0,
            written_ms=fail,
        )
        == 5
    )
