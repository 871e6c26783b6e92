"""What is measured, how often, and what one can say of it in the end."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from bench.scene import Scene
from bide.backends.port import Sync


class Series(msgspec.Struct, frozen=True):
    """A thing to measure, once in each round. Its name and *sync* tell it from all others."""

    name: str
    unit: str
    sync: Sync | None = None
    """What a put or settlement waited for; None: nothing was put."""


Measurement = Callable[[Scene], Iterator[tuple[Series, float]]]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The rounds of a series in short."""

    name: str
    unit: str
    sync: Sync | None = None
    median: float
    min: float
    max: float
    rounds: tuple[float, ...]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A series against another one, round by round."""

    name: str
    of: Series
    to: Series
    how: Literal["ratio", "difference"] = "ratio"

    @property
    def unit(self) -> str:
        return "times" if self.how == "ratio" else self.of.unit


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """What the median of a series or comparison ought to be."""

    of: Series | Comparison
    at_least: float | None = None
    at_most: float | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How a goal fared."""

    name: str
    sync: Sync | None
    unit: str
    value: float
    at_least: float | None
    at_most: float | None
    reached: bool


class Results:
    """The values of each series, in order of arrival."""

    def __init__(self) -> None:
        self._values: dict[Series, list[float]] = {}

    def add(self, series: Series, value: float) -> None:
        self._values.setdefault(series, []).append(value)

    def figures(self) -> list[Summary]:
        return [self.summary(series) for series in self._values]

    def summary(self, of: Series | Comparison) -> Summary:
        values = self._of(of)
        return Summary(
            name=of.name,
            unit=of.unit,
            sync=of.sync if isinstance(of, Series) else None,
            median=statistics.median(values),
            min=min(values),
            max=max(values),
            rounds=tuple(values),
        )

    def verdict(self, goal: Goal) -> Verdict:
        summary = self.summary(goal.of)
        low = -math.inf if goal.at_least is None else goal.at_least
        high = math.inf if goal.at_most is None else goal.at_most
        return Verdict(
            name=summary.name,
            sync=summary.sync,
            unit=summary.unit,
            value=summary.median,
            at_least=goal.at_least,
            at_most=goal.at_most,
            reached=low <= summary.median <= high,
        )

    def _of(self, of: Series | Comparison) -> list[float]:
        if isinstance(of, Series):
            return self._values[of]
        pairs = zip(self._values[of.of], self._values[of.to], strict=True)
        if of.how == "difference":
            return [value - other for value, other in pairs]
        return [value / other for value, other in pairs]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of *values* that *share* of them do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
