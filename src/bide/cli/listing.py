"""A listing of jobs over several states, page by page."""

from __future__ import annotations

import base64

import msgspec

from bide.backends.port import JobInfo
from bide.errors import InvalidOption
from bide.jobs.app import App
from bide.model.job import State
from bide.model.limits import PAGE_COUNT_MAX


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a listing goes on, and which listing that is."""

    states: tuple[State, ...]
    """Those still to come; the first is under way."""
    queue: str | None
    after: str | None
    """The backend's own cursor in the first state."""

    def encode(self) -> str:
        """One word for a command line."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def decode_cursor(word: str, states: tuple[State, ...], queue: str | None) -> Cursor:
    """The cursor that *word* encodes, for the listing of *states* and *queue*.

    Raises:
        InvalidOption: It is none, or belongs to another listing.
    """
    try:
        data = base64.b64decode(word + "=" * (-len(word) % 4), altchars=b"-_", validate=True)
        cursor = msgspec.json.decode(data, type=Cursor)
    except (ValueError, msgspec.MsgspecError):
        raise InvalidOption(f"--after {word}: use what an earlier call printed") from None
    if not cursor.states or states[-len(cursor.states) :] != cursor.states or cursor.queue != queue:
        raise InvalidOption(
            f"--after {word}: give --state and --queue as in the call that printed it"
        )
    return cursor


class Listing(msgspec.Struct, frozen=True):
    """Some jobs, in order."""

    jobs: tuple[JobInfo, ...]
    unreadable: tuple[int, ...]
    """Ids of jobs whose stored rows are damaged."""
    next: str | None
    """What to give to ``--after``; None if that was all."""


def list_jobs(
    app: App, states: tuple[State, ...], *, queue: str | None, limit: int, after: str | None
) -> Listing:
    """Up to *limit* jobs: all in the first state, then all in the next.

    Args:
        queue: None: of all queues.
        after: The `next` of an earlier listing.

    Raises:
        InvalidOption: *after* is not from this listing.
    """
    cursor = Cursor(states, queue, None) if after is None else decode_cursor(after, states, queue)
    jobs: list[JobInfo] = []
    unreadable: list[int] = []
    while cursor.states and (room := limit - len(jobs) - len(unreadable)) > 0:
        page = app.jobs(
            cursor.states[0], queue=queue, limit=min(room, PAGE_COUNT_MAX), after=cursor.after
        )
        jobs += page.jobs
        unreadable += page.unreadable
        states_left = cursor.states if page.next else cursor.states[1:]
        cursor = Cursor(states_left, queue, page.next)
    return Listing(tuple(jobs), tuple(unreadable), cursor.encode() if cursor.states else None)
