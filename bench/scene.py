"""Where a run keeps its stores: in the checkout, so that the disk is the checkout's."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.sizes import Sizes
from bench.tasks import Program, make_program
from bide.jobs.task import Request

ROOT = Path(__file__).parents[1]
_PLACE = ".bench"

_YEAR_S = 365 * 24 * 3600
_DELAY_S_MIN = 3600
_DELAY_COUNT = 1_000
_CALL = 100_000

KEYED = 10


class Scene:
    """A run's sizes, and directories for its stores."""

    def __init__(self, sizes: Sizes, path: Path) -> None:
        self.sizes = sizes
        self._path = path
        self._delayed: dict[int, Path] = {}
        self._keys: dict[int, list[str]] = {}
        self.samples: dict[str, list[float]] = {}
        """All that was timed one by one, in ms, over the rounds."""

    @contextlib.contextmanager
    def directory(self) -> Iterator[Path]:
        """A directory with nothing in it, gone afterwards."""
        path = Path(tempfile.mkdtemp(dir=self._path))
        try:
            yield path
        finally:
            shutil.rmtree(path)

    def delayed_store(self, count: int) -> Path:
        """A store with *count* jobs due within a year and not within the hour; made once.

        One of `KEYED` has a key.
        """
        path = self._delayed.get(count)
        if path is None:
            path = self._delayed[count] = Path(tempfile.mkdtemp(dir=self._path))
            with make_program(path, "never") as program:
                _put_delayed(program, count)
        return path

    def add_samples(self, name: str, times_ms: Sequence[float]) -> None:
        self.samples.setdefault(name, []).extend(times_ms)

    def take_keys(self, count: int, wanted: int) -> list[str]:
        """Keys of the `delayed_store` of so many, in no order, none of them twice."""
        if count not in self._keys:
            self._keys[count] = [f"key {n}" for n in range(0, count, KEYED)]
            random.Random(count).shuffle(self._keys[count])
        keys = self._keys[count]
        taken, keys[:] = keys[:wanted], keys[wanted:]
        assert len(taken) == wanted, f"{count} delayed jobs have no more keys"
        return taken


def _put_delayed(program: Program, count: int) -> None:
    """Put jobs in no order of their due times, since none can be counted on."""
    rng = random.Random(count)
    delays = [rng.uniform(_DELAY_S_MIN, _YEAR_S) for _ in range(_DELAY_COUNT)]
    tasks = [program.noop.using(delay=delay) for delay in delays]

    def request(n: int) -> Request:
        task = tasks[n % _DELAY_COUNT]
        return (task if n % KEYED else task.using(key=f"key {n}")).request(n)

    for first in range(0, count, _CALL):
        program.app.enqueue_many(map(request, range(first, min(count, first + _CALL))))


@contextlib.contextmanager
def open_scene(sizes: Sizes, root: Path = ROOT) -> Iterator[Scene]:
    """A scene in the checkout at *root*; nothing of it is left afterwards."""
    place = root / _PLACE
    place.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(dir=place))
    try:
        yield Scene(sizes, path)
    finally:
        shutil.rmtree(path)
        with contextlib.suppress(OSError):  # another run has its own there
            place.rmdir()
