"""The flights, as the file has them, their times in UTC."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

FILE = Path(__file__).with_name("nyc_flights_2013.csv.gz")
YEAR = 2013
NEW_YORK = ZoneInfo("America/New_York")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight:
    """A scheduled departure, and how it really went."""

    key: str
    """Names it in the whole file: month, day, carrier, number and origin."""
    name: str
    origin: str
    dest: str
    departs: datetime
    """When it was scheduled to, in UTC: there, a timedelta is always as long as it says."""
    delay_min: int | None
    """How much later it left, in minutes; negative: earlier; None: it was cancelled."""


def read_flights(first: date, last: date, path: Path = FILE) -> list[Flight]:
    """The flights scheduled on the local days from *first* to *last*, in order of departure."""
    with gzip.open(path, "rt", encoding="ascii", newline="") as file:
        return parse_flights(file, first, last)


def parse_flights(lines: Iterable[str], first: date, last: date) -> list[Flight]:
    """As `read_flights`, from the lines of a file, the first of which names the columns."""
    flights = []
    for row in csv.DictReader(lines):
        day = date(YEAR, int(row["month"]), int(row["day"]))
        if first <= day <= last:
            flights.append(_flight(day, row))
    return sorted(flights, key=lambda flight: (flight.departs, flight.key))


def _flight(day: date, row: dict[str, str]) -> Flight:
    carrier, number, origin = row["carrier"], row["flight"], row["origin"]
    return Flight(
        key=f"{day.month}-{day.day}-{carrier}-{number}-{origin}",
        name=f"{carrier} {number}",
        origin=origin,
        dest=row["dest"],
        departs=utc_of(day, int(row["sched_dep_time"])),
        delay_min=int(row["dep_delay_min"]) if row["dep_delay_min"] else None,
    )


def utc_of(day: date, hhmm: int) -> datetime:
    """A New York day and time of day, such as 1545, in UTC.

    In the hour that comes twice when the clocks go back, the first is meant.

    Raises:
        ValueError: It is in the hour that is left out when they go forward:
            no flight can be scheduled then, so the file would be wrong.
    """
    hour, minute = divmod(hhmm, 100)
    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=NEW_YORK, fold=0)
    utc = local.astimezone(UTC)
    if utc.astimezone(NEW_YORK).replace(tzinfo=None) != local.replace(tzinfo=None):
        raise ValueError(f"{day} {hour:02}:{minute:02} does not exist in New York")
    return utc
