"""``state.json``: read as it was written, and refused if it says less than it must."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bide.errors import NotAStore
from bide.format.state import Retention, State, decode_state, encode_state
from tests.model.profile import STEADY

numbers = st.integers(0, (1 << 63) - 1)
states = st.builds(
    State,
    index=numbers,
    log=numbers,
    boot=st.text(max_size=40),
    closed_at=st.none() | numbers,
    retention=st.builds(Retention, size=numbers, age_ms=numbers),
    leader=st.none() | st.text(max_size=40),
)
STATE = State(index=3, log=1, boot="boot")


@given(states)
@STEADY
def test_what_is_written_is_read(state: State) -> None:
    assert decode_state(encode_state(state)) == state


def test_a_person_can_read_it() -> None:
    assert json.loads(encode_state(STATE)) == {
        "index": 3,
        "log": 1,
        "boot": "boot",
        "closed_at": None,
        "retention": {"size": 0, "age_ms": 0},
        "leader": None,
    }


def test_what_a_later_bide_adds_is_passed_over() -> None:
    data = json.dumps({"index": 3, "log": 1, "boot": "boot", "more": [1]}).encode()
    assert decode_state(data) == STATE


def test_every_cut_is_refused() -> None:
    data = encode_state(STATE).rstrip()
    for size in range(len(data)):
        with pytest.raises(NotAStore, match=r"state\.json cannot be read"):
            decode_state(data[:size])


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 64, b"[]", b"null", b'{"index": 1}', b'{"index": "1", "log": 1, "boot": ""}'],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(NotAStore):
        decode_state(data)
