"""Today's encoders make the bytes that were released, and today's decoders read them.

What is on the disks of users is like what ``bytes.json`` holds. A line of that file is
never changed: a new format is a new version, with lines of its own beside the old ones.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bide.format.checkpoint import decode_head, decode_table, encode_head, encode_table
from bide.format.commit import decode_commit, encode_commit, encode_rows
from bide.format.group import decode_group, encode_group
from bide.format.identity import decode_identity, encode_identity
from bide.format.record import decode_record, encode_record
from bide.format.row import (
    decode_job,
    decode_lease,
    decode_owner,
    decode_queue_row,
    encode_due_tail,
    encode_job,
    encode_lease,
    encode_owner,
    encode_pair,
    encode_queue,
    encode_queue_name,
    encode_queue_row,
    encode_u64,
)
from bide.format.segment import decode_segment_head, encode_segment_head, segment_name
from bide.format.state import decode_state, encode_state
from bide.model import facts as f
from bide.storage.index import (
    META_LOG,
    META_NEXT_JOB,
    META_NEXT_OWNER,
    decode_counts,
    encode_counts,
    encode_position,
)
from tests.golden import values as v

ENCODED: dict[str, Callable[[], bytes]] = {
    "checkpoint head 1": lambda: encode_head(v.CHECKPOINT_HEAD),
    "checkpoint table": lambda: encode_table(v.CHECKPOINT_CHECKS),
    "state": lambda: encode_state(v.STATE),
    "record 1": lambda: encode_record(v.RECORD_BODY, **v.RECORD)[0] + v.RECORD_BODY,
    "segment head 1": lambda: encode_segment_head(v.SEGMENT_HEAD),
    "segment name": lambda: segment_name(104_857_600).encode(),
    "identity 1": lambda: encode_identity(v.IDENTITY),
    "commit": lambda: encode_commit([(fact, encode_rows(fact)) for fact in v.FACTS]),
    "commit of queues": lambda: encode_commit(
        [(fact, encode_rows(fact)) for fact in v.QUEUE_FACTS]
    ),
    "queue row 1": lambda: encode_queue_row(v.QUEUE_ROW),
    "queues key": lambda: encode_queue_name("orders:mail"),
    "group 1": lambda: encode_group(v.GROUP),
    "job row 1": lambda: encode_job(v.JOB),
    "failed job row 1": lambda: encode_job(v.FAILED_JOB),
    "lease row": lambda: encode_lease(v.LEASE_ROW),
    "owner row": lambda: encode_owner(v.OWNER),
    "counts row": lambda: encode_counts(v.COUNTS),
    "position": lambda: encode_position(v.POSITION),
    "jobs key": lambda: encode_u64(7),
    "due key": lambda: encode_queue("mail") + encode_due_tail(-5, 1_767_225_600_000, 7),
    "leases key": lambda: encode_pair(3, 7),
    "failed key": lambda: encode_queue("mail") + encode_pair(1_767_225_700_000, 8),
    "keys key": lambda: encode_queue("mail") + b"order-42",
    "meta keys": lambda: b" ".join((META_LOG, META_NEXT_JOB, META_NEXT_OWNER)),
}

RELEASED: dict[str, bytes] = {
    name: bytes.fromhex(text)
    for name, text in json.loads(
        (Path(__file__).parent / "bytes.json").read_text(encoding="utf-8")
    ).items()
}


def test_every_format_is_here() -> None:
    assert set(RELEASED) == set(ENCODED)
    assert {type(fact) for fact in (*v.FACTS, *v.QUEUE_FACTS)} == set(f.Fact.__args__), (
        "a kind of fact is missing"
    )


@pytest.mark.parametrize("name", ENCODED)
def test_the_encoder_makes_what_was_released(name: str) -> None:
    assert ENCODED[name]().hex() == RELEASED[name].hex()


def test_the_record_is_read() -> None:
    data = RELEASED["record 1"]
    found = decode_record(memoryview(data), 0, offset=v.RECORD["offset"])
    assert found is not None
    record, end = found
    assert (record.body, end) == (v.RECORD_BODY, len(data))
    assert record.written_ms == v.RECORD["written_ms"]
    assert (record.synced, record.chain) == (v.RECORD["synced"], v.RECORD["chain"])


def test_the_segment_head_is_read() -> None:
    head = decode_segment_head(RELEASED["segment head 1"], base=v.SEGMENT_HEAD.base)
    assert head == v.SEGMENT_HEAD


def test_the_checkpoint_is_read() -> None:
    head = decode_head(RELEASED["checkpoint head 1"])
    assert head == v.CHECKPOINT_HEAD
    assert decode_table(RELEASED["checkpoint table"], head) == v.CHECKPOINT_CHECKS


def test_the_state_is_read() -> None:
    assert decode_state(RELEASED["state"]) == v.STATE


def test_the_identity_is_read() -> None:
    assert decode_identity(RELEASED["identity 1"]) == v.IDENTITY


def test_the_commit_is_read() -> None:
    entries = decode_commit(RELEASED["commit"])
    assert tuple(fact for fact, _ in entries) == v.FACTS
    assert [rows for _, rows in entries] == [encode_rows(fact) for fact in v.FACTS]
    entries = decode_commit(RELEASED["commit of queues"])
    assert tuple(fact for fact, _ in entries) == v.QUEUE_FACTS


def test_the_rows_are_read() -> None:
    assert decode_job(RELEASED["job row 1"], 7) == v.JOB
    assert decode_job(RELEASED["failed job row 1"], 8) == v.FAILED_JOB
    assert decode_queue_row(RELEASED["queue row 1"], "orders:mail") == v.QUEUE_ROW
    assert decode_group(RELEASED["group 1"]) == v.GROUP
    assert decode_lease(RELEASED["lease row"]) == v.LEASE_ROW
    assert decode_owner(RELEASED["owner row"]) == v.OWNER
    assert decode_counts(RELEASED["counts row"]) == v.COUNTS
