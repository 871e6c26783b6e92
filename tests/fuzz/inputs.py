"""What fuzz targets are fed: any bytes, and good ones that were damaged in a few places."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import strategies as st

_GOLDEN = Path(__file__).parents[1] / "golden" / "bytes.json"
_TELLING = (0, 1, 0x7F, 0x80, 0xC0, 0xC1, 0xDB, 0xDC, 0xDD, 0xDF, 0xFF)
"""Bytes that mean something to MessagePack, or are the ends of a range."""

_DAMAGES = ("flip", "set", "cut", "drop", "repeat", "insert", "nest", "join")


def golden(*names: str) -> list[bytes]:
    """What was released, by its names."""
    known = json.loads(_GOLDEN.read_text())
    return [bytes.fromhex(known[name]) for name in names]


def damaged(goods: Sequence[bytes], seal: Callable[[bytes], bytes] | None = None) -> Inputs:
    """Any bytes; and some of *goods*, damaged.

    Args:
        seal: Makes the checks right again, so that what lies behind them is reached.
    """
    some = _mutated(goods)
    either = st.binary(max_size=300) | some
    return either if seal is None else either | some.map(seal)


Inputs = st.SearchStrategy[bytes]


@st.composite
def _mutated(draw: st.DrawFn, goods: Sequence[bytes]) -> bytes:
    data = bytearray(draw(st.sampled_from(goods)))
    for _ in range(draw(st.integers(0, 4))):
        if not data:
            break
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.sampled_from(_DAMAGES)):
            case "flip":
                data[at] ^= 1 << draw(st.integers(0, 7))
            case "set":
                data[at] = draw(st.sampled_from(_TELLING))
            case "cut":
                del data[at:]
            case "drop":
                del data[at : at + draw(st.integers(1, 9))]
            case "repeat":
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
            case "insert":
                data[at:at] = draw(st.binary(min_size=1, max_size=9))
            case "nest":
                data[at:at] = b"\x91" * 3_000
            case "join":
                data[at:] = draw(st.sampled_from(goods))[at:]
    return bytes(data)
