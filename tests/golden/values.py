"""The values whose bytes are kept in ``bytes.json``, by the same names."""

from zlib import crc32

from bide.format.checkpoint import CheckpointHead
from bide.format.group import Group
from bide.format.identity import Identity
from bide.format.segment import SegmentHead
from bide.format.state import State
from bide.model import facts as f
from bide.model.job import (
    AttemptError,
    Failed,
    Job,
    JobId,
    Leased,
    LeaseRow,
    NewJob,
    Owner,
    OwnerId,
    Scheduled,
    Withdrawn,
)
from bide.model.queue import QueueRow
from bide.storage.index import Counts
from bide.storage.log_files import Position

OWNER_ID = OwnerId(3)

JOB = Job(
    id=JobId(7),
    queue="mail",
    task="shop.remind",
    args=b"\x81\xa8order_id\x2a",
    due_ms=1_767_225_600_000,
    priority=-5,
    key="order-42",
    attempt=0,
    max_retries=5,
    timeout_ms=30_000,
    put_ms=1_767_225_500_000,
)

FAILED_JOB = Job(
    id=JobId(8),
    queue="mail",
    task="shop.remind",
    args=b"",
    due_ms=1_767_225_600_000,
    priority=100,
    key=None,
    attempt=2,
    max_retries=1,
    timeout_ms=0,
    put_ms=1_767_225_500_000,
    failed_ms=1_767_225_700_000,
    snoozes=1,
    misses=1,
    errors=(
        AttemptError(1, 1_767_225_650_000, "first"),
        AttemptError(2, 1_767_225_700_000, "second \u2603"),
    ),
)

LEASE_ROW = LeaseRow(JobId(7), "mail", -5, 1_767_225_600_000, 1, "order-42")

OWNER = Owner(
    id=OWNER_ID,
    token="0123456789abcdef0123456789abcdef",
    host="host.example",
    pid=4_242,
    started_ms=1_767_225_400_000,
    queues=("mail", "default"),
)

FACTS: tuple[f.Fact, ...] = (
    f.OwnerRegistered(OWNER),
    f.JobsPut((JOB, FAILED_JOB)),
    f.JobsReserved(OWNER_ID, (LEASE_ROW,)),
    f.JobsReturned(OWNER_ID, (LEASE_ROW,)),
    f.JobsCompleted((Withdrawn(JobId(7), "mail", "order-42", Leased(OWNER_ID)),)),
    f.JobsCancelled((Withdrawn(JobId(7), "mail", None, Scheduled(-5, 1_767_225_600_000)),)),
    f.JobsRescheduled((JOB,), OWNER_ID),
    f.JobsFailed((FAILED_JOB,), OWNER_ID),
    f.JobsMoved((JOB, JOB), (Failed(1_767_225_700_000), Scheduled(100, 1))),
    f.JobsQuarantined((Withdrawn(JobId(9), "mail", None, Leased(OWNER_ID)),), 1_767_225_700_000),
    f.OwnerRemoved(OWNER_ID),
)

QUEUE_ROW = QueueRow(
    name="orders:mail",
    made_ms=1_767_225_400_000,
    made_id=JobId(6),
    paused_ms=1_767_225_500_000,
    dropped_ms=None,
    max_retries=3,
    timeout_ms=30_000,
)

QUEUE_FACTS: tuple[f.Fact, ...] = (f.QueueChanged(QUEUE_ROW), f.QueueRemoved("orders:mail"))

GROUP = Group(
    "order 42",
    (
        NewJob(queue="mail", task="shop.remind", args=b"\x80", due_ms=1_767_225_600_000),
        NewJob(
            queue="orders:",
            task="orders:",
            args=b"",
            due_ms=1,
            priority=-5,
            key="order-42",
            on_conflict="replace",
            max_retries=0,
            timeout_ms=0,
        ),
    ),
)

SEGMENT_HEAD = SegmentHead(bytes(range(16)), 104_857_600, 0xDEADBEEF)
IDENTITY = Identity(store_id="000102030405060708090a0b0c0d0e0f", segment_size=104_857_600)
COUNTS = Counts(1, 2, 3, 4, 5, 6, 7, 1 << 40)
POSITION = Position(104_857_600, 104_857_700, 0xDEADBEEF)
RECORD = {
    "offset": 104_857_648,
    "written_ms": 1_767_225_600_000,
    "synced": 104_857_600,
    "chain": 0xDEADBEEF,
}
RECORD_BODY = b"the body"

CHECKPOINT_CHECKS = [1, 0xDEADBEEF]
CHECKPOINT_HEAD = CheckpointHead(
    store_id=bytes.fromhex(IDENTITY.store_id),
    base=104_857_600,
    end=104_857_700,
    chain=0xDEADBEEF,
    made_ms=1_767_225_600_000,
    image_size=(1 << 20) + 4096,
    segment_size=104_857_600,
    table_check=crc32(b"\0\0\0\1\xde\xad\xbe\xef"),
)
STATE = State(index=3, log=2, boot="6a1c", closed_at=104_857_700, leader="/var/jobs")
