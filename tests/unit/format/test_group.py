"""`bide.format.group`: there and back, and what is no group."""

from __future__ import annotations

import pytest

from bide.errors import CorruptIndex
from bide.format.group import Group, decode_group, encode_group
from bide.format.row import decode_queue_row, encode_queue_row
from bide.model.job import NewJob
from bide.model.queue import QueueRow

JOB = NewJob(queue="q", task="t", args=b"\0\xff", due_ms=1 << 53, key="\u2603", max_retries=0)
GROUP = Group("label \u2603", (JOB, JOB))
ROW = QueueRow(name="t:a", made_ms=5, paused_ms=7)


@pytest.mark.parametrize("group", [GROUP, Group("", ()), Group("", (JOB,) * 1_000)])
def test_a_group_comes_back(group: Group) -> None:
    assert decode_group(encode_group(group)) == group


DATA = encode_group(GROUP)


@pytest.mark.parametrize("data", [b"", b"\1", b"\2" + DATA[1:], DATA[:-1], DATA + b"\0", b"\1\x90"])
def test_what_is_no_group_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        decode_group(data)


def test_a_queue_row_comes_back_and_every_flipped_bit_is_found() -> None:
    data = encode_queue_row(ROW)
    assert decode_queue_row(data, "t:a") == ROW
    for index in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[index // 8] ^= 1 << index % 8
        with pytest.raises(CorruptIndex, match="'t:a'"):
            decode_queue_row(bytes(damaged), "t:a")
    for cut in range(len(data)):
        with pytest.raises(CorruptIndex):
            decode_queue_row(data[:cut], "t:a")
    with pytest.raises(CorruptIndex):
        decode_queue_row(data, "t:b")
