"""What rings the workers' bells: a worker that waits must not find it by itself only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from bide.backends.memory import open_memory
from bide.backends.port import Backend
from bide.format.group import Group, encode_group
from bide.model.job import JobId, NewJob
from bide.model.queue import ChannelTerms
from bide.testing import ManualClock

TERMS = ChannelTerms(topic="t", channel="a", max_retries=0, timeout_ms=0)


def new_job(queue: str = "q", args: bytes = b"", delay_ms: int = 0) -> NewJob:
    return NewJob(queue=queue, task="t", args=args, due_ms=ManualClock().now_ms() + delay_ms)


@pytest.fixture
def backend() -> Iterator[Backend]:
    backend = open_memory(ManualClock())
    backend.pause("q")
    backend.make_channels([ChannelTerms(topic="t", channel="b", max_retries=0, timeout_ms=0)])
    yield backend
    backend.close()


def prepare(backend: Backend) -> JobId:
    group = encode_group(Group("", (new_job(),)))
    (result,) = backend.put([new_job(":q", group, delay_ms=1_000)])
    return result.id


def decide(backend: Backend) -> Any:
    job_id = prepare(backend)
    return lambda: backend.decide(job_id, is_commit=True)


LOUD: dict[str, Callable[[Backend], Callable[[], object]]] = {
    "resume": lambda b: lambda: b.resume("q"),
    "make": lambda b: lambda: b.make_channels([TERMS]),
    "publish": lambda b: lambda: b.put([new_job("t:")]),
    "commit": decide,
}
QUIET: dict[str, Callable[[Backend], Callable[[], object]]] = {
    "pause": lambda b: lambda: b.pause("other"),
    "publish for later": lambda b: lambda: b.put([new_job("t:", delay_ms=1_000)]),
    "purge": lambda b: lambda: b.purge("q"),
    "drop": lambda b: lambda: b.drop_channel("t", "b"),
    "prepare": lambda b: lambda: prepare(b),
}


def rings(backend: Backend, make: Callable[[Backend], Callable[[], object]]) -> int:
    act = make(backend)
    rung: list[None] = []
    cast("Any", backend)._presence.ring = lambda: rung.append(None)
    act()
    return len(rung)


@pytest.mark.parametrize("name", LOUD)
def test_what_makes_jobs_due_rings(backend: Backend, name: str) -> None:
    assert rings(backend, LOUD[name]) == 1


@pytest.mark.parametrize("name", QUIET)
def test_what_makes_none_due_rings_nobody(backend: Backend, name: str) -> None:
    assert rings(backend, QUIET[name]) == 0
