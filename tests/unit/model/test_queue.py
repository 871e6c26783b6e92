"""Names with a colon, and what stands behind them."""

from __future__ import annotations

from typing import Any

import pytest

from bide.errors import InvalidName
from bide.model import limits
from bide.model import queue as q
from bide.model.retry import delay_undecided_ms

LONG = "x" * 64


@pytest.mark.parametrize(
    "name,topic,is_prepared",
    [
        ("mail", None, False),
        ("orders:mail", "orders", False),
        ("orders:", None, False),
        (":mail", None, True),
        (":orders:", None, True),
        (":", None, True),
        (f"{LONG}:{LONG}", LONG, False),
    ],
)
def test_names_tell_what_they_are(name: str, topic: str | None, is_prepared: bool) -> None:
    assert (q.topic_of(name), q.is_prepared(name)) == (topic, is_prepared)


def test_names_are_put_together() -> None:
    assert q.channel_queue("orders", "mail") == "orders:mail"
    assert q.channel_of("orders:mail") == "mail"
    assert q.topic_queue("orders") == "orders:"
    assert q.prepared_queue("orders:") == ":orders:"
    terms = q.ChannelTerms(topic="orders", channel="mail", max_retries=0, timeout_ms=0)
    assert terms.queue == "orders:mail"


@pytest.mark.parametrize("name", ["mail", "a:b", f"{LONG}:{LONG}"])
def test_a_source_is_a_queue_or_a_channel(name: str) -> None:
    assert limits.check_source(name) == limits.check_destination(name) == name


BAD: list[Any] = ["", ":", ":a", "a:b:c", "a b:c", "a:b\n", f"{LONG}x:a", "a:", None, 7, b"a:b"]


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_source_is_refused(name: Any) -> None:
    with pytest.raises(InvalidName) as caught:
        limits.check_source(name)
    assert caught.value.name is not None or name is None


@pytest.mark.parametrize("name", [name for name in BAD if name != "a:"])
def test_what_is_no_destination_is_refused(name: Any) -> None:
    with pytest.raises(InvalidName):
        limits.check_destination(name)


def test_a_topic_is_a_destination() -> None:
    assert limits.check_destination("orders:") == "orders:"


@pytest.mark.parametrize(
    "paused_ms,dropped_ms,is_served",
    [(None, None, True), (0, None, False), (None, 0, False), (5, 5, False)],
)
def test_a_row_tells_whether_it_is_served(
    paused_ms: int | None, dropped_ms: int | None, is_served: bool
) -> None:
    row = q.QueueRow(name="a:b", made_ms=0, paused_ms=paused_ms, dropped_ms=dropped_ms)
    assert row.is_served is is_served


def test_a_checker_is_asked_ever_later() -> None:
    assert [delay_undecided_ms(n) for n in (0, 1, 8, 9, 10**6)] == [
        10_000,
        20_000,
        2_560_000,
        3_600_000,
        3_600_000,
    ]
