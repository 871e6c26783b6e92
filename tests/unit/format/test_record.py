"""A record of the log: round trip, every cut, every flipped bit, and records out of place."""

import struct
from collections.abc import Sequence
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bide.errors import CorruptRecord
from bide.format.record import HEAD_SIZE, Record, decode_record, encode_record
from tests.model.profile import STEADY

BASE = 48
BODIES = (b"first", b"", b"\0" * 40, bytes(range(60)))


def segment_of(bodies: Sequence[bytes], base: int = BASE) -> tuple[bytes, list[int]]:
    """Records that follow one another, and the offset behind each."""
    data, chain, ends = b"", 0, []
    for index, body in enumerate(bodies):
        offset = base + len(data)
        head, chain = encode_record(
            body, offset=offset, written_ms=1_000 + index, synced=index, chain=chain
        )
        data += head + body
        ends.append(len(data))
    return data, ends


def decode_all(data: bytes, base: int = BASE) -> list[Record]:
    """Every whole record in *data*."""
    records: list[Record] = []
    start = 0
    while (found := decode_record(memoryview(data), start, offset=base + start)) is not None:
        record, start = found
        records.append(record)
    return records


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(0, 1 << 62))
@STEADY
def test_what_is_written_is_read(bodies: list[bytes], base: int) -> None:
    data, ends = segment_of(bodies, base)
    records = decode_all(data, base)
    assert [record.body for record in records] == bodies
    assert [record.offset for record in records] == [
        base + end for end in [0, *ends][: len(bodies)]
    ]
    assert [record.written_ms for record in records] == [1_000 + n for n in range(len(bodies))]
    chains = [0, *(record.check for record in records)]
    assert [record.chain for record in records] == chains[: len(bodies)]


def test_every_cut_yields_a_prefix() -> None:
    data, ends = segment_of(BODIES)
    for size in range(len(data) + 1):
        found = [record.body for record in decode_all(data[:size])]
        assert found == list(BODIES[: sum(end <= size for end in ends)]), f"cut at {size}"


def test_a_record_starts_anywhere_in_its_buffer() -> None:
    data, ends = segment_of(BODIES)
    junk = b"junk" + data
    found = decode_record(memoryview(junk), 4 + ends[0], offset=BASE + ends[0])
    assert found is not None
    record, end = found
    assert (record.body, end) == (BODIES[1], 4 + ends[1])


def test_every_flipped_bit_is_found() -> None:
    head, _ = encode_record(b"the body", offset=BASE, written_ms=7, synced=5, chain=9)
    data = bytearray(head + b"the body")
    for bit in range(len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptRecord) as caught:
            decode_record(memoryview(data), 0, offset=BASE)
        assert caught.value.offset == BASE
        data[bit // 8] ^= 1 << bit % 8
    assert decode_record(memoryview(data), 0, offset=BASE) is not None


def test_a_flipped_bit_is_found_in_a_record_that_is_cut_short() -> None:
    head, _ = encode_record(b"the body", offset=BASE, written_ms=7, synced=5, chain=9)
    for bit in range(HEAD_SIZE * 8):
        data = bytearray(head)  # a damaged size would else look like a torn tail
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptRecord):
            decode_record(memoryview(data), 0, offset=BASE)


def test_a_record_out_of_place_is_found() -> None:
    data, ends = segment_of([b"same", b"same"])
    swapped = data[ends[0] :] + data[: ends[0]]
    with pytest.raises(CorruptRecord, match=f"written at {BASE + ends[0]}"):
        decode_record(memoryview(swapped), 0, offset=BASE)


def test_a_record_behind_another_says_so_by_its_chain() -> None:
    _, first = encode_record(b"one", offset=0, written_ms=0, synced=0, chain=0)
    _, other = encode_record(b"two", offset=0, written_ms=0, synced=0, chain=0)
    assert first != other, "the check is of the body too, by its own check"
    _, later = encode_record(b"one", offset=0, written_ms=1, synced=0, chain=0)
    assert first != later


@pytest.mark.parametrize("field, value", [(0, b"bIdX"), (1, 2), (2, 0), (2, 2), (3, 1)], ids=str)
def test_a_whole_head_that_bide_does_not_write_is_refused(field: int, value: object) -> None:
    fields: list[object] = [b"bIdR", 1, 1, 0, 0, 0, BASE, 7, 0, 9]
    fields[field] = value
    head = struct.pack(">4sBBHIIQQQI", *fields)
    data = head + struct.pack(">I", crc32(head))
    with pytest.raises(CorruptRecord, match="not a record that bide writes"):
        decode_record(memoryview(data), 0, offset=BASE)


def test_zeros_are_no_record() -> None:
    with pytest.raises(CorruptRecord):
        decode_record(memoryview(bytes(100)), 0, offset=BASE)
    assert decode_record(memoryview(bytes(HEAD_SIZE - 1)), 0, offset=BASE) is None
