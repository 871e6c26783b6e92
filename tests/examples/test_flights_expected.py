"""The right answer: the file, local time, and what delays and cancellations make of it."""

from datetime import UTC, date, datetime, timedelta

import pytest

from examples.flights.app import jobs_of
from examples.flights.data import Flight, parse_flights, read_flights, utc_of
from examples.flights.expected import work_out

COLUMNS = "month,day,sched_dep_time,dep_delay_min,carrier,flight,tailnum,origin,dest"
FORWARD = date(2013, 3, 10)  # at 02:00 to 03:00
BACK = date(2013, 11, 3)  # at 02:00 to 01:00


def parse(*rows: str) -> list[Flight]:
    return parse_flights([COLUMNS, *rows], date(2013, 1, 1), date(2013, 12, 31))


def utc_ms(month: int, day: int, hour: int, minute: int) -> int:
    return int(datetime(2013, month, day, hour, minute, tzinfo=UTC).timestamp()) * 1000


@pytest.mark.parametrize(
    "day, hhmm, utc",
    [
        pytest.param(date(2013, 1, 1), 515, "2013-01-01T10:15", id="winter"),
        pytest.param(FORWARD, 159, "2013-03-10T06:59", id="last-minute-of-winter"),
        pytest.param(FORWARD, 300, "2013-03-10T07:00", id="first-minute-of-summer"),
        pytest.param(BACK, 59, "2013-11-03T04:59", id="before-the-hour-that-comes-twice"),
        pytest.param(BACK, 130, "2013-11-03T05:30", id="the-first-of-the-two"),
        pytest.param(BACK, 200, "2013-11-03T07:00", id="after-the-second-of-the-two"),
        pytest.param(date(2013, 1, 31), 2359, "2013-02-01T04:59", id="the-day-after-in-utc"),
    ],
)
def test_local_time_in_utc(day: date, hhmm: int, utc: str) -> None:
    assert utc_of(day, hhmm) == datetime.fromisoformat(utc).replace(tzinfo=UTC)


@pytest.mark.parametrize("hhmm", [200, 230, 259])
def test_nothing_is_scheduled_in_the_hour_that_is_left_out(hhmm: int) -> None:
    with pytest.raises(ValueError, match=r"2013-03-10 02:\d\d does not exist in New York"):
        utc_of(FORWARD, hhmm)


def test_a_row_of_the_file() -> None:
    assert parse("1,1,515,2,UA,1545,N14228,EWR,IAH") == [
        Flight(
            key="1-1-UA-1545-EWR",
            name="UA 1545",
            origin="EWR",
            dest="IAH",
            departs=datetime(2013, 1, 1, 10, 15, tzinfo=UTC),
            delay_min=2,
        )
    ]


def test_flights_are_sorted_by_their_departure_in_utc() -> None:
    flights = parse(
        "3,10,300,0,AA,3,N1,JFK,BOS", "3,10,159,0,AA,2,N1,JFK,BOS", "3,9,2359,0,AA,1,N1,JFK,BOS"
    )
    assert [flight.name for flight in flights] == ["AA 1", "AA 2", "AA 3"]


@pytest.mark.parametrize(
    "delay, boards",
    [
        pytest.param("0", (9, 45), id="on-time"),
        pytest.param("12", (9, 57), id="late"),
        pytest.param("-20", (9, 25), id="early"),
    ],
)
def test_a_flight_boards_half_an_hour_before_it_really_leaves(
    delay: str, boards: tuple[int, int]
) -> None:
    answer = work_out(parse(f"1,1,515,{delay},UA,1545,N14228,EWR,IAH"))
    assert answer.boards_ms == {"1-1-UA-1545-EWR": utc_ms(1, 1, *boards)}
    assert answer.cancelled == frozenset()


def test_a_flight_without_a_delay_was_cancelled() -> None:
    answer = work_out(parse("1,1,515,,UA,1545,N14228,EWR,IAH"))
    assert answer.boards_ms == {}
    assert answer.cancelled == {"1-1-UA-1545-EWR"}


def test_a_boarding_before_the_change_of_the_clock_is_half_an_hour_before_in_real_time() -> None:
    answer = work_out(parse("3,10,310,0,AA,3,N1,JFK,BOS"))
    assert list(answer.boards_ms.values()) == [utc_ms(3, 10, 6, 40)]  # 01:40 local


def test_the_file_is_all_of_january_and_the_days_around_both_changes() -> None:
    january = read_flights(date(2013, 1, 1), date(2013, 1, 31))
    answer = work_out(january)
    assert (len(january), len(answer.boards_ms), len(answer.cancelled)) == (27_004, 26_483, 521)
    march = read_flights(date(2013, 3, 9), date(2013, 3, 11))
    november = read_flights(date(2013, 11, 2), date(2013, 11, 4))
    assert (len(march), len(november)) == (2_653, 2_569)
    everything = read_flights(date(2013, 1, 1), date(2013, 12, 31))
    assert len({flight.key for flight in everything}) == len(everything) == 32_226


def test_the_jobs_of_a_flight_come_to_the_right_answer() -> None:
    flights = read_flights(date(2013, 3, 10), date(2013, 3, 10))
    answer = work_out(flights)
    for flight in flights:
        boarding, news = (request.new_job(0) for request in jobs_of(flight))
        assert boarding.key == news.key == flight.key
        assert (boarding.queue, news.queue) == ("boarding", "news")
        assert news.due_ms == (flight.departs - timedelta(days=3)).timestamp() * 1000
        if flight.delay_min is not None:
            assert boarding.due_ms + flight.delay_min * 60_000 == answer.boards_ms[flight.key]
