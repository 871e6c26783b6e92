"""Which segments of the log may go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bide.format.state import Retention

FOLLOWED_SIZE_MAX = 1 << 30
"""Bytes of the log kept for a follower that has not got them; one further behind starts anew."""


def first_kept(
    bases: Sequence[int],
    *,
    needed: int,
    end: int,
    followed: Sequence[int],
    retention: Retention,
    now_ms: int,
    written_ms: Callable[[int], int],
) -> int:
    """Where the log may begin: the base of the oldest segment that stays.

    Args:
        bases: Of all segments, in order; not empty.
        needed: Recovery reads from here on: the base of the newest checkpoint's segment.
        end: The log's end.
        followed: The offset that each follower has reached.
        retention: What is kept beyond that.
        written_ms: When the first record of the segment at a base was written.
    """
    kept = bases[0]
    for following in bases[1:]:
        goes = (
            following <= needed
            and end - following >= retention.size
            and all(got >= following or end - got > FOLLOWED_SIZE_MAX for got in followed)
            and (not retention.age_ms or now_ms - written_ms(following) >= retention.age_ms)
        )
        if not goes:
            break
        kept = following
    return kept
