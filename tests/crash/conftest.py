"""Sees to it that no process outlives its test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.processes import Child


@pytest.fixture(autouse=True)
def processes_end() -> Iterator[None]:
    """Kill what a test that failed has left running."""
    yield
    while Child.running:
        Child.running.pop().kill()
