"""SIGKILL of publishers and workers: each message is copied to each channel once, or to none."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

import bide
from bide.errors import JobNotFound
from bide.model.facts import JobsPut
from tests.crash.processes import GUARD_S, Child, check_store, facts

CHANNELS = ("numbers:left", "numbers:right")
STRIDE = 1_000_000


def serve(path: Path, *options: str) -> Child:
    return Child(path, "bide.cli", "worker", "tests.crash.publisher:app", *options)


def test_no_copy_is_lost_or_doubled(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with bide.App(path.as_uri()) as app:
        for queue in CHANNELS:
            app.make_channel(*queue.split(":"))
    accepted: list[int] = []
    for turn in range(4):
        publishers = [
            Child(path, "tests.crash.publisher", str((2 * turn + side) * STRIDE))
            for side in range(2)
        ]
        workers = [serve(path, "--threads", "2") for _ in range(2)]
        workers[0].read_until("left")
        for publisher in publishers:
            accepted += [int(number) for (number,) in publisher.read(10 + 7 * turn)]
        workers[1].kill()
        publishers[0].kill()
        workers[0].kill()
        publishers[1].kill()
        accepted += [int(words[0]) for p in publishers for words in p.rest()]
        for one in workers:
            one.rest()
    last = serve(path)  # also asks about what was left undecided
    with bide.App(path.as_uri()) as app:
        wait_until_empty(app, last)
        assert app.stats().owners == ()
    copies = {queue: Counter[int]() for queue in CHANNELS}
    for fact in facts(path):
        if isinstance(fact, JobsPut):
            for job in fact.jobs:
                if job.queue in copies:
                    copies[job.queue][msgspec.msgpack.decode(job.args)["number"]] += 1
    left, right = copies.values()
    assert left == right
    assert set(left.values()) == {1}
    assert set(accepted) <= set(left)
    assert len(accepted) > 100
    check_store(path)


def wait_until_empty(app: bide.App, worker: Child) -> None:
    """Let *worker* go on until nothing is left to do, and stop it."""
    until_s = time.monotonic() + GUARD_S
    while any(q.waiting or q.running or q.prepared for q in app.stats().queues):
        assert time.monotonic() < until_s, "something is left for ever"
    assert all(q.failed == 0 for q in app.stats().queues)
    worker.stop()


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_decision_holds_after_its_process_has_died(tmp_path: Path, is_committed: bool) -> None:
    path = tmp_path / "store"
    with bide.App(path.as_uri()) as app:
        request = app.message("numbers", {"number": 1})
        prepared = app.prepare(request)
        if is_committed:
            prepared.commit()
        else:
            prepared.rollback()
    (path / "boot").write_text("another boot")  # the index is made anew from the log
    with bide.App(path.as_uri()) as app:
        assert app.get(prepared.id) is None
        assert len(app.jobs(bide.State.READY).jobs) == int(is_committed)
        with pytest.raises(JobNotFound):
            app.backend.decide(prepared.id, is_commit=True)
