"""``state.json``: which of a store's parts are in force, and since when.

JSON, replaced whole each time::

    {"index": 3, "log": 1, "boot": "<the machine's boot id>", "closed_at": null,
     "retention": {"size": 0, "age_ms": 0}, "leader": null}
"""

from __future__ import annotations

import msgspec

from bide.errors import NotAStore
from bide.format.unreadable import UNREADABLE

FILE_NAME = "state.json"


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of the log beyond what the store itself needs."""

    size: int = 0
    """Bytes, at least."""
    age_ms: int = 0
    """Records no older than this, all of them."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The parts in force."""

    index: int
    """Names the directory of the index."""
    log: int
    """Names the directory of the log and its checkpoints."""
    boot: str
    """The boot of the machine in which the index was last opened; "" where it does not say."""
    closed_at: int | None = None
    """The log offset at which the last who used it closed the store, index and log on the disk."""
    retention: Retention = Retention()
    leader: str | None = None
    """Where a follower's records come from; None: this store leads."""


def encode_state(state: State) -> bytes:
    return msgspec.json.encode(state) + b"\n"


def decode_state(data: bytes) -> State:
    """The state in *data*.

    Raises:
        NotAStore: It cannot be read.
    """
    try:
        return msgspec.json.decode(data, type=State)
    except UNREADABLE as error:
        raise NotAStore(f"{FILE_NAME} cannot be read: {error}") from None
