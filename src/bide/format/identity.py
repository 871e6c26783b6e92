"""``bide.json``: what makes a directory a store, written once and compared at every open.

JSON, so that a person who finds the directory can read what it is::

    {"format": "bide store", "version": 1, "store_id": "<32 hex digits>", "segment_size": 33554432}
"""

from __future__ import annotations

import msgspec

from bide.errors import NotAStore, UnsupportedFormat
from bide.format.unreadable import UNREADABLE

FILE_NAME = "bide.json"
FORMAT = "bide store"
VERSION = 1
SEGMENT_SIZE = 32 << 20
SEGMENT_SIZE_MIN = 4096


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What shapes the data of one store."""

    format: str = FORMAT
    version: int = VERSION
    store_id: str
    segment_size: int = SEGMENT_SIZE


class _Header(msgspec.Struct):
    format: str
    version: int


def encode_identity(identity: Identity) -> bytes:
    return msgspec.json.encode(identity) + b"\n"


def decode_identity(data: bytes) -> Identity:
    """The identity in *data*.

    Raises:
        UnsupportedFormat: Another version of bide wrote it.
        NotAStore: It is not bide's at all.
    """
    try:
        header = msgspec.json.decode(data, type=_Header)
        if header.format != FORMAT:
            raise NotAStore(f"{FILE_NAME} says {header.format!r}, not {FORMAT!r}")
        if header.version != VERSION:
            raise UnsupportedFormat(
                f"the store has format {header.version}; this bide reads {VERSION}: upgrade bide"
            )
        identity = msgspec.json.decode(data, type=Identity)
        store_id = bytes.fromhex(identity.store_id)
    except (*UNREADABLE, ValueError) as error:
        raise NotAStore(f"{FILE_NAME} cannot be read: {error}") from None
    if len(store_id) != 16 or identity.segment_size < SEGMENT_SIZE_MIN:
        raise NotAStore(f"{FILE_NAME} states an impossible store")
    return identity
