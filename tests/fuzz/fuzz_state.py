"""Whatever the bytes: ``state.json`` and ``bide.json`` are decoded to what encodes to such as is
decoded to it again, or it is `NotAStore`, or of another format.
"""

from __future__ import annotations

from bide.errors import NotAStore, UnsupportedFormat
from bide.format.identity import decode_identity, encode_identity
from bide.format.state import decode_state, encode_state
from tests.fuzz.inputs import damaged, golden

INPUTS = damaged(golden("state", "identity 1"))


def check(data: bytes) -> None:
    try:
        state = decode_state(data)
    except NotAStore:
        pass
    else:
        assert decode_state(encode_state(state)) == state
    try:
        identity = decode_identity(data)
    except (NotAStore, UnsupportedFormat):
        return
    assert decode_identity(encode_identity(identity)) == identity
    assert len(bytes.fromhex(identity.store_id)) == 16
