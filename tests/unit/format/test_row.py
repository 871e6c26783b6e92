"""The index's rows: values that prove themselves, and keys that sort as meant."""

from itertools import pairwise
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bide.errors import CorruptIndex
from bide.format.row import (
    DUE_TAIL_SIZE,
    JOB_HEAD_SIZE,
    decode_due_tail,
    decode_job,
    decode_lease,
    decode_owner,
    decode_pair,
    decode_queue,
    decode_u64,
    encode_due_tail,
    encode_job,
    encode_lease,
    encode_owner,
    encode_pair,
    encode_queue,
    encode_u64,
)
from bide.model.job import Job, JobId, LeaseRow, Owner
from tests.model.profile import STEADY
from tests.unit.format import made

JOB = Job(
    id=JobId(7),
    queue="test",
    task="shop.remind",
    args=b"\x2a",
    due_ms=5,
    priority=-3,
    key="order-42",
    attempt=0,
    max_retries=5,
    timeout_ms=120_000,
    put_ms=4,
)


@given(made.jobs)
@STEADY
def test_jobs_are_read_as_written(job: Job) -> None:
    row = encode_job(job)
    assert decode_job(row) == decode_job(row, job.id) == job


@given(made.lease_rows)
@STEADY
def test_leases_are_read_as_written(row: LeaseRow) -> None:
    assert decode_lease(encode_lease(row)) == row


@given(made.owners)
@STEADY
def test_owners_are_read_as_written(owner: Owner) -> None:
    assert decode_owner(encode_owner(owner)) == owner


def test_every_flipped_bit_in_a_jobs_row_is_found() -> None:
    row = bytearray(encode_job(JOB))
    for bit in range(len(row) * 8):
        row[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptIndex, match="job 7"):
            decode_job(bytes(row), JOB.id)
        row[bit // 8] ^= 1 << bit % 8
    assert decode_job(bytes(row), JOB.id) == JOB


def test_every_cut_of_a_jobs_row_is_found() -> None:
    row = encode_job(JOB)
    for size in range(len(row)):
        with pytest.raises(CorruptIndex):
            decode_job(row[:size], JOB.id)
    with pytest.raises(CorruptIndex):
        decode_job(row + b"\0", JOB.id)


def test_another_jobs_row_is_found() -> None:
    with pytest.raises(CorruptIndex, match="job 8"):
        decode_job(encode_job(JOB), 8)
    assert decode_job(encode_job(JOB)) == JOB


def test_a_row_of_an_earlier_bide_is_read() -> None:
    """Fields are added at the end, with defaults: a job without them is still one."""
    values = msgspec.to_builtins(JOB, builtin_types=(bytes,))
    data = msgspec.msgpack.encode(values[:11])
    row = b"\x01" + crc32(data).to_bytes(4, "big") + data
    assert decode_job(row, JOB.id) == JOB
    assert len(row) == JOB_HEAD_SIZE + len(data)


@given(made.u64, made.u64)
@STEADY
def test_numbers_sort_as_their_bytes(a: int, b: int) -> None:
    assert (encode_u64(a) < encode_u64(b)) == (a < b)
    assert decode_u64(encode_u64(a)) == a
    assert decode_pair(encode_pair(a, b)) == (a, b)


pairs = st.tuples(made.u64, made.u64)


@given(pairs, pairs)
@STEADY
def test_pairs_sort_as_their_bytes(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert (encode_pair(*a) < encode_pair(*b)) == (a < b)


places = st.tuples(made.priorities, made.times, made.u64)


def rank(place: tuple[int, int, int]) -> tuple[int, int, int]:
    priority, due_ms, job_id = place
    return -priority, due_ms, job_id


@given(places, places)
@STEADY
def test_due_keys_sort_in_order_of_service(
    a: tuple[int, int, int], b: tuple[int, int, int]
) -> None:
    assert (encode_due_tail(*a) < encode_due_tail(*b)) == (rank(a) < rank(b))
    key = encode_queue("any") + encode_due_tail(*a)
    assert decode_due_tail(key) == a
    assert len(encode_due_tail(*a)) == DUE_TAIL_SIZE


def test_due_keys_sort_at_each_end() -> None:
    ordered = [
        (100, 0, 1),
        (100, 0, 2),
        (100, 255, 0),
        (100, 256, 0),
        (1, 1 << 53, 9),
        (0, 0, 0),
        (-1, 0, 0),
        (-100, 0, 0),
        (-100, 1 << 53, (1 << 64) - 1),
    ]
    assert all(
        encode_due_tail(*first) < encode_due_tail(*second) for first, second in pairwise(ordered)
    )


QUEUES = ["test", "test2", "test-", "tes", "t" * 64, "t" * 63, "a", "A", "_", "-", "0", "te", "t"]


def test_no_queue_starts_another() -> None:
    keys = [encode_queue(queue) for queue in QUEUES]
    for key in keys:
        assert [other for other in keys if other.startswith(key)] == [key]


@given(made.queues, made.queues, st.binary(max_size=20), st.binary(max_size=20))
@STEADY
def test_rows_of_two_queues_never_mix(one: str, other: str, a: bytes, b: bytes) -> None:
    first, second = encode_queue(one), encode_queue(other)
    assert decode_queue(first + a) == one
    if one != other:
        assert not (first + a).startswith(second)
        assert (first + a < second + b) == (first < second), "a queue's rows stand together"


@given(made.jobs)
@STEADY
def test_a_job_can_be_made_anew_from_its_row(job: Job) -> None:
    assert encode_job(decode_job(encode_job(replace(job, attempt=3)))) == encode_job(
        replace(job, attempt=3)
    )
