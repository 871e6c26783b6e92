"""The head of a segment, and its file name."""

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bide.errors import CorruptRecord, UnsupportedFormat
from bide.format.segment import (
    HEAD_SIZE,
    SegmentHead,
    decode_segment_head,
    encode_segment_head,
    segment_base,
    segment_name,
)
from tests.model.profile import STEADY

HEAD = SegmentHead(bytes(range(16)), 4_096, 77)
DATA = encode_segment_head(HEAD)

heads = st.builds(
    SegmentHead,
    store_id=st.binary(min_size=16, max_size=16),
    base=st.integers(0, (1 << 64) - 1),
    chain=st.integers(0, (1 << 32) - 1),
)


@given(heads, st.binary(max_size=20))
@STEADY
def test_what_is_written_is_read(head: SegmentHead, records: bytes) -> None:
    data = encode_segment_head(head)
    assert len(data) == HEAD_SIZE
    assert decode_segment_head(data + records, base=head.base) == head
    assert decode_segment_head(memoryview(data + records), base=head.base) == head


def test_every_cut_is_a_torn_tail() -> None:
    for size in range(HEAD_SIZE):
        assert decode_segment_head(DATA[:size], base=4_096) is None


def test_every_flipped_bit_is_found() -> None:
    for bit in range(HEAD_SIZE * 8):
        data = bytearray(DATA)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptRecord) as caught:
            decode_segment_head(bytes(data), base=4_096)
        assert caught.value.offset == 4_096


def test_a_segment_under_a_wrong_name_is_found() -> None:
    with pytest.raises(CorruptRecord, match="it starts at 4096"):
        decode_segment_head(DATA, base=8_192)


def test_a_later_format_is_named() -> None:
    head = bytearray(DATA[:-4])
    head[8] = 2
    data = bytes(head) + struct.pack(">I", crc32(head))
    with pytest.raises(UnsupportedFormat, match="format 2"):
        decode_segment_head(data, base=4_096)


@given(st.lists(st.integers(0, 10**20 - 1), min_size=2))
@STEADY
def test_names_sort_as_their_bases(bases: list[int]) -> None:
    names = sorted(map(segment_name, bases))
    assert [segment_base(name) for name in names] == sorted(bases)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "bide.json",
        "00000000000000000000.log.new",
        "0000000000000000000.log",
        "000000000000000000000.log",
        "-0000000000000000001.log",
        "+0000000000000000001.log",
        "0000000000000000 001.log",
        "\u0660" * 20 + ".log",
        "\u00b2" * 20 + ".log",
        "00000000000000000000.LOG",
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert segment_base(name) is None
