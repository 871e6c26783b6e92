"""Apps on empty stores. Each is checked when its test has ended."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bide.clock import Clock
from bide.jobs.app import App
from bide.testing.clock import ManualClock
from tests.worker.running import PATIENCE_S, Watched, check_counts, watched_app

MakeApp = Callable[..., tuple[App, Watched]]


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    """No thread of a worker or a store outlives its test."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("bide-"):
            thread.join(PATIENCE_S / 4)
            assert not thread.is_alive(), f"{thread.name} goes on without a worker"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store in a directory."""
    return (tmp_path / "store").as_uri()


@pytest.fixture(params=["memory", "local"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store in memory, and one in a directory."""
    if request.param == "memory":
        return "memory:"
    return (tmp_path / "store").as_uri() + "?sync=never"


@pytest.fixture
def make_app() -> Iterator[MakeApp]:
    apps: list[App] = []

    def make(url: str = "memory:", clock: Clock | None = None) -> tuple[App, Watched]:
        app, watched = watched_app(url, clock)
        apps.append(app)
        return app, watched

    yield make
    with contextlib.ExitStack() as closing:
        for app in apps:
            closing.callback(app.close)
        for app in apps:
            check_counts(app)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(make_app: MakeApp, any_url: str, clock: ManualClock) -> App:
    """An App that goes by *clock*."""
    return make_app(any_url, clock)[0]
