"""Each fuzz target holds for some hundred inputs, and would fail if its decoder were broken."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest

from bide.format import record, row
from tests.fuzz.running import Target, feed, load_targets

TARGETS = {target.name: target for target in load_targets()}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_the_invariant_holds(target: Target) -> None:
    assert target.invariant.startswith("Whatever ")
    assert feed(target, 300, is_fixed=True) is None


def test_every_decoder_of_a_format_has_a_target() -> None:
    assert {"record", "segment", "commit", "row", "group", "checkpoint", "state"} <= set(TARGETS)


def test_a_record_whose_head_is_not_checked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = record.decode_record

    def sloppy(data: memoryview, start: int, *, offset: int) -> object:
        head = bytes(data[: record.HEAD_CHECK_OFFSET])
        rest = bytes(data[record.HEAD_SIZE :])
        sealed = head + struct.pack(">I", crc32(head)) + rest
        return decode(memoryview(sealed), start, offset=offset)

    monkeypatch.setattr("tests.fuzz.fuzz_record.decode_record", sloppy)
    assert feed(TARGETS["record"], 2_000, is_fixed=True) is not None


def test_a_row_that_lets_other_errors_through_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(data: bytes) -> int:
        return int(struct.unpack(">Q", data)[0])

    monkeypatch.setattr("tests.fuzz.fuzz_row.CODECS", [(careless, row.encode_u64)])
    found = feed(TARGETS["row"], 200, is_fixed=True)
    assert found is not None
    assert isinstance(found.error, struct.error)
