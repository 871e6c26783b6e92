"""How a worker runs."""

from __future__ import annotations

import msgspec

from bide.errors import InvalidOption
from bide.model.limits import LEASES_MAX, check_source

THREADS_MAX = LEASES_MAX // 2


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a `Worker`, checked when built."""

    queues: tuple[str, ...] = ()
    """Served in this order, strictly; empty: every queue that a task of the app names, sorted."""
    threads: int = 8
    burst: bool = False
    """Stop once nothing is due and nothing runs."""
    drain_timeout_s: float = 30.0
    """How long a stopping worker lets its running jobs go on."""

    def __post_init__(self) -> None:
        if not isinstance(self.queues, (tuple, list)):
            raise InvalidOption(f"queues {self.queues!r}: use a tuple of names")
        for queue in self.queues:
            check_source(queue)
        if len(set(self.queues)) < len(self.queues):
            raise InvalidOption(f"queues {', '.join(self.queues)}: one is named twice")
        threads: object = self.threads
        is_count = isinstance(threads, int) and not isinstance(threads, bool)
        if not (is_count and 1 <= self.threads <= THREADS_MAX):
            raise InvalidOption(f"threads {self.threads!r}: use 1 to {THREADS_MAX}")
        timeout_s: object = self.drain_timeout_s
        is_number = isinstance(timeout_s, (int, float)) and not isinstance(timeout_s, bool)
        if not (is_number and self.drain_timeout_s >= 0):
            raise InvalidOption(f"drain timeout {timeout_s!r}: use 0 or more seconds")
