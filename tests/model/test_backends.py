"""Each backend, under the same random histories as the plain model."""

import tempfile
from pathlib import Path
from typing import Any, cast

from hypothesis import settings
from hypothesis.stateful import rule

from bide.backends.local import open_local
from bide.backends.memory import open_memory
from bide.backends.port import Attendance, Backend
from tests.model.machine import BackendMachine
from tests.model.profile import WITHOUT_SHRINKING
from tests.model.rebuild import assert_log_makes_index


class MemoryMachine(BackendMachine):
    def open(self) -> Backend:
        return open_memory(self.clock)

    def kill(self, worker: Attendance) -> None:
        cast("Any", worker)._seat.leave()


class LocalMachine(BackendMachine):
    """On disk, in segments so small that there are many; and what the log makes is the index."""

    def __init__(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        super().__init__()

    def open(self) -> Backend:
        path = Path(self.directory.name) / "store"
        return open_local(path, self.clock, sync="never", segment_size=4096)

    def kill(self, worker: Attendance) -> None:
        cast("Any", worker)._seat._let_go()

    @rule()
    def open_again(self) -> None:
        for slot in list(self.workers):
            self.go(slot, is_killed=False)
        self.backend.close()
        self.backend = self.open()

    def teardown(self) -> None:
        try:
            assert_log_makes_index(self.backend)
            super().teardown()
        finally:
            self.directory.cleanup()


TestMemory = MemoryMachine.TestCase
TestMemory.settings = settings(WITHOUT_SHRINKING, max_examples=300, stateful_step_count=40)

TestLocal = LocalMachine.TestCase
TestLocal.settings = settings(WITHOUT_SHRINKING, max_examples=100, stateful_step_count=40)
