"""Emptying a queue or ending a channel, step after step, for whoever counts along."""

from __future__ import annotations

from collections.abc import Iterator

from bide.backends.port import Backend
from bide.model.commands import Purged


def purge_steps(backend: Backend, queue: str) -> Iterator[Purged]:
    """Withdraw all waiting and failed jobs of *queue*; what each step has done."""
    step = backend.purge(queue)
    yield step
    while step.after is not None:
        step = backend.purge(queue, after=step.after)
        yield step


def drop_steps(backend: Backend, topic: str, channel: str) -> Iterator[Purged]:
    """End a channel; what each step has done."""
    step = backend.drop_channel(topic, channel)
    yield step
    while step.after is not None:
        # Nothing marks it as dropped before what is due in the topic has been copied.
        step = backend.drop_channel(topic, channel, is_begun=step.after != ())
        yield step
