"""Raises an interrupt at a chosen point of a call, of all where CPython may raise one.

Another thread can have an exception raised in this one at certain points
only: at the start of a function written in Python, behind a call of one
that is not, and at the end of each turn of a loop.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_CHECKED = ("CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD")


class Interrupter:
    """Counts the points passed in the code under *directory*, and interrupts at number *at*.

    Args:
        directory: A directory or a file.
        interrupt: Makes what is raised; None: this is no point at all.
    """

    def __init__(
        self, directory: Path, at: int, interrupt: Callable[[], BaseException | None]
    ) -> None:
        self._start = str(directory)
        self._at = at
        self._interrupt = interrupt
        self._previous: dict[FrameType, str] = {}
        self._passed = 0
        self.where: str | None = None
        """The place of the interrupt, once it was raised."""

    @contextmanager
    def here(self) -> Iterator[None]:
        """A block in this thread that is watched."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(before)

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self.where is not None:
            return None
        if event == "call":
            caller = frame.f_back
            if caller in self._previous:
                self._previous[caller] = ""  # coming back from Python code is no point
            if not frame.f_code.co_filename.startswith(self._start):
                return None
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            self._previous[frame] = ""
            self._pass(frame)
        elif event == "opcode":
            self._step(frame)
        elif event == "return":
            self._previous.pop(frame, None)
        return self

    def _step(self, frame: FrameType) -> None:
        was_checked = self._previous.get(frame, "").startswith(_CHECKED)
        self._previous[frame] = _operations(frame.f_code).get(frame.f_lasti, "")
        if was_checked:
            self._pass(frame)

    def _pass(self, frame: FrameType) -> None:
        error = self._interrupt()
        if error is None:
            return
        self._passed += 1
        if self._passed == self._at:
            name = Path(frame.f_code.co_filename).name
            self.where = f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
            self._previous.clear()
            raise error


@cache
def _operations(code: CodeType) -> dict[int, str]:
    return {step.offset: step.opname for step in dis.get_instructions(code)}
