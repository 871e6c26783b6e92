"""Values for the formats, made by Hypothesis."""

from hypothesis import strategies as st

from bide.model import facts as f
from bide.model.job import (
    AttemptError,
    Failed,
    Job,
    Leased,
    LeaseRow,
    Owner,
    Place,
    Scheduled,
    Withdrawn,
)
from bide.model.limits import PRIORITY_MAX, PRIORITY_MIN, TIME_MS_MAX

u64 = st.integers(0, (1 << 64) - 1)
ids = st.integers(1, (1 << 63) - 1)
times = st.integers(0, TIME_MS_MAX)
priorities = st.integers(PRIORITY_MIN, PRIORITY_MAX)
queues = st.text("abcXYZ019_.-", min_size=1, max_size=64)
texts = st.text(max_size=20)
keys = st.none() | st.text(min_size=1, max_size=20).filter(lambda key: key.isprintable())

errors = st.builds(AttemptError, attempt=ids, at_ms=times, text=texts)
jobs: st.SearchStrategy[Job] = st.builds(
    Job,
    id=ids,
    queue=queues,
    task=texts,
    args=st.binary(max_size=40),
    due_ms=times,
    priority=priorities,
    key=keys,
    attempt=st.integers(0, 70_000),
    max_retries=st.integers(0, 65_535),
    timeout_ms=times,
    put_ms=times,
    failed_ms=st.none() | times,
    snoozes=st.integers(0, 1000),
    misses=st.integers(0, 100),
    errors=st.lists(errors, max_size=3).map(tuple),
)
places: st.SearchStrategy[Place] = st.one_of(
    st.builds(Scheduled, priority=priorities, due_ms=times),
    st.builds(Leased, owner=ids),
    st.builds(Failed, failed_ms=times),
)
lease_rows = st.builds(
    LeaseRow,
    id=ids,
    queue=queues,
    priority=priorities,
    due_ms=times,
    attempt=st.integers(1, 70_000),
    key=keys,
)
owners = st.builds(
    Owner,
    id=ids,
    token=texts,
    host=texts,
    pid=st.integers(1, 1 << 31),
    started_ms=times,
    queues=st.lists(queues, max_size=3).map(tuple),
)
withdrawn = st.builds(Withdrawn, id=ids, queue=queues, key=keys, place=places)


def some(values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(values, min_size=1, max_size=3).map(tuple)


job_tuples = st.lists(jobs, min_size=1, max_size=3).map(tuple)
facts: st.SearchStrategy[f.Fact] = st.one_of(
    st.builds(f.JobsPut, jobs=job_tuples),
    st.builds(f.JobsReserved, owner=ids, leases=some(lease_rows)),
    st.builds(f.JobsReturned, owner=ids, leases=some(lease_rows)),
    st.builds(f.JobsCompleted, jobs=some(withdrawn)),
    st.builds(f.JobsCancelled, jobs=some(withdrawn)),
    st.builds(f.JobsRescheduled, jobs=job_tuples, owner=ids),
    st.builds(f.JobsFailed, jobs=job_tuples, owner=ids),
    job_tuples.flatmap(
        lambda moved: st.builds(
            f.JobsMoved,
            jobs=st.just(moved),
            places=st.lists(places, min_size=len(moved), max_size=len(moved)).map(tuple),
        )
    ),
    st.builds(f.JobsQuarantined, jobs=some(withdrawn), at_ms=times),
    st.builds(f.OwnerRegistered, owner=owners),
    st.builds(f.OwnerRemoved, owner=ids),
)
