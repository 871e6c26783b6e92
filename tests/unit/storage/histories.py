"""Commands, histories of them, and what must be true of the tables behind each."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from bide.errors import BideError
from bide.format.row import decode_job, decode_lease, decode_queue, decode_u64, encode_queue
from bide.model import commands as c
from bide.model.job import JobId, JobRef, Lease, NewJob, OnConflict, OwnerId
from bide.model.queue import ChannelTerms
from bide.storage.disk import Disk, OsDisk
from bide.storage.environment import LmdbTables
from bide.storage.index import Counts, decode_counts
from bide.storage.log import Log, MemoryLog, SegmentLog
from bide.storage.parts import Parts
from bide.storage.store import Store
from bide.storage.tables import TABLE_NAMES, Environment, MemoryTables, TableName

STORE_ID = bytes(16)
Dump = dict[TableName, dict[bytes, bytes]]


def new_job(
    args: bytes = b"",
    *,
    queue: str = "q",
    due_ms: int = 0,
    priority: int = 0,
    key: str | None = None,
    on_conflict: OnConflict = "raise",
    max_retries: int = 5,
) -> NewJob:
    return NewJob(
        queue=queue,
        task="task",
        args=args,
        due_ms=due_ms,
        priority=priority,
        key=key,
        on_conflict=on_conflict,
        max_retries=max_retries,
    )


def put(*args: bytes, **options: Any) -> c.Put:
    """The command that puts a job for each of *args*."""
    return c.Put(tuple(new_job(one, **options) for one in args))


def register(token: str = "token") -> c.Register:
    return c.Register(token, "host", 1, ("q",))


def do(store: Store, command: c.Command, now_ms: int = 1_000) -> Any:
    """The answer to *command*, which must not be refused."""
    [answer] = store.submit([command], now_ms, sync="never")
    assert not isinstance(answer, BideError), answer
    return answer


def waiting_args(store: Store, queue: str = "q") -> list[bytes]:
    """What the waiting jobs of *queue* carry, in order of service."""
    with store.view() as view:
        rows = view.waiting(queue, 0, 1 << 53, 1 << 20)
        jobs = [view.job(job_id) for _, _, job_id in rows]
    return [job.args for job in jobs if job is not None]


def memory_store(log: Log | None = None) -> Store:
    tables, kept = MemoryTables(), log or MemoryLog()
    return Store(lambda: Parts(tables, kept), path="a store")


def open_segments(path: Path, *, disk: Disk | None = None, segment_size: int = 4096) -> SegmentLog:
    return SegmentLog(disk or OsDisk(), path, store_id=STORE_ID, segment_size=segment_size)


def disk_store(path: Path, *, disk: Disk | None = None, segment_size: int = 4096) -> Store:
    """A store in LMDB and segments under *path*, without a directory's guards."""
    for part in ("index", "log"):
        (path / part).mkdir(parents=True, exist_ok=True)

    def open_parts() -> Parts:
        log = open_segments(path / "log", disk=disk, segment_size=segment_size)
        return Parts(LmdbTables(path / "index"), log)

    return Store(open_parts, path=str(path))


def dump(environment: Environment) -> Dump:
    """Every row of every table."""
    tables: Dump = {}
    with environment.begin(write=False) as txn:
        for name in TABLE_NAMES:
            rows = tables[name] = {}
            cursor = txn.cursor(db=environment.tables[name])
            found = cursor.set_range(b"\0")
            while found:
                rows[bytes(cursor.key())] = bytes(cursor.value())
                found = cursor.next()
    return tables


def dump_store(store: Store) -> Dump:
    with store.view() as view:
        del view  # opened by it, and at rest
        assert store._parts is not None
        environment = store._parts.environment
    return dump(environment)


def check_tables(tables: Dump) -> None:
    """Each job is in one place, each key leads to its holder, and the counters are right."""
    places: Counter[int] = Counter()
    where: dict[str, Counter[str]] = {decode_queue(key): Counter() for key in tables["counts"]}
    for key in tables["due"]:
        places[decode_u64(key[-8:])] += 1
        where[decode_queue(key)]["waiting"] += 1
    for key in tables["failed"]:
        places[decode_u64(key[-8:])] += 1
        where[decode_queue(key)]["failed"] += 1
    for key, value in tables["leases"].items():
        row = decode_lease(value)
        assert key[:8] in tables["owners"]
        assert key[8:] == row.id.to_bytes(8, "big")
        places[row.id] += 1
        where[row.queue]["running"] += 1
    assert set(places.values()) <= {1}
    assert set(places) == {decode_u64(key) for key in tables["jobs"]}
    for key, value in tables["keys"].items():
        job = decode_job(tables["jobs"][value])
        assert job.key is not None
        assert key == encode_queue(job.queue) + job.key.encode()
    for key, value in tables["counts"].items():
        counts = decode_counts(value)
        found = where[decode_queue(key)]
        assert (counts.waiting, counts.running, counts.failed) == (
            found["waiting"],
            found["running"],
            found["failed"],
        )
        assert counts.put_total == _accounted_for(counts)
        assert min(msgspec.structs.astuple(counts)) >= 0


def _accounted_for(counts: Counts) -> int:
    here = counts.waiting + counts.running + counts.failed
    return here + counts.succeeded_total + counts.cancelled_total


class History:
    """Random commands, the same for the same *seed*, some of them refused."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.now_ms = 1_000
        self.owners: list[OwnerId] = []
        self.leases: list[Lease] = []
        self.kinds: Counter[str] = Counter()
        """What was done and not refused."""

    def run(self, step_count: int) -> None:
        kinds = [self.put, self.reserve, self.settle, self.cancel, self.move, self.kick]
        seldom = [self.register, self.expire, self.pause, self.purge, self.channel, self.decide]
        self.register()
        for _ in range(step_count):
            self.now_ms += self.random.randrange(200)
            self.random.choice([*kinds * 4, *seldom])()

    def do(self, command: c.Command) -> Any:
        [answer] = self.store.submit([command], self.now_ms, sync="never")
        if isinstance(answer, BideError):
            return None
        self.kinds[type(command).__name__] += 1
        return answer

    def queue(self) -> str:
        return self.random.choice(["q", "qq", "q.q", "Q", "t:", ":q"])

    def key(self) -> str:
        return self.random.choice(["a", "b", "ab", "\u2603"])

    def ref(self) -> JobRef:
        if self.random.random() < 0.3:
            return JobRef(queue=self.queue(), key=self.key())
        return JobRef(id=JobId(self.random.randrange(1, 200)))

    def put(self) -> None:
        def job() -> NewJob:
            return new_job(
                self.random.randbytes(self.random.randrange(40)),
                queue=self.queue(),
                due_ms=self.now_ms + self.random.randrange(-500, 1_500),
                priority=self.random.choice([-100, -1, 0, 0, 0, 7, 100]),
                key=self.key() if self.random.random() < 0.4 else None,
                on_conflict=self.random.choice(["raise", "skip", "replace"]),
                max_retries=self.random.randrange(3),
            )

        self.do(c.Put(tuple(job() for _ in range(self.random.randrange(1, 6)))))

    def register(self) -> None:
        self.owners.append(self.do(register(f"token {len(self.owners)}")))

    def reserve(self) -> None:
        owner = self.random.choice(self.owners)
        queues = tuple(self.random.sample(["q", "qq", "q.q", "Q", "t:a", "t:b", ":q"], 3))
        self.leases += self.do(c.Reserve(owner, queues, self.random.randrange(1, 5))) or ()

    def settle(self) -> None:
        if not self.leases:
            return
        lease = self.random.choice(self.leases)  # an old one too: then it is refused
        outcomes: list[c.Outcome] = [
            c.Completed(),
            c.Retried(self.now_ms + 300, "went wrong"),
            c.Snoozed(self.now_ms + 100),
            c.Returned(),
            c.Exhausted("no hope"),
            c.Dropped(),
        ]
        outcome = self.random.choice(outcomes)
        settlement = c.Settlement(lease.job.id, lease.attempt, outcome)
        if self.do(c.Settle(lease.owner, (settlement,))) == (None,):
            self.kinds[type(outcome).__name__] += 1

    def cancel(self) -> None:
        self.do(c.Cancel((self.ref(), self.ref())))

    def move(self) -> None:
        due_ms = self.now_ms + self.random.randrange(1_000)
        self.do(c.Move((c.Change(self.ref(), due_ms, self.random.choice([None, 3])),)))

    def kick(self) -> None:
        self.do(c.Kick((self.ref(),)))

    def pause(self) -> None:
        is_paused = self.random.random() < 0.3
        self.do(c.Pause(self.random.choice(["q", "qq", "t:a"]), is_paused))

    def purge(self) -> None:
        until = (self.now_ms, 1) if self.random.random() < 0.5 else None
        self.do(c.Purge(self.queue(), 3, until, self.random.choice([None, 40])))

    def channel(self) -> None:
        channel = self.random.choice(["a", "b"])
        if self.random.random() < 0.6:
            self.do(c.MakeChannels((self.terms(channel),)))
        else:
            self.do(c.DropChannel(f"t:{channel}", 5, is_begun=self.random.random() < 0.5))

    def terms(self, channel: str) -> ChannelTerms:
        max_retries = self.random.randrange(2)
        return ChannelTerms(topic="t", channel=channel, max_retries=max_retries, timeout_ms=0)

    def decide(self) -> None:
        with self.store.view() as view:
            waiting = view.waiting(":q", 0, 1 << 53, 5)
        if waiting:
            *_, job_id = self.random.choice(waiting)
            jobs = (new_job(queue="q", due_ms=self.now_ms, key=self.key()),)
            self.do(c.Decide(job_id, self.random.random() < 0.7, jobs))

    def expire(self) -> None:
        owner = self.random.choice(self.owners)
        started = frozenset(
            (lease.job.id, lease.attempt)
            for lease in self.leases
            if lease.owner == owner and lease.job.id % 2
        )
        self.do(c.Expire(owner, started, "its worker died", 2))


def run_history(store: Store, seed: int, step_count: int = 500) -> History:
    history = History(store, seed)
    history.run(step_count)
    return history
