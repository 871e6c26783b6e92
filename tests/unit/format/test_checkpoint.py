"""The head of a checkpoint, its table of checks, and its file name."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bide.errors import CorruptCheckpoint, UnsupportedFormat
from bide.format.checkpoint import (
    HEAD_SIZE,
    CheckpointHead,
    checkpoint_end,
    checkpoint_name,
    decode_head,
    decode_table,
    encode_head,
    encode_table,
)
from tests.model.profile import STEADY

CHECKS = [1, 0, 0xFFFF_FFFF]
TABLE = encode_table(CHECKS)
HEAD = CheckpointHead(
    store_id=bytes(range(16)),
    base=4_096,
    end=5_000,
    chain=77,
    made_ms=1_700_000_000_000,
    image_size=2 * 8_192 + 1,
    segment_size=1 << 25,
    table_check=crc32(TABLE),
    chunk_size=8_192,
)
DATA = encode_head(HEAD)

u64 = st.integers(0, (1 << 64) - 1)
u32 = st.integers(0, (1 << 32) - 1)
heads = st.builds(
    CheckpointHead,
    store_id=st.binary(min_size=16, max_size=16),
    base=u64,
    end=u64,
    chain=u32,
    made_ms=u64,
    image_size=u64,
    segment_size=u64,
    table_check=u32,
    chunk_size=st.integers(1, (1 << 32) - 1),
)


def resealed(data: bytearray) -> bytes:
    """The head *data*, changed, under a check that is right."""
    return bytes(data[:-4]) + struct.pack(">I", crc32(data[:-4]))


@given(heads, st.binary(max_size=20))
@STEADY
def test_what_is_written_is_read(head: CheckpointHead, image: bytes) -> None:
    data = encode_head(head)
    assert len(data) == HEAD_SIZE
    assert decode_head(data) == head


def test_every_flipped_bit_of_the_head_is_found() -> None:
    for bit in range(HEAD_SIZE * 8):
        data = bytearray(DATA)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptCheckpoint):
            decode_head(bytes(data))


def test_every_cut_of_the_head_is_found() -> None:
    for size in range(HEAD_SIZE):
        with pytest.raises(CorruptCheckpoint):
            decode_head(DATA[:size])


def test_a_head_that_was_never_written_is_none() -> None:
    with pytest.raises(CorruptCheckpoint, match="not a checkpoint"):
        decode_head(bytes(HEAD_SIZE))


def test_another_file_is_none() -> None:
    with pytest.raises(CorruptCheckpoint, match="not a checkpoint"):
        decode_head(b"SQLite format 3\0".ljust(HEAD_SIZE, b"x"))


def test_a_later_format_is_named() -> None:
    data = bytearray(DATA)
    data[8] = 2
    with pytest.raises(UnsupportedFormat, match=r"format 2.*upgrade"):
        decode_head(resealed(data))


def test_chunks_of_no_size_are_refused() -> None:
    data = bytearray(DATA)
    data[52:56] = bytes(4)
    with pytest.raises(CorruptCheckpoint, match="no size"):
        decode_head(resealed(data))


@pytest.mark.parametrize(
    "image_size, count", [(0, 0), (1, 1), (8_191, 1), (8_192, 1), (8_193, 2), (16_384, 2)]
)
def test_sizes_add_up(image_size: int, count: int) -> None:
    head = replace(HEAD, image_size=image_size)
    assert head.chunk_count == count
    assert head.file_size == HEAD_SIZE + image_size + 4 * count


def test_a_table_is_read() -> None:
    assert decode_table(TABLE, HEAD) == CHECKS


def test_every_flipped_bit_of_the_table_is_found() -> None:
    for bit in range(len(TABLE) * 8):
        data = bytearray(TABLE)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptCheckpoint, match="damaged"):
            decode_table(bytes(data), HEAD)


def test_every_cut_of_the_table_is_found() -> None:
    for size in range(len(TABLE)):
        with pytest.raises(CorruptCheckpoint, match="cut short"):
            decode_table(TABLE[:size], HEAD)


@given(st.lists(st.integers(0, 10**20 - 1), min_size=2))
@STEADY
def test_names_sort_as_their_ends(ends: list[int]) -> None:
    names = sorted(map(checkpoint_name, ends))
    assert [checkpoint_end(name) for name in names] == sorted(ends)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "checkpoint.new",
        "00000000000000000000.log",
        "00000000000000000000.checkpoint.new",
        "0000000000000000000.checkpoint",
        "000000000000000000000.checkpoint",
        "-0000000000000000001.checkpoint",
        "\u0660" * 20 + ".checkpoint",
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert checkpoint_end(name) is None
