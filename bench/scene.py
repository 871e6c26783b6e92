"""Where a run keeps its stores: in the checkout, so that the disk is the checkout's."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.sizes import Sizes
from bench.tasks import Program, make_program

ROOT = Path(__file__).parents[1]
_PLACE = ".bench"

_YEAR_S = 365 * 24 * 3600
_DELAY_S_MIN = 3600
_DELAY_COUNT = 1_000


class Scene:
    """A run's sizes, and directories for its stores."""

    def __init__(self, sizes: Sizes, path: Path) -> None:
        self.sizes = sizes
        self._path = path
        self._delayed: dict[int, Path] = {}

    @contextlib.contextmanager
    def directory(self) -> Iterator[Path]:
        """A directory with nothing in it, gone afterwards."""
        path = Path(tempfile.mkdtemp(dir=self._path))
        try:
            yield path
        finally:
            shutil.rmtree(path)

    def delayed_store(self, count: int) -> Path:
        """A store with *count* jobs due within a year and not within the hour; made once."""
        path = self._delayed.get(count)
        if path is None:
            path = self._delayed[count] = Path(tempfile.mkdtemp(dir=self._path))
            with make_program(path, "never") as program:
                _put_delayed(program, count)
        return path


def _put_delayed(program: Program, count: int) -> None:
    """Put jobs in no order of their due times, since none can be counted on."""
    rng = random.Random(count)
    delays = [rng.uniform(_DELAY_S_MIN, _YEAR_S) for _ in range(_DELAY_COUNT)]
    tasks = [program.noop.using(delay=delay) for delay in delays]
    program.app.enqueue_many(tasks[n % _DELAY_COUNT].request(n) for n in range(count))


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
