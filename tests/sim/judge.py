"""Tables against the plain model: every job, key, lease, owner and counter."""

from __future__ import annotations

from typing import Any

from bide.format.row import decode_queue, decode_u64
from bide.model.job import Job, JobId, OwnerId
from bide.storage.index import IndexView
from bide.storage.tables import Environment
from tests.model.plain import Row
from tests.sim.oracle import Model
from tests.unit.storage.histories import check_tables, dump


def differences(model: Model, environment: Environment) -> list[str]:
    """Where tables are not what *model* says; none if they are."""
    with environment.begin(write=False) as txn:
        view = IndexView(txn, environment.tables)
        tables = dump(environment)
        check_tables(tables)
        found = [
            *_compare("jobs", {decode_u64(key) for key in tables["jobs"]}, set(model.rows)),
            *_compare("owners", {owner.id for owner in view.owners()}, model.owners),
            *_compare("next id", view.next_job_id(), model.next_id),
            *_compare("next owner", view.next_owner_id(), model.next_owner),
            *_compare("queues", set(view.queues()), model.queues),
            *_compare("keys", _keys(tables["keys"]), model.keys),
        ]
        for job_id, row in model.rows.items():
            job = view.job(JobId(job_id))
            if job is not None:
                found += _compare(f"job {job_id}", _said(job, row, view), _meant(model, row))
        for queue in model.queues:
            found += _compare(
                f"counts of {queue}", _counts(view, queue), _meant_counts(model, queue)
            )
    return found


def _compare(what: str, found: object, expected: object) -> list[str]:
    return [] if found == expected else [f"{what}: {found}, not {expected}"]


def _keys(rows: dict[bytes, bytes]) -> dict[tuple[str, str], int]:
    keys = {}
    for key, value in rows.items():
        queue = decode_queue(key)
        keys[queue, key[1 + len(queue.encode()) :].decode()] = decode_u64(value)
    return keys


def _said(job: Job, row: Row, view: IndexView) -> dict[str, Any]:
    said: dict[str, Any] = {
        "queue": job.queue,
        "args": job.args,
        "due": job.due_ms,
        "priority": job.priority,
        "attempts": job.attempt,
        "snoozes": job.snoozes,
        "errors": [error.attempt for error in job.errors],
        "failed_at": job.failed_ms,
    }
    owner = view.owner_of(job.id)
    if owner is not None:
        lease = view.lease(OwnerId(owner), job.id)
        assert lease is not None
        said |= {"where": "running", "owner": owner, "attempt": lease.attempt}
        assert lease.attempt <= job.max_retries + 1, f"job {job.id} runs too often"
    else:
        said |= {"where": "waiting" if view.is_waiting(job) else "failed", "key": job.key}
    return said


def _meant(model: Model, row: Row) -> dict[str, Any]:
    meant: dict[str, Any] = {
        "queue": row.queue,
        "args": model.args[row.id],
        "due": row.due,
        "priority": row.priority,
        "attempts": row.attempts,
        "snoozes": row.snoozes,
        "errors": row.errors,
        "failed_at": row.failed_at,
        "where": row.where,
    }
    if row.where == "running":  # its key is told by who holds it
        meant |= {"owner": row.owner, "attempt": row.attempts + 1}
    else:
        meant["key"] = row.key
    return meant


def _counts(view: IndexView, queue: str) -> tuple[int, ...]:
    counts = view.counts(queue)
    assert counts is not None
    return (
        *(counts.waiting, counts.running, counts.failed, counts.put_total),
        *(counts.succeeded_total, counts.failed_total, counts.cancelled_total),
        counts.rescheduled_total,
    )


def _meant_counts(model: Model, queue: str) -> tuple[int, ...]:
    happened = ("put", "succeeded", "failed", "cancelled", "rescheduled")
    return (
        *(model.count(queue, where) for where in ("waiting", "running", "failed")),
        *(model.happened[queue, what] for what in happened),
    )
