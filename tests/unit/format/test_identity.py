"""``bide.json``: what a store says of itself, and what is refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bide.errors import NotAStore, UnsupportedFormat
from bide.format.identity import Identity, decode_identity, encode_identity
from tests.model.profile import STEADY

STORE_ID = "0123456789abcdef" * 2
GOOD: dict[str, object] = {
    "format": "bide store",
    "version": 1,
    "store_id": STORE_ID,
    "segment_size": 4096,
}


@given(st.binary(min_size=16, max_size=16), st.integers(4096, 1 << 40))
@STEADY
def test_what_is_written_is_read(store_id: bytes, segment_size: int) -> None:
    identity = Identity(store_id=store_id.hex(), segment_size=segment_size)
    data = encode_identity(identity)
    assert data.endswith(b"\n")
    assert decode_identity(data) == identity


def test_a_store_with_fields_to_come_is_read() -> None:
    assert decode_identity(msgspec.json.encode(GOOD | {"more": 1})).store_id == STORE_ID


def test_every_cut_is_refused() -> None:
    data = encode_identity(Identity(store_id=STORE_ID))
    for size in range(len(data) - 1):
        with pytest.raises(NotAStore):
            decode_identity(data[:size])


@pytest.mark.parametrize(
    "change",
    [
        {"format": "another store"},
        {"format": 1},
        {"version": "1"},
        {"store_id": STORE_ID[:-1]},
        {"store_id": STORE_ID[:-2]},
        {"store_id": STORE_ID + "00"},
        {"store_id": "g" * 32},
        {"store_id": " ".join([STORE_ID[:15], STORE_ID[16:]])},
        {"store_id": 7},
        {"segment_size": 4095},
        {"segment_size": -1},
        {"segment_size": 4096.5},
        {"segment_size": "big"},
    ],
    ids=str,
)
def test_what_is_no_store_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(NotAStore):
        decode_identity(msgspec.json.encode(GOOD | change))


@pytest.mark.parametrize("missing", ["format", "version", "store_id"])
def test_what_lacks_a_field_is_refused(missing: str) -> None:
    fields = {name: value for name, value in GOOD.items() if name != missing}
    with pytest.raises(NotAStore):
        decode_identity(msgspec.json.encode(fields))


@pytest.mark.parametrize("data", [b"", b"\0", b"null", b"[]", b"\xff\xfe", b"{} {}"], ids=repr)
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(NotAStore):
        decode_identity(data)


@pytest.mark.parametrize("version", [0, 2, 1_000])
def test_another_version_is_named_whatever_else_it_changed(version: int) -> None:
    data = msgspec.json.encode({"format": "bide store", "version": version, "id": []})
    with pytest.raises(UnsupportedFormat, match=f"format {version}"):
        decode_identity(data)
