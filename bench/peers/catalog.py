"""Who is measured, how it is set up, and what of it is on the disk when."""

from __future__ import annotations

import msgspec


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """A peer in one of its settings."""

    name: str
    driver: str
    """A module of `bench.peers.drivers`."""
    package: str
    """Whose version is told."""
    needs: tuple[str, ...] = ()
    """Of what ``requirements/peers.txt`` names."""
    env: dict[str, str] = {}
    is_durable: bool = False
    """Every put is on the disk when its call returns."""
    policy: str
    is_own: bool = False
    """bide, in the interpreter of this benchmark."""
    has_threads: bool = False
    """Its puts may come from many threads of one process."""
    worker: str
    """How one worker process is set up: with options that its own pages tell of."""
    drained: int = 3_000
    """Jobs that are drained: more where they are drained fast.

    Fixed, and small: what a job costs some peers grows with the jobs that are pending.
    """


_IN_MEMORY = "Redis, appendonly no: in memory, nothing synced"
_APPENDED = "Redis, appendfsync always: before each answer"
_HUEY = "1 thread, as by default; max_delay 0.1 s, not 10"
_PROCRASTINATE = "4 jobs at once on its one event loop; jobs deleted when done"
_PGQUEUER = "batch_size 100"
_LITEQUEUE = "a loop over pop and done, as it has no worker; looks again after 5 ms"
_LOCALQUEUE = "its Worker; poll_interval 0.01 s"
_PG = ("synchronous_commit off: synced within a second", "synchronous_commit on: each commit")
_FULL = "WAL, synchronous=FULL: each commit"
_NORMAL = "WAL, synchronous=NORMAL: synced when the WAL is emptied"

VARIANTS: tuple[Variant, ...] = (
    *(
        Variant(
            name=f"bide, sync={sync}",
            driver="bide_driver",
            package="bide",
            env={"BENCH_SYNC": sync},
            is_durable=sync == "always",
            policy=policy,
            is_own=True,
            has_threads=True,
            worker="1 thread",
            drained=100_000,
        )
        for sync, policy in (
            ("always", "fdatasync before each put is answered"),
            ("interval", "fdatasync within 50 ms"),
            ("never", "the kernel writes when it will"),
        )
    ),
    Variant(
        name="huey on SQLite",
        driver="huey_driver",
        package="huey",
        needs=("huey",),
        policy="WAL, synchronous=OFF: nothing synced",
        worker=_HUEY,
        drained=20_000,
    ),
    Variant(
        name="huey on SQLite, fsync",
        driver="huey_driver",
        package="huey",
        needs=("huey",),
        is_durable=True,
        has_threads=True,
        policy=_FULL,
        worker=_HUEY,
    ),
    *(
        Variant(
            name="huey on Redis, appendfsync=always" if is_durable else "huey on Redis",
            driver="huey_driver",
            package="huey",
            needs=("huey", "redis-server"),
            env={"BENCH_ON": "redis"},
            is_durable=is_durable,
            has_threads=True,
            policy=_APPENDED if is_durable else _IN_MEMORY,
            worker=_HUEY,
            drained=3_000 if is_durable else 10_000,
        )
        for is_durable in (False, True)
    ),
    Variant(
        name="dramatiq on Redis",
        driver="dramatiq_driver",
        package="dramatiq",
        needs=("dramatiq", "redis-server"),
        env={"dramatiq_queue_prefetch": "200"},  # 16 by default: it then waits between fetches
        policy=_IN_MEMORY,
        worker="8 threads, as by default; dramatiq_queue_prefetch 200",
        drained=10_000,
    ),
    Variant(
        name="Celery on Redis",
        driver="celery_driver",
        package="celery",
        needs=("celery", "redis-server"),
        policy=_IN_MEMORY,
        worker="solo pool; worker_prefetch_multiplier 128",
    ),
    Variant(
        name="RQ on Redis",
        driver="rq_driver",
        package="rq",
        needs=("rq", "redis-server"),
        policy=_IN_MEMORY,
        worker="SimpleWorker, which does not fork for each job",
    ),
    *(
        Variant(
            name=f"{name}, synchronous_commit={'on' if is_durable else 'off'}",
            driver=f"{name}_driver",
            package=name,
            needs=(name, "postgresql"),
            is_durable=is_durable,
            has_threads=is_durable and name == "procrastinate",
            policy=_PG[is_durable],
            worker=_PROCRASTINATE if name == "procrastinate" else _PGQUEUER,
            drained=3_000 if name == "procrastinate" else 20_000,
        )
        for name in ("procrastinate", "pgqueuer")
        for is_durable in (False, True)
    ),
    Variant(
        name="litequeue",
        driver="litequeue_driver",
        package="litequeue",
        needs=("litequeue",),
        policy=_NORMAL,
        worker=_LITEQUEUE,
    ),
    Variant(
        name="litequeue, synchronous=FULL",
        driver="litequeue_driver",
        package="litequeue",
        needs=("litequeue",),
        is_durable=True,
        policy=_FULL,
        worker=_LITEQUEUE,
    ),
    Variant(
        name="localqueue",
        driver="localqueue_driver",
        package="localqueue",
        needs=("localqueue",),
        policy=_NORMAL,
        worker=_LOCALQUEUE,
    ),
    Variant(
        name="localqueue, durable",
        driver="localqueue_driver",
        package="localqueue",
        needs=("localqueue",),
        is_durable=True,
        has_threads=True,
        policy=_FULL,
        worker=_LOCALQUEUE,
    ),
    Variant(
        name="flexiq",
        driver="flexiq_driver",
        package="flexiq",
        needs=("flexiq",),
        env={"FLEXIQ_LOG_LEVEL": "WARNING"},  # else it writes two lines for each job
        policy=_NORMAL,
        worker="4 threads; scheduler_poll_interval_ms 1, not 50; scheduler_batch_size 100, not 1",
    ),
    Variant(
        name="honker",
        driver="honker_driver",
        package="honker",
        needs=("honker",),
        policy=_NORMAL,
        worker="its claim loop",
    ),
)
