"""Values as people read them."""

import re
from datetime import datetime

import msgspec
import pytest

from bide.cli.phrases import call, decode_args, distance, last_line, moment, printable

S, MIN, H, D, Y = 1_000, 60_000, 3_600_000, 86_400_000, 365 * 86_400_000


@pytest.mark.parametrize(
    "ms,text",
    [
        (0, "now"),
        (499, "now"),
        (-499, "now"),
        (501, "in 1 s"),
        (-1 * S, "1 s ago"),
        (59 * S, "in 59 s"),
        (59_600, "in 1 min"),
        (-2 * MIN, "2 min ago"),
        (59 * MIN + 40 * S, "in 1 h"),
        (23 * H, "in 23 h"),
        (3 * D - 5, "in 3 d"),
        (364 * D, "in 364 d"),
        (-365 * D, "1 y ago"),
        (100 * Y, "in 100 y"),
    ],
)
def test_distance(ms: int, text: str) -> None:
    assert distance(ms) == text


def test_moment_is_in_the_local_time_zone() -> None:
    local = datetime(2026, 1, 2, 3, 4, 5).astimezone()
    at_ms = int(local.timestamp()) * 1_000
    assert moment(at_ms, at_ms - 3 * D) == "2026-01-02 03:04:05, in 3 d"
    assert moment(at_ms, at_ms, precision="minutes") == "2026-01-02 03:04, now"


def test_moment_of_none_and_of_no_calendar() -> None:
    assert moment(None, 0) == "-"
    assert re.fullmatch(r"Unix 9007199254740992 ms, in \d+ y", moment(1 << 53, 0))


def test_call_shows_what_is_stored() -> None:
    args = msgspec.msgpack.encode({"order_id": 42, "to": "a@b", "tags": ["x"], "none": None})
    assert call("remind", args) == "remind(order_id=42, to='a@b', tags=['x'], none=None)"
    assert call("remind", msgspec.msgpack.encode({})) == "remind()"


@pytest.mark.parametrize("args", [b"", b"\xc1", b"\x92\x01", b"\x91" * 5_000 + b"\x01", b"\x07"])
def test_call_of_what_holds_no_arguments(args: bytes) -> None:
    assert call("remind", args) == f"remind(<{len(args)} bytes>)"


def test_what_cannot_be_decoded_is_unset() -> None:
    assert decode_args(b"\xc1") is msgspec.UNSET
    assert decode_args(b"\xc0") is None


def test_a_long_call_is_cut() -> None:
    args = msgspec.msgpack.encode({"text": "x" * 1_000})
    assert len(call("t", args)) == 100
    assert call("t", args).endswith("...")
    assert len(call("t", args, size_max=None)) > 1_000


def test_a_call_cannot_move_the_cursor() -> None:
    assert "\x1b" not in call("t\x1b", msgspec.msgpack.encode({"a\x1b[31m": "\x1b[31m\u202e"}))


def test_printable() -> None:
    assert printable("Größe 大 ok") == "Größe 大 ok"
    assert printable("a\nb\x07\u202e") == "a\\nb\\x07\\u202e"
    assert printable("a\nb\x07", keep="\n") == "a\nb\\x07"


def test_last_line() -> None:
    assert last_line("Traceback\n  here\nValueError: no\n\n") == "ValueError: no"
    assert last_line("") == ""
