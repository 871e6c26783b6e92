"""Whatever is given as the place where a listing is to go on: it goes on there, or it is
`InvalidOption`.
"""

from __future__ import annotations

import contextlib

from bide.cli.listing import Cursor, decode_cursor
from bide.errors import InvalidOption
from bide.model.job import State
from tests.fuzz.inputs import damaged

STATES = (State.READY, State.FAILED)
GOODS = [Cursor(STATES, None, "7").encode(), Cursor((State.FAILED,), None, None).encode()]
INPUTS = damaged([word.encode() for word in GOODS])


def check(data: bytes) -> None:
    with contextlib.suppress(InvalidOption):
        cursor = decode_cursor(data.decode("utf-8", "replace"), STATES, None)
        assert decode_cursor(cursor.encode(), STATES, None) == cursor
