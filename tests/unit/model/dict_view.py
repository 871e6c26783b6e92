"""What the rules look at, in dicts, with one job in a chosen place."""

from msgspec.structs import replace

from bide.errors import CorruptIndex
from bide.model.job import Job, JobId, LeaseRow, Owner, OwnerId
from bide.model.queue import QueueRow
from bide.model.view import DueRow

NOW_MS = 1_000_000
OWNER = OwnerId(7)
JOB = Job(
    id=JobId(1),
    queue="q",
    task="t",
    args=b"body",
    due_ms=NOW_MS,
    priority=0,
    key="k",
    attempt=0,
    max_retries=1,
    timeout_ms=0,
    put_ms=NOW_MS - 5,
)


class DictView:
    """Fulfils `bide.model.view.View`. Nothing changes it: a test looks at the facts."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, Job] = {}
        self.unreadable: set[JobId] = set()
        self.places: dict[JobId, tuple[str, int, int]] = {}
        self.rows: dict[tuple[OwnerId, JobId], LeaseRow] = {}
        self.keys: dict[tuple[str, str], JobId] = {}
        self.queues: dict[str, QueueRow] = {}
        self.owners = {OWNER: Owner(id=OWNER, token="x", host="h", pid=1, started_ms=0, queues=())}

    def add_waiting(self, job: Job) -> None:
        self.jobs[job.id] = job
        self.places[job.id] = (job.queue, job.priority, job.due_ms)
        self._hold(job)

    def add_running(self, job: Job, owner: OwnerId = OWNER) -> None:
        self.jobs[job.id] = job
        self.rows[owner, job.id] = LeaseRow(
            job.id, job.queue, job.priority, job.due_ms, job.attempt + 1, job.key
        )
        self._hold(job)

    def add_failed(self, job: Job) -> None:
        self.jobs[job.id] = replace(job, failed_ms=NOW_MS - 1)

    def _hold(self, job: Job) -> None:
        if job.key is not None:
            self.keys[job.queue, job.key] = job.id

    # ------------------------------------------------------------ the view

    def next_job_id(self) -> JobId:
        return JobId(max(self.jobs, default=0) + 1)

    def next_owner_id(self) -> OwnerId:
        return OwnerId(max(self.owners, default=0) + 1)

    def job(self, job_id: JobId) -> Job | None:
        if job_id in self.unreadable:
            raise CorruptIndex(f"job {job_id}: damaged")
        return self.jobs.get(job_id)

    def holder(self, queue: str, key: str) -> JobId | None:
        return self.keys.get((queue, key))

    def due(self, queue: str, now_ms: int, limit: int) -> list[tuple[int, int, JobId]]:
        return self.waiting_rows(queue, 0, now_ms + 1)[:limit]

    def waiting_rows(self, queue: str, from_ms: int, until_ms: int) -> list[DueRow]:
        rows = [
            (-priority, due_ms, job_id)
            for job_id, (name, priority, due_ms) in self.places.items()
            if name == queue and from_ms <= due_ms < until_ms
        ]
        return [(-priority, due_ms, job_id) for priority, due_ms, job_id in sorted(rows)]

    def waiting(
        self,
        queue: str,
        from_ms: int,
        until_ms: int,
        limit: int,
        after: tuple[int, int, int] | None = None,
    ) -> list[DueRow]:
        rows = self.waiting_rows(queue, from_ms, until_ms)
        if after is not None:
            behind = (-after[0], after[1], after[2])
            rows = [row for row in rows if (-row[0], row[1], row[2]) > behind]
        return rows[:limit]

    def next_due(self, queue: str) -> int | None:
        return min((due for _, due, _ in self.waiting_rows(queue, 0, 1 << 53)), default=None)

    def failed(
        self, queue: str, limit: int, after: tuple[int, int] | None = None
    ) -> list[tuple[int, JobId]]:
        rows = sorted(
            (job.failed_ms, job.id)
            for job in self.jobs.values()
            if job.queue == queue and job.failed_ms is not None
        )
        return [row for row in rows if after is None or row > after][:limit]

    def live(self, queue: str) -> tuple[int, int, int]:
        running = sum(row.queue == queue for row in self.rows.values())
        waiting = len(self.waiting_rows(queue, 0, 1 << 53))
        return waiting, running, len(self.failed(queue, 1 << 30))

    def queue(self, name: str) -> QueueRow | None:
        return self.queues.get(name)

    def channels(self, topic: str) -> list[QueueRow]:
        return [row for name, row in self.queues.items() if name.startswith(f"{topic}:")]

    def is_waiting(self, job: Job) -> bool:
        return self.places.get(job.id) == (job.queue, job.priority, job.due_ms)

    def owner(self, owner: OwnerId) -> Owner | None:
        return self.owners.get(owner)

    def owner_of(self, job_id: JobId) -> OwnerId | None:
        return next((owner for owner, held in self.rows if held == job_id), None)

    def lease(self, owner: OwnerId, job_id: JobId) -> LeaseRow | None:
        return self.rows.get((owner, job_id))

    def leases(self, owner: OwnerId, limit: int) -> list[LeaseRow]:
        held = sorted(job_id for name, job_id in self.rows if name == owner)
        return [self.rows[owner, job_id] for job_id in held[:limit]]
