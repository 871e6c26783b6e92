"""What a name, a key and a number may be, and that each limit is exact."""

import sys

import pytest

from bide.errors import (
    BatchTooLarge,
    BodyTooLarge,
    InvalidDelay,
    InvalidName,
    InvalidOption,
    UsageError,
)
from bide.model import limits

QUEUE_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
NOT_STRINGS = [None, 1, True, b"mail", ["mail"], 1.5, object()]


def accepts_queue(name: object) -> bool:
    try:
        return limits.check_queue(name) == name
    except InvalidName as error:
        return error.name is not name  # it says which name, or is no refusal


def test_queue_name_characters_are_exactly_these() -> None:
    # Every character of the first planes, and each end of the rest.
    candidates = [*map(chr, range(0x3000)), "\ud800", "\uff41", "\U0001f680", chr(sys.maxunicode)]
    accepted = {character for character in candidates if accepts_queue(character)}
    assert accepted == QUEUE_CHARACTERS
    refused_inside = [c for c in candidates if c not in QUEUE_CHARACTERS]
    assert not any(accepts_queue(f"a{c}b") or accepts_queue(f"ab{c}") for c in refused_inside)


@pytest.mark.parametrize("name", ["a" * 64, "-", ".", "test", "A-z_0.9"])
def test_queue_names(name: str) -> None:
    assert accepts_queue(name)


@pytest.mark.parametrize("name", ["", "a" * 65, "topic:channel", "a/b", "a\n", " a", *NOT_STRINGS])
def test_refused_queue_names(name: object) -> None:
    assert not accepts_queue(name)


@pytest.mark.parametrize("name", ["a", "shop.remind", "shop:\u00e9t\u00e9", "x" * 200, "<lambda>"])
def test_task_names(name: str) -> None:
    assert limits.check_task_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "a b", "a\n", "\0", "a\tb", "x" * 201, "\u00e9" * 101, "\ud800", "a\u2028b", *NOT_STRINGS],
)
def test_refused_task_names(name: object) -> None:
    with pytest.raises(InvalidName, match="task name"):
        limits.check_task_name(name)


@pytest.mark.parametrize(
    "key", ["k", " ", "\0", "\n", "x" * 255, "\u00e9" * 127, "\U0001f680" * 63, "\uffff"]
)
def test_keys(key: str) -> None:
    assert limits.check_key(key) == key


@pytest.mark.parametrize(
    "key", ["", "x" * 256, "\u00e9" * 128, "\U0001f680" * 64, "\ud800", "a\udfffb"]
)
def test_refused_keys(key: str) -> None:
    with pytest.raises(InvalidName) as caught:
        limits.check_key(key)
    assert caught.value.name == key


@pytest.mark.parametrize("key", NOT_STRINGS)
def test_a_key_is_a_str(key: object) -> None:
    with pytest.raises(InvalidName, match=f"not {type(key).__name__}"):
        limits.check_key(key)


@pytest.mark.parametrize("priority", [-100, -1, 0, 100])
def test_priorities(priority: int) -> None:
    assert limits.check_priority(priority) == priority


@pytest.mark.parametrize("priority", [-101, 101, True, 1.0, "1", None])
def test_refused_priorities(priority: object) -> None:
    with pytest.raises(InvalidOption, match="priority"):
        limits.check_priority(priority)


@pytest.mark.parametrize("retries", [0, 1, 65_535])
def test_retries(retries: int) -> None:
    assert limits.check_retries(retries) == retries


@pytest.mark.parametrize("retries", [-1, 65_536, False, 2.0, "2", None])
def test_refused_retries(retries: object) -> None:
    with pytest.raises(InvalidOption, match="max_retries"):
        limits.check_retries(retries)


def test_a_due_time_is_at_most_a_hundred_years_ahead() -> None:
    now_ms = 1_000
    latest = now_ms + limits.DELAY_MS_MAX
    assert limits.check_due(latest, now_ms) == latest
    assert limits.check_due(0, now_ms) == 0
    with pytest.raises(InvalidDelay, match="100 years"):
        limits.check_due(latest + 1, now_ms)


def test_a_body_may_have_a_mebibyte() -> None:
    body = bytes(limits.BODY_SIZE_MAX)
    assert limits.check_body(body, "t") is body
    with pytest.raises(BodyTooLarge) as caught:
        limits.check_body(body + b"!", "shop.remind")
    assert (caught.value.size, caught.value.size_max) == (1_048_577, 1_048_576)
    assert "shop.remind" in str(caught.value)


def test_batch_limits_are_exact() -> None:
    limits.check_batch(10_000, 64 << 20)
    with pytest.raises(BatchTooLarge) as caught:
        limits.check_batch(10_001)
    assert (caught.value.count, caught.value.count_max) == (10_001, 10_000)
    with pytest.raises(BatchTooLarge, match="bytes"):
        limits.check_batch(1, (64 << 20) + 1)


def test_a_wrong_value_is_the_callers_mistake() -> None:
    assert issubclass(UsageError, ValueError)
    for kind in (InvalidName, InvalidOption, InvalidDelay, BodyTooLarge, BatchTooLarge):
        assert issubclass(kind, UsageError)


def test_a_job_row_fits_into_a_batch_of_limits() -> None:
    # The index keeps queue and key in one LMDB key, which has at most 511 bytes.
    assert 1 + limits.QUEUE_NAME_SIZE_MAX + limits.KEY_SIZE_MAX <= 511
