"""The jobs of an undecided transaction, as the arguments of the job that stands for it.

    ======  ====  ==================================================
    offset  size  field
    ======  ====  ==================================================
         0     1  version of this layout, 1
         1     n  ``[label, jobs]`` in MessagePack, each job a map
                  from `NewJob`'s fields to their values
    ======  ====  ==================================================

The row of the job that carries it has a check of its own.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from bide.errors import CorruptIndex
from bide.format.unreadable import UNREADABLE
from bide.model.job import NewJob

VERSION = 1


class Group(msgspec.Struct, frozen=True, array_like=True):
    """What is put together, once it is decided."""

    label: str
    jobs: tuple[NewJob, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Group).decode


def encode_group(group: Group) -> bytes:
    return bytes((VERSION,)) + _encode(group)


def decode_group(data: bytes) -> Group:
    """The group in *data*; `CorruptIndex` if it holds none that this version knows."""
    if data[:1] == bytes((VERSION,)):
        with suppress(*UNREADABLE):
            return _decode(data[1:])
    raise CorruptIndex("the jobs of a transaction cannot be read: another version wrote them")
