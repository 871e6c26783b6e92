"""A driver's process: what it answers, how it fails, and that it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

_REASON_SIZE = 200
_LOOK_S = 0.05


class DriverFailed(Exception):
    """A driver ended badly, or not at all."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a driver prints."""

    count: int = 0
    """Jobs put; 0 if the peer has no such call."""
    seconds: float = 0.0
    delays_ms: tuple[float, ...] = ()


class DriverProcess:
    """A driver that runs; what it prints goes to files, so that none waits for a reader."""

    def __init__(self, process: subprocess.Popen[bytes], answers: Path, errors: Path) -> None:
        self._process = process
        self._answers = answers
        self._errors = errors
        self._start_s = time.perf_counter()

    def answer(self, timeout_s: float, *, beside: DriverProcess | None = None) -> Answer:
        """Its answer, once it has ended.

        Args:
            beside: A worker that it needs, and that is not to end before.

        Raises:
            DriverFailed: With what it, or its worker, said last.
        """
        end_s = time.perf_counter() + timeout_s
        tick = threading.Event()  # never set
        while beside is not None and self.is_running() and time.perf_counter() < end_s:
            if not beside.is_running():
                raise DriverFailed(f"work: {beside.last_words()}")
            tick.wait(_LOOK_S)
        self.done(max(0.0, end_s - time.perf_counter()))
        for line in reversed(self._answers.read_bytes().splitlines()):
            with contextlib.suppress(msgspec.DecodeError):
                return msgspec.json.decode(line, type=Answer)
        raise DriverFailed("it ended without an answer")

    def done(self, timeout_s: float) -> None:
        """Wait until it has ended.

        Raises:
            DriverFailed: It did not, or badly.
        """
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            took_s = time.perf_counter() - self._start_s
            raise DriverFailed(f"not done after {took_s:.1f} s") from None
        if self._process.returncode:
            raise DriverFailed(self.last_words())

    def is_running(self) -> bool:
        return self._process.poll() is None

    def last_words(self) -> str:
        """What it said last of itself, or how it ended."""
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return lines[-1][:_REASON_SIZE] if lines else f"exit {self._process.poll()}"


@contextlib.contextmanager
def driver_process(
    command: list[str], env: Mapping[str, str], place: Path
) -> Iterator[DriverProcess]:
    """A process that is killed at the block's end, with whatever it has started.

    Args:
        place: A directory for what it prints.

    Raises:
        DriverFailed: It can't be started.
    """
    number = len(list(place.glob("errors-*")))
    answers, errors = place / f"answers-{number}", place / f"errors-{number}"
    with answers.open("wb") as out, errors.open("wb") as err:
        try:
            process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.PIPE,  # the driver ends when we do
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except OSError as error:
            raise DriverFailed(str(error)) from None
    try:
        yield DriverProcess(process, answers, errors)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C would: through all its ``finally``."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
