"""``python -m bench.compare``: a quick run against the one in ``results.json``; what got slower?

Machines differ, so each figure is taken as a ratio to the raw engine of its own
run. It counts as slower if the median is, by more than a tenth, and if not
even the best round of now comes up to the worst of then. Exit code 1 if
something is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec
from rich.console import Console

from bench import putting
from bench.__main__ import RESULTS, run
from bench.report import Document, number
from bench.series import Series, Summary
from bench.sizes import QUICK

SLOWER = 0.9

_HIGHER_IS_BETTER = {"jobs/s"}
_LOWER_IS_BETTER = {"us", "ms", "MiB"}
_DISK_BOUND = (putting.SINGLE, putting.THREADED)
"""Held against the raw engine that waits for the disk as often."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A figure then and now, as ratios to the raw engine; of times and sizes, the inverse."""

    name: str
    before: float
    now: float
    is_slower: bool


def compare(before: Sequence[Summary], now: Sequence[Summary]) -> tuple[list[Change], list[str]]:
    """What both runs have measured; and the names that the later one lacks."""
    then, current = _by_name(before), _by_name(now)
    missing = [_title(one) for key, one in then.items() if key not in current]
    changes = [
        _change(then, current, key)
        for key, one in current.items()
        if key in then and _is_judged(one) and then[key].min > 0 and one.min > 0
    ]
    return changes, missing


def _by_name(figures: Sequence[Summary]) -> dict[tuple[str, str | None], Summary]:
    return {(figure.name, figure.sync): figure for figure in figures}


def _is_judged(figure: Summary) -> bool:
    is_known = figure.unit in _HIGHER_IS_BETTER | _LOWER_IS_BETTER
    return is_known and not figure.name.startswith(("raw engine", "disk"))


def _change(
    then: dict[tuple[str, str | None], Summary],
    now: dict[tuple[str, str | None], Summary],
    key: tuple[str, str | None],
) -> Change:
    is_disk_bound = key in {_key(series) for series in _DISK_BOUND}
    raw = _key(putting.RAW_SINGLE if is_disk_bound else putting.RAW_MANY)
    before, current = _Ratios(then[key], then[raw]), _Ratios(now[key], now[raw])
    return Change(
        name=_title(now[key]),
        before=before.median,
        now=current.median,
        is_slower=current.median < SLOWER * before.median and current.best < before.worst,
    )


class _Ratios:
    """A figure's rounds to the raw engine, higher being better."""

    def __init__(self, figure: Summary, raw: Summary) -> None:
        rate = raw.median
        if figure.unit in _HIGHER_IS_BETTER:
            self.median, self.worst, self.best = (
                value / rate for value in (figure.median, figure.min, figure.max)
            )
        else:  # as the machine gets faster, times shrink and rates grow
            self.median, self.worst, self.best = (
                1 / (value * rate) for value in (figure.median, figure.max, figure.min)
            )


def _key(series: Series) -> tuple[str, str | None]:
    return series.name, series.sync


def _title(figure: Summary) -> str:
    return f"{figure.name}, sync={figure.sync}" if figure.sync else figure.name


def main() -> int:
    console = Console()
    document = msgspec.json.decode(RESULTS.read_bytes(), type=Document)
    if not document.quick:
        console.print(f"{RESULTS.name} has no quick run to compare with: make bench")
        return 2
    changes, missing = compare(document.quick, run(QUICK, console).figures)
    for change in changes:
        share = change.now / change.before
        mark = "SLOWER" if change.is_slower else "      "
        console.print(f"{mark} {number(share)} of before: {change.name}", highlight=False)
    for name in missing:
        console.print(f"not measured any more: {name}", highlight=False)
    slower = [change.name for change in changes if change.is_slower]
    console.print(f"{len(changes)} figures compared, {len(slower)} slower by more than a tenth")
    return int(bool(slower or missing))


if __name__ == "__main__":
    sys.exit(main())
