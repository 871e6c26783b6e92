"""What has happened: the log's content, and all that can change a table.

A fact says enough to be applied without asking anything else, so applying
the same facts to an empty index always makes the same index. Tags and the
order of fields are their stored form: add only at the end.
"""

from __future__ import annotations

import msgspec

from bide.model.job import Job, LeaseRow, Owner, OwnerId, Place, Withdrawn
from bide.model.queue import QueueRow


class JobsPut(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=1):
    """New jobs wait."""

    jobs: tuple[Job, ...]


class JobsReserved(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=2):
    """Waiting jobs became leases of *owner*."""

    owner: OwnerId
    leases: tuple[LeaseRow, ...]


class JobsReturned(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=3):
    """Leases of *owner* ended without a run; the jobs wait where they did."""

    owner: OwnerId
    leases: tuple[LeaseRow, ...]


class JobsCompleted(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=4):
    """Leases ended in success; the jobs are gone."""

    jobs: tuple[Withdrawn, ...]


class JobsCancelled(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=5):
    """Jobs were withdrawn; they are gone."""

    jobs: tuple[Withdrawn, ...]


class JobsRescheduled(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=6):
    """Leases of *owner* ended; the jobs, as they are now, wait again."""

    jobs: tuple[Job, ...]
    owner: OwnerId


class JobsFailed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=7):
    """Leases of *owner* ended; the jobs, as they are now, failed for good."""

    jobs: tuple[Job, ...]
    owner: OwnerId


class JobsMoved(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=8):
    """Jobs left *places* and wait, as they are now, elsewhere."""

    jobs: tuple[Job, ...]
    places: tuple[Place, ...]


class JobsQuarantined(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=9):
    """Jobs whose stored row cannot be read were set aside as failed, row untouched."""

    jobs: tuple[Withdrawn, ...]
    at_ms: int


class OwnerRegistered(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=10):
    """A worker process is known."""

    owner: Owner


class OwnerRemoved(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=11):
    """A worker process is gone, and has no leases."""

    owner: OwnerId


class QueueChanged(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=12):
    """This is kept of a queue from now on."""

    row: QueueRow


class QueueRemoved(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=13):
    """A channel is gone, and has no jobs; its counters go with it."""

    queue: str


Fact = (
    JobsPut
    | JobsReserved
    | JobsReturned
    | JobsCompleted
    | JobsCancelled
    | JobsRescheduled
    | JobsFailed
    | JobsMoved
    | JobsQuarantined
    | OwnerRegistered
    | OwnerRemoved
    | QueueChanged
    | QueueRemoved
)

FactWithJobs = JobsPut | JobsRescheduled | JobsFailed | JobsMoved
"""The facts that write whole jobs."""
