"""The queue: what its name tells, and what is kept of one beside its jobs.

Names with a colon are made by bide alone::

    mail            a queue, named by a user
    orders:mail     the channel *mail* of topic *orders*
    orders:         where messages of topic *orders* wait until they are due
    :mail           undecided transactions, the first job of which goes to *mail*
"""

from __future__ import annotations

import msgspec

from bide.model.job import JobId

PREPARED_TASK = "bide.prepared"
"""The task of the job that stands for an undecided transaction."""


PREPARED_PREFIX = ":"


class QueueRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """What is kept of a queue. The order of the fields is its stored form: add only at the end."""

    name: str
    made_ms: int
    """When it was made, for a channel; else when it was first paused."""
    made_id: JobId = JobId(0)
    """The id that the next job was to have then: a message with it, or a higher one, came later."""
    paused_ms: int | None = None
    """Since when nothing is reserved from it."""
    dropped_ms: int | None = None
    """Since when a channel gets no copies; the row goes with the last job."""
    max_retries: int = 5
    """Of a channel's copies."""
    timeout_ms: int = 120_000
    """The same; 0: no limit."""

    @property
    def is_served(self) -> bool:
        """Whether jobs may be reserved from it."""
        return self.paused_ms is None and self.dropped_ms is None


class ChannelTerms(msgspec.Struct, frozen=True, kw_only=True):
    """A channel as it is asked for."""

    topic: str
    channel: str
    max_retries: int
    timeout_ms: int

    @property
    def queue(self) -> str:
        return channel_queue(self.topic, self.channel)


def channel_queue(topic: str, channel: str) -> str:
    """The queue that a channel is."""
    return f"{topic}:{channel}"


def topic_queue(topic: str) -> str:
    """Where the messages of a topic wait for their time."""
    return f"{topic}:"


def topic_of(queue: str) -> str | None:
    """The topic of a channel's queue; None for any other queue.

    >>> topic_of("orders:mail"), topic_of("mail"), topic_of("orders:"), topic_of(":mail")
    ('orders', None, None, None)
    """
    topic, _, channel = queue.partition(":")
    return topic if topic and channel else None


def channel_of(queue: str) -> str:
    """The channel's own name in its queue's."""
    return queue.partition(":")[2]


def prepared_queue(queue: str) -> str:
    """Where transactions wait to be decided, the first job of which goes to *queue*."""
    return PREPARED_PREFIX + queue


def is_prepared(queue: str) -> bool:
    """Whether *queue* holds undecided transactions."""
    return queue.startswith(PREPARED_PREFIX)
