"""What a driver and the benchmark say to one another. Runs with any interpreter, and needs no bide.

A driver is one process that does one thing with one peer, and prints one JSON
document. Its module has a class ``Peer``; see `Driver`. It ends when its
standard input does, so that it never outlives who started it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
import threading
import time
from typing import Any, Protocol

BODY = "x" * 120
"""What each job carries."""

BATCH = 1_000
THREADS = 16

NOTE = struct.Struct("=q")
"""What a job writes to ``notes_path``: the monotonic clock in ns, one for all processes."""

_START_S = 20.0
_STARTS_MAX = 100
_GAP_S, _GAP_SPREAD_S = 0.005, 0.02
_MS_NS = 1_000_000


class Place:
    """Where a peer keeps its jobs.

    Attributes:
        path: A directory.
        redis, postgres: URLs of servers.
        is_durable: Whether every put is to be on the disk when its call returns.
        count_path: A file that each run of a job adds one byte to.
        notes_path: A pipe that each run writes a `NOTE` to instead; "" for none.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.path: str = document["path"]
        self.redis: str = document["redis"]
        self.postgres: str = document["postgres"]
        self.is_durable: bool = document["is_durable"]
        self.count_path: str = document["count_path"]
        self.notes_path: str = document["notes_path"]
        self._fd = -1

    def count(self) -> None:
        """Note that a job runs."""
        if self._fd < 0:
            path = self.notes_path or self.count_path
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(self._fd, NOTE.pack(time.monotonic_ns()) if self.notes_path else b".")


PLACE = Place(json.loads(os.environ["BENCH_PLACE"]))


class Driver(Protocol):
    """A peer, opened on `PLACE`."""

    def put(self) -> object:
        """Put one no-op job with `BODY`."""
        ...

    def put_many(self, count: int) -> object:
        """The peer's own call for many; `NotImplementedError` if it has none."""
        ...

    def work(self) -> object:
        """Run jobs, until the process is killed."""
        ...


def main(make: Any) -> None:
    """Do what the command line says."""
    action, seconds = sys.argv[1], float(sys.argv[2])
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    peer: Driver = make()
    match action:
        case "put":
            say(*_repeat(peer.put, 1, seconds))
        case "put_16":
            say(*_together(peer.put, seconds))
        case "put_many":
            try:
                say(*_repeat(lambda: peer.put_many(BATCH), BATCH, seconds))
            except NotImplementedError:
                say(0, 0.0)
        case "put_start":
            print(json.dumps({"delays_ms": _starts(peer, seconds)}), flush=True)
        case "fill":
            fill(peer, int(seconds))
        case "work":
            peer.work()


def fill(peer: Driver, count: int) -> None:
    """Put so many jobs, the fastest way that there is."""
    try:
        for _ in range(0, count, BATCH):
            peer.put_many(BATCH)
    except NotImplementedError:
        for _ in range(count):
            peer.put()
    say(count, 0.0)


def say(count: int, took_s: float) -> None:
    print(json.dumps({"count": count, "seconds": took_s}), flush=True)


def _end_with_stdin() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)  # what it has started, too


def _starts(peer: Driver, seconds: float) -> list[float]:
    """From before a put to the start in another process, each of them after a pause.

    The pauses differ, or a peer that polls would be met at one moment of its period.
    One job is there from the start: once it runs, the worker is awake.
    """
    notes = os.open(PLACE.notes_path, os.O_RDWR)  # also to write: it opens before a worker does
    pause = threading.Event()
    delays_ms: list[float] = []
    _read_note(notes)
    end_s = time.perf_counter() + seconds
    while len(delays_ms) <= _STARTS_MAX and time.perf_counter() < end_s:
        pause.wait(_GAP_S + _GAP_SPREAD_S * (len(delays_ms) * 0.618 % 1))
        put_ns = time.monotonic_ns()
        peer.put()
        delays_ms.append((_read_note(notes) - put_ns) / _MS_NS)
    return delays_ms[1:]  # what is made on first use was made by the first


def _read_note(notes: int) -> int:
    """When the next job started."""
    if not select.select([notes], [], [], _START_S)[0]:
        raise TimeoutError(f"a job did not start within {_START_S:g} s")
    started_ns: int = NOTE.unpack(os.read(notes, NOTE.size))[0]
    return started_ns


def _together(work: Any, seconds: float) -> tuple[int, float]:
    """From so many threads at once."""
    work()
    counts: list[int] = []
    barrier = threading.Barrier(THREADS + 1)

    def repeat() -> None:
        barrier.wait()
        counts.append(_repeat(work, 1, seconds)[0] + 1)

    threads = [threading.Thread(target=repeat) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    barrier.wait()
    start_s = time.perf_counter()
    for thread in threads:
        thread.join()
    return sum(counts), time.perf_counter() - start_s


def _repeat(work: Any, size: int, seconds: float) -> tuple[int, float]:
    work()  # what is made on first use is made
    count, start_s = 0, time.perf_counter()
    while (now_s := time.perf_counter()) - start_s < seconds:
        work()
        count += size
    return count, now_s - start_s
