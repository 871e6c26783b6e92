"""How much of everything a run does."""

from __future__ import annotations

import msgspec


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one run; all but *rounds* and the delayed ones are for each round."""

    name: str
    rounds: int
    sync_count: int
    """Bare syncs of the disk, and puts one by one that wait for one."""
    unsynced_count: int
    """Puts one by one that wait for none."""
    many_count: int
    """Jobs of one `enqueue_many`."""
    drain_count: int
    """Jobs that one worker drains."""
    delayed_count_few: int
    """Jobs that are due within a year, and not within the hour, in a store that has few."""
    delayed_count_many: int
    """The same, in a store that has many."""
    reserve_count: int
    """Looks for a job where none is due."""
    start_count: int
    """Puts whose start is waited for."""
    due_count: int
    """Jobs that fall due one after another, a millisecond apart."""
    pending_counts: tuple[int, int, int, int]
    """Jobs pending, at the levels of `bench.growth`; a tenth of them have keys."""
    growth_count: int
    """Operations at each level."""
    queue_count: int
    """Queues of one store."""
    key_count: int
    """Jobs of one store, each with a key."""
    herd_count: int
    """Jobs that fall due in one millisecond."""


FULL = Sizes(
    name="full",
    rounds=3,
    sync_count=300,
    unsynced_count=3_000,
    many_count=100_000,
    drain_count=20_000,
    delayed_count_few=1_000,
    delayed_count_many=1_000_000,
    reserve_count=20_000,
    start_count=250,
    due_count=3_000,
    pending_counts=(10_000, 100_000, 1_000_000, 10_000_000),
    growth_count=150,
    queue_count=10_000,
    key_count=1_000_000,
    herd_count=100_000,
)

QUICK = Sizes(
    name="quick",
    rounds=2,
    sync_count=200,
    unsynced_count=500,
    many_count=20_000,
    drain_count=5_000,
    delayed_count_few=1_000,
    delayed_count_many=100_000,
    reserve_count=5_000,
    start_count=100,
    due_count=500,
    pending_counts=(1_000, 10_000, 100_000, 1_000_000),
    growth_count=20,
    queue_count=1_000,
    key_count=10_000,
    herd_count=5_000,
)
