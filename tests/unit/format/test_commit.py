"""A record's body: the facts of one transaction, and their rows."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bide.errors import CorruptIndex, CorruptRecord
from bide.format.commit import decode_commit, encode_commit, encode_rows
from bide.format.row import decode_job
from bide.model import facts as f
from bide.model.job import OwnerId
from tests.model.profile import STEADY
from tests.unit.format import made
from tests.unit.format.test_row import JOB


@given(st.lists(made.facts, max_size=4))
@STEADY
def test_facts_are_read_as_written(facts: list[f.Fact]) -> None:
    entries = [(fact, encode_rows(fact)) for fact in facts]
    assert decode_commit(encode_commit(entries)) == entries


@given(made.facts)
@STEADY
def test_rows_are_the_jobs_of_their_fact(fact: f.Fact) -> None:
    rows = encode_rows(fact)
    jobs = fact.jobs if isinstance(fact, f.FactWithJobs) else ()
    assert tuple(map(decode_job, rows)) == jobs


def test_a_job_is_encoded_once() -> None:
    fact = f.JobsPut((JOB,))
    body = encode_commit([(fact, encode_rows(fact))])
    assert body.count(b"shop.remind") == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x90rest",
        msgspec.msgpack.encode({}),
        msgspec.msgpack.encode([[[99, []], []]]),
        msgspec.msgpack.encode([[[11], []]]),
        msgspec.msgpack.encode([[[11, "one"], []]]),
        msgspec.msgpack.encode([[11, 1]]),
    ],
    ids=repr,
)
def test_what_is_no_commit_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptRecord, match="cannot be read"):
        decode_commit(body)


def test_a_damaged_row_is_found() -> None:
    fact = f.JobsFailed((JOB,), OwnerId(1))
    (row,) = encode_rows(fact)
    with pytest.raises(CorruptIndex):
        decode_commit(encode_commit([(fact, (row[:-1] + b"?",))]))


def test_no_facts_are_a_commit_too() -> None:
    assert decode_commit(encode_commit([])) == []
