"""Requests on their way into one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from bide.backends.port import Sync
from bide.errors import InvalidOption
from bide.jobs.task import SYNCS, Request
from bide.model.limits import check_batch

COMMIT_JOBS = 1_000
COMMIT_SIZE = 8 << 20
"""What `App.enqueue_many` puts in one commit, at most: jobs, and bytes of arguments."""


def take_batch(requests: Iterable[Request]) -> list[Request]:
    """The requests of the next commit; none at the end."""
    batch: list[Request] = []
    size = 0
    for request in islice(requests, COMMIT_JOBS):
        if type(request) is not Request:
            check_request(request, "enqueue_many")
        batch.append(request)
        size += len(request.args)
        if size >= COMMIT_SIZE:
            break
    return batch


def check_request(request: object, call: str) -> Request:
    """The request, if it is one; else `InvalidOption`."""
    if isinstance(request, Request):
        return request
    raise InvalidOption(
        f"{call}() takes what task.request(...) makes, not {type(request).__name__}"
    )


def check_requests(requests: Sequence[object], call: str) -> list[Request]:
    """At least one request, at most what fits in one commit.

    Raises:
        InvalidOption: There is none, or something else.
        BatchTooLarge: They are too many, or too large.
    """
    if not requests:
        raise InvalidOption(f"{call}() needs a request: give it what task.request(...) makes")
    checked = [check_request(request, call) for request in requests]
    check_batch(len(checked), sum(len(request.args) for request in checked))
    return checked


def asked_sync(batch: Sequence[Request]) -> Sync | None:
    """The strongest mode that a request of the commit asks for; None: the store's own."""
    return strongest_sync({request.options.sync for request in batch})


def strongest_sync(asked: set[Sync | None]) -> Sync | None:
    if asked <= {None, "never"}:
        return None if None in asked else "never"
    if None in asked:
        return "always"  # the store's default may be any: this is as strong as each
    return next(sync for sync in SYNCS if sync in asked)
