"""The documents that ``--json`` prints: the structs' own fields, times in Unix ms.

The fields are a promise to programs: new ones may come, none goes or changes.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from bide.backends.port import ChannelInfo, JobInfo, Stats
from bide.cli.listing import Listing
from bide.cli.phrases import decode_args
from bide.errors import BideError
from bide.model.job import JobRef, Owner

Document = dict[str, Any]


def stats_document(stats: Stats) -> Document:
    return {
        "now_ms": stats.now_ms,
        "queues": [asdict(queue) for queue in stats.queues],
        "owners": [_owner_document(owner) for owner in stats.owners],
    }


def channels_document(channels: Sequence[ChannelInfo]) -> Document:
    return {"channels": [asdict(channel) for channel in channels]}


def listing_document(listing: Listing) -> Document:
    return {
        "jobs": [job_document(info) for info in listing.jobs],
        "next": listing.next,
        "unreadable": list(listing.unreadable),
    }


def job_document(info: JobInfo) -> Document:
    """A job; ``args`` are decoded, or null if that can't be, and ``args_base64`` as stored."""
    fields = asdict(info.job)
    raw = fields.pop("args")
    fields["args"] = _json_value(decode_args(raw, info.job.task))
    fields["args_base64"] = base64.b64encode(raw).decode()
    fields["errors"] = [asdict(error) for error in info.job.errors]
    fields["state"] = info.state.value
    fields["owner"] = None if info.owner is None else _owner_document(info.owner)
    return fields


def changes_document(refs: Sequence[JobRef], errors: Sequence[BideError | None]) -> Document:
    """What became of each job that was to be changed."""
    return {
        "results": [
            {
                "id": ref.id,
                "queue": ref.queue or None,
                "key": ref.key,
                "done": error is None,
                "error": None if error is None else type(error).__name__,
                "message": None if error is None else str(error),
            }
            for ref, error in zip(refs, errors, strict=True)
        ]
    }


def _owner_document(owner: Owner) -> Document:
    return asdict(owner)


def _json_value(value: Any) -> Any:
    """*value* if JSON can hold it, as far as it can; else None."""
    if value is msgspec.UNSET:
        return None
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
    return value
