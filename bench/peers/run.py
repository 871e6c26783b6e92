"""Measures bide and its peers at the same work, by the same harness, in turns."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.peers.catalog import VARIANTS, Variant
from bench.peers.environment import ROOT, Environment, Tell, make_environment
from bench.peers.services import Services, started

PUT_S = 0.7
DRAIN_S = 2.0
_CALL_S = 60.0
_START_S = 20.0
_POLL_S = 0.002
_DRIVERS = Path(__file__).with_name("drivers")

ACTIONS = ("put", "put_16", "put_many", "drain_1", "drain_2")
"""One by one; the same from 16 threads; in bulk; all drained by one worker process; by two."""


class DriverFailed(Exception):
    """A driver ended badly, or not at all."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs per second of one variant at one action."""

    name: str
    version: str
    policy: str
    is_durable: bool
    is_own: bool
    action: str
    median: float
    min: float
    max: float
    rounds: tuple[float, ...]


class PeerResults(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, and who was not and why."""

    figures: tuple[Figure, ...]
    missing: dict[str, str]
    took_s: float


def measure_peers(
    rounds: int,
    tell: Tell,
    *,
    variants: tuple[Variant, ...] = VARIANTS,
    environment: Environment | None = None,
) -> PeerResults:
    """Go through *variants* so many times."""
    start_s = time.perf_counter()
    environment = environment or make_environment(tell)
    values: dict[tuple[str, str], list[float]] = {}
    missing: dict[str, str] = {}
    needed = {need for variant in variants for need in variant.needs}
    with (
        tempfile.TemporaryDirectory(prefix="bide-peers-", dir=ROOT) as place,
        started(environment, Path(place), needed, tell) as services,
    ):
        bench = _Bench(environment, services, Path(place))
        for number in range(1, rounds + 1):
            for variant in variants:
                reason = bench.lacks(variant)
                for action in () if reason else bench.actions(variant):
                    try:
                        value = bench.measure(variant, action)
                    except DriverFailed as error:
                        missing[f"{variant.name}: {action}"] = str(error)
                        tell(f"round {number}: {variant.name}: {action}: {error}")
                        continue
                    if value:
                        values.setdefault((variant.name, action), []).append(value)
                        tell(f"round {number}: {variant.name}: {action}: {value:,.0f} jobs/s")
                if reason:
                    missing[variant.name] = reason
    versions = environment.versions
    figures = tuple(
        _figure(variant, action, values[variant.name, action], versions)
        for variant in variants
        for action in ACTIONS
        if (variant.name, action) in values
    )
    return PeerResults(figures=figures, missing=missing, took_s=time.perf_counter() - start_s)


def _figure(variant: Variant, action: str, values: list[float], versions: dict[str, str]) -> Figure:
    return Figure(
        name=variant.name,
        version="this one" if variant.is_own else versions.get(variant.package, ""),
        policy=variant.policy,
        is_durable=variant.is_durable,
        is_own=variant.is_own,
        action=action,
        median=statistics.median(values),
        min=min(values),
        max=max(values),
        rounds=tuple(values),
    )


class _Bench:
    """Runs drivers, each in a directory and a database of its own."""

    def __init__(self, environment: Environment, services: Services, place: Path) -> None:
        self._environment = environment
        self._services = services
        self._place = place
        self._count = 0

    def lacks(self, variant: Variant) -> str:
        """What keeps it from being measured; "" if nothing does."""
        reasons = [self._services.missing.get(need, "") for need in variant.needs]
        return next(filter(None, reasons), "")

    def actions(self, variant: Variant) -> list[str]:
        return [a for a in ACTIONS if a != "put_16" or (variant.has_threads and variant.is_durable)]

    def measure(self, variant: Variant, action: str) -> float:
        """Jobs per second; 0 if the peer has no such call.

        Raises:
            DriverFailed: With what the driver said last.
        """
        place = self._make_place(variant)
        if not action.startswith("drain"):
            document = self._call(variant, place, action, PUT_S)
            return document["count"] / document["seconds"] if document["count"] else 0.0
        self._call(variant, place, "fill", variant.drained)
        return self._drain(variant, place, int(action.removeprefix("drain_")))

    def _make_place(self, variant: Variant) -> dict[str, object]:
        self._count += 1
        path = self._place / str(self._count)
        path.mkdir()
        postgres = self._services.postgres
        if "postgresql" in variant.needs:
            name = f"bench{self._count}"
            script = str(_DRIVERS / "new_database.py")
            command = [str(self._environment.python), script, postgres, name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise DriverFailed(_last_line(done.stderr))
            postgres = postgres.replace("/postgres?", f"/{name}?")
        redis = self._services.redis.removesuffix("/0")
        return {
            "path": str(path),
            "redis": f"{redis}/{self._count % 16}",
            "postgres": postgres,
            "is_durable": variant.is_durable,
            "count_path": str(path / "count"),
        }

    def _start(
        self, variant: Variant, place: dict[str, object], action: str, amount: float
    ) -> subprocess.Popen[str]:
        python = sys.executable if variant.is_own else str(self._environment.python)
        paths = [_DRIVERS, *(sys.path if variant.is_own else ())]
        code = f"import driving, {variant.driver} as d; driving.main(d.Peer)"
        return subprocess.Popen(
            [python, "-c", code, action, str(amount)],
            env={
                **os.environ,
                **variant.env,
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "BENCH_PLACE": json.dumps(place),
                "BENCH_ACTION": action,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def _call(
        self, variant: Variant, place: dict[str, object], action: str, amount: float
    ) -> dict[str, float]:
        with _ended(self._start(variant, place, action, amount)) as process:
            try:
                out, err = process.communicate(timeout=_CALL_S)
            except subprocess.TimeoutExpired:
                raise DriverFailed(f"{action}: not done after {_CALL_S:g} s") from None
        if process.returncode or not out.strip():
            raise DriverFailed(f"{action}: {_last_line(err) or f'exit {process.returncode}'}")
        document: dict[str, float] = json.loads(out.splitlines()[-1])
        return document

    def _drain(self, variant: Variant, place: dict[str, object], workers: int) -> float:
        """From when the first job was seen to have run until all have, or for `DRAIN_S`."""
        count_path = Path(str(place["count_path"]))
        with contextlib.ExitStack() as running:
            processes = [
                running.enter_context(_ended(self._start(variant, place, "work", 0)))
                for _ in range(workers)
            ]
            tick = threading.Event()  # never set
            start_s = time.perf_counter()
            while not (first := _size(count_path)):
                if all(process.poll() is not None for process in processes):
                    raise DriverFailed(f"work: exit {processes[0].returncode}")
                if time.perf_counter() - start_s > _START_S:
                    raise DriverFailed(f"work: no job ran within {_START_S:g} s")
                tick.wait(_POLL_S)
            first_s = now_s = time.perf_counter()
            done = first
            while done < variant.drained and now_s - first_s < DRAIN_S:
                tick.wait(_POLL_S)
                done, now_s = _size(count_path), time.perf_counter()
        if done == first:
            raise DriverFailed("work: all jobs ran between two looks")
        return (done - first) / (now_s - first_s)


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """The process, and whatever it has started, killed at the block's end."""
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else ""
