"""A disk that takes its time to sync, or fails to: jobs start on time, and a worker's end waits."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bide.backends.embedded import Embedded
from bide.errors import StoreClosed, StoreError
from bide.format.identity import Identity
from bide.jobs.app import App
from bide.model import commands as c
from bide.storage.directory import open_directory
from bide.storage.presence import DiskPresence
from bide.storage.store import Store
from bide.testing.clock import ManualClock
from bide.worker.worker import WorkerSummary
from tests.unit.storage.disks import FaultyDisk
from tests.worker.running import Running, Watched, burst, wait


class HeldDisk(FaultyDisk):
    """A disk whose syncs end when the test lets them."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()
        self.released.set()
        self.syncing: list[threading.Thread] = []

    def sync(self, fd: int) -> None:
        self.syncing.append(threading.current_thread())
        try:
            super().sync(fd)
        finally:
            wait(self.released)


class Scene:
    """An App with ``sync="always"`` on a `HeldDisk`, and its backend; one job has been run."""

    def __init__(self, path: Path) -> None:
        self.disk = HeldDisk()
        self.clock = ManualClock()
        identity = Identity(store_id="ab" * 16)
        directory = open_directory(path, create=True, new_identity=identity, disk=self.disk)
        self.store = Store(directory.open_parts, path=str(path))
        presence = DiskPresence(path / "owners", self.clock.monotonic)
        self.watched = Watched(
            Embedded(self.store, presence, self.clock, sync="always", on_close=self.store.close)
        )
        self.app = App("any:", opener=self._open, clock=self.clock)
        self.is_waiting = threading.Event()
        """Set as a worker waits for what it has settled."""
        self.started = [threading.Event() for _ in range(3)]
        task = self.app.task(name="task", max_retries=0)(lambda number: self.started[number].set())
        self.task = task.using(sync="never")  # the test itself waits for no disk
        self.task.enqueue(0)
        burst(self.app)
        self.store.persist(self.store.end, "always")
        self.disk.syncing.clear()
        self.disk.synced.clear()
        self.is_waiting.clear()

    def _open(self, *_: Any, **__: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.watched, name)

    def sync(self) -> None:
        self.is_waiting.set()
        self.watched.sync()
        assert self.store._synced_end == self.store.end


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path / "store")
    yield scene
    scene.disk.heal()
    scene.disk.released.set()
    scene.app.close()


def test_a_due_job_starts_while_the_disk_syncs_what_was_settled(scene: Scene) -> None:
    scene.disk.released.clear()
    scene.task.enqueue(1)
    scene.task.using(delay=10).enqueue(2)
    with Running(scene.app, threads=1) as running:
        wait(scene.disk.synced)  # as soon as the first is settled, and until it is released
        scene.clock.advance(10)
        wait(scene.started[2])
        scene.watched.wait_for_settled(c.Completed, 3)
        assert len(scene.disk.syncing) == 1
        scene.disk.released.set()
        running.stop()
        assert running.end() == WorkerSummary(succeeded=2)


def test_a_worker_does_not_end_while_the_disk_syncs(scene: Scene) -> None:
    scene.disk.released.clear()
    scene.task.enqueue(1)
    with Running(scene.app) as running:
        wait(scene.disk.synced)
        assert not scene.is_waiting.is_set()
        running.stop()
        wait(scene.is_waiting)
        assert running.summary is None
        scene.disk.released.set()
        assert running.end() == WorkerSummary(succeeded=1)


def test_a_worker_syncs_at_its_end_what_is_not_on_the_disk_yet(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scene.store, "persist_soon", lambda _: None)  # too slow to matter
    scene.task.enqueue(1)
    assert burst(scene.app) == WorkerSummary(succeeded=1)
    assert [thread.name for thread in scene.disk.syncing] == ["worker under test"]


@pytest.mark.parametrize("is_burst", [False, True], ids=["goes on", "is at its end"])
def test_a_sync_that_fails_ends_the_worker(scene: Scene, *, is_burst: bool) -> None:
    scene.disk.fail(errno.EIO, method="sync")
    scene.task.enqueue(1)
    with (
        pytest.raises(StoreError, match="sync failed"),
        Running(scene.app, burst=is_burst) as running,
    ):
        running.end()
    scene.disk.heal()
    with pytest.raises(StoreClosed, match="sync failed"):
        scene.app.stats()
    assert len(scene.disk.syncing) == 1  # never tried again
