"""Measures bide and its peers at the same work, by the same harness, in turns."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.peers.catalog import VARIANTS, Variant
from bench.peers.environment import ROOT, Environment, Tell, make_environment
from bench.peers.process import DriverFailed, DriverProcess, driver_process, ended_by_sigterm
from bench.peers.services import Services, empty_redis, started
from bench.series import percentile

PUT_S = 0.7
DRAIN_S = 1.5
DELAYS_S = 1.0
_CALL_S = 30.0
_START_S = 20.0
_POLL_S = 0.002
_DRIVERS = Path(__file__).with_name("drivers")

ACTIONS = ("put", "put_16", "put_many", "drain_1", "drain_2")
"""One by one; the same from 16 threads; in bulk; all drained by one worker process; by two."""

PUT_START = "put_start"
"""From a put in one process to the start in another."""

_NEEDED = {"drain_2": ("put", "drain_1"), PUT_START: ("put", "drain_1")}
"""What must have gone well before; for any other action, a put."""


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs per second of one variant at one action."""

    name: str
    version: str
    policy: str
    is_durable: bool
    is_own: bool
    worker: str = ""
    """How one worker process is set up."""
    action: str
    median: float
    min: float
    max: float
    rounds: tuple[float, ...]


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """From a put to the start in another process that has nothing else to do."""

    name: str
    policy: str
    is_durable: bool
    is_own: bool
    p50_ms: float
    p99_ms: float
    count: int
    """Jobs, of all rounds together; the percentiles are theirs."""
    rounds_p50_ms: tuple[float, ...]


class PeerResults(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, and who was not and why."""

    figures: tuple[Figure, ...]
    missing: dict[str, str]
    """By variant, or ``VARIANT: ACTION``."""
    took_s: float
    delays: tuple[Delay, ...] = ()


def measure_peers(
    rounds: int,
    tell: Tell,
    *,
    variants: tuple[Variant, ...] = VARIANTS,
    environment: Environment | None = None,
) -> PeerResults:
    """Go through *variants* so many times.

    Args:
        tell: Takes a line for each thing that was measured, or was not.
    """
    start_s = time.perf_counter()
    environment = environment or make_environment(tell)
    found = _Found(tell)
    needed = {need for variant in variants for need in variant.needs}
    with (
        ended_by_sigterm(),
        tempfile.TemporaryDirectory(prefix="bide-peers-", dir=ROOT) as place,
        started(environment, Path(place), needed, tell) as services,
    ):
        bench = _Bench(environment, services, Path(place))
        for number in range(1, rounds + 1):
            for variant in variants:
                found.go(f"round {number}", variant, bench)
    versions = environment.versions
    return PeerResults(
        figures=tuple(
            _figure(variant, action, found.values[variant.name, action], versions)
            for variant in variants
            for action in ACTIONS
            if (variant.name, action) in found.values
        ),
        delays=tuple(
            _delay(variant, found.delays[variant.name])
            for variant in variants
            if variant.name in found.delays
        ),
        missing=found.missing,
        took_s=time.perf_counter() - start_s,
    )


class _Found:
    """What the rounds have brought so far."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self.values: dict[tuple[str, str], list[float]] = {}
        self.delays: dict[str, list[tuple[float, ...]]] = {}
        self.missing: dict[str, str] = {}

    def go(self, number: str, variant: Variant, bench: _Bench) -> None:
        """Everything that one variant can do, once.

        What failed is not tried again, and nor is what needs it: one that hangs
        would hold up all the others each time.
        """
        if reason := bench.lacks(variant):
            self.missing[variant.name] = reason
        for action in (*bench.actions(variant), PUT_START):
            needed = [action, *_NEEDED.get(action, ("put",))]
            if any(f"{variant.name}: {one}" in self.missing for one in needed) or reason:
                continue
            try:
                told = self._measure(variant, action, bench)
            except DriverFailed as error:
                told = self.missing[f"{variant.name}: {action}"] = str(error)
            if told:
                self._tell(f"{number}: {variant.name}: {action}: {told}")

    def _measure(self, variant: Variant, action: str, bench: _Bench) -> str:
        if action == PUT_START:
            delays_ms = bench.delays_ms(variant)
            self.delays.setdefault(variant.name, []).append(delays_ms)
            return f"p50 {percentile(delays_ms, 0.5):.3g} ms"
        value = bench.measure(variant, action)
        if not value:
            return ""  # no such call
        self.values.setdefault((variant.name, action), []).append(value)
        return f"{value:,.0f} jobs/s"


def _figure(variant: Variant, action: str, values: list[float], versions: dict[str, str]) -> Figure:
    return Figure(
        name=variant.name,
        version="this one" if variant.is_own else versions.get(variant.package, ""),
        policy=variant.policy,
        is_durable=variant.is_durable,
        is_own=variant.is_own,
        worker=variant.worker,
        action=action,
        median=statistics.median(values),
        min=min(values),
        max=max(values),
        rounds=tuple(values),
    )


def _delay(variant: Variant, rounds: list[tuple[float, ...]]) -> Delay:
    together = [one for delays_ms in rounds for one in delays_ms]
    return Delay(
        name=variant.name,
        policy=variant.policy,
        is_durable=variant.is_durable,
        is_own=variant.is_own,
        p50_ms=percentile(together, 0.5),
        p99_ms=percentile(together, 0.99),
        count=len(together),
        rounds_p50_ms=tuple(percentile(delays_ms, 0.5) for delays_ms in rounds),
    )


class _Place:
    """A directory of its own, and empty servers, for one measurement."""

    def __init__(self, path: Path, variant: Variant, redis: str, postgres: str) -> None:
        self.path = path
        self.count_path = path / "count"
        self.notes_path = path / "notes"
        self._variant = variant
        self._redis = redis
        self._postgres = postgres

    def document(self, *, notes: bool) -> str:
        """As `driving.Place` reads it."""
        return json.dumps(
            {
                "path": str(self.path),
                "redis": self._redis,
                "postgres": self._postgres,
                "is_durable": self._variant.is_durable,
                "count_path": str(self.count_path),
                "notes_path": str(self.notes_path) if notes else "",
            }
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
        with self._new_place(variant) as place:
            if action.startswith("drain"):
                with self._run(variant, place, "fill", variant.drained) as process:
                    process.answer(_CALL_S)
                return self._drain(variant, place, int(action.removeprefix("drain_")))
            with self._run(variant, place, action, PUT_S) as process:
                answer = process.answer(_CALL_S)
            return answer.count / answer.seconds if answer.count else 0.0

    def delays_ms(self, variant: Variant) -> tuple[float, ...]:
        """From puts in one process to the starts in another.

        Raises:
            DriverFailed: With what the driver said last.
        """
        with self._new_place(variant) as place:
            os.mkfifo(place.notes_path)
            with self._run(variant, place, "put") as process:  # also what the worker needs to start
                process.answer(_CALL_S)
            with (
                self._run(variant, place, "work", notes=True) as worker,
                self._run(variant, place, PUT_START, DELAYS_S, notes=True) as putter,
            ):
                answer = putter.answer(_CALL_S, beside=worker)
        if not answer.delays_ms:
            raise DriverFailed(f"no second job started within {DELAYS_S:g} s")
        return answer.delays_ms

    @contextlib.contextmanager
    def _new_place(self, variant: Variant) -> Iterator[_Place]:
        self._count += 1
        path = self._place / str(self._count)
        path.mkdir()
        services = self._services
        redis = services.redis_durable if variant.is_durable else services.redis
        postgres = services.postgres
        if "redis-server" in variant.needs:
            try:
                empty_redis(redis)
            except OSError as error:
                raise DriverFailed(str(error)) from None
        if "postgresql" in variant.needs:
            postgres = self._new_database(f"bench{self._count}", path)
        try:
            yield _Place(path, variant, redis, postgres)
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def _new_database(self, name: str, path: Path) -> str:
        postgres = self._services.postgres
        script = str(_DRIVERS / "new_database.py")
        command = [str(self._environment.python), script, postgres, name]
        with driver_process(command, os.environ, path) as process:
            process.done(_CALL_S)
        return postgres.replace("/postgres?", f"/{name}?")

    def _run(
        self,
        variant: Variant,
        place: _Place,
        action: str,
        amount: float = 0,
        *,
        notes: bool = False,
    ) -> contextlib.AbstractContextManager[DriverProcess]:
        python = sys.executable if variant.is_own else str(self._environment.python)
        paths = [_DRIVERS, *(sys.path if variant.is_own else ())]
        code = f"import driving, {variant.driver} as d; driving.main(d.Peer)"
        env = {
            **os.environ,
            **variant.env,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "BENCH_PLACE": place.document(notes=notes),
            "BENCH_ACTION": action,
        }
        return driver_process([python, "-c", code, action, str(amount)], env, place.path)

    def _drain(self, variant: Variant, place: _Place, workers: int) -> float:
        """From when the first job was seen to have run until all have, or for `DRAIN_S`."""
        with contextlib.ExitStack() as running:
            processes = [
                running.enter_context(self._run(variant, place, "work")) for _ in range(workers)
            ]
            tick = threading.Event()  # never set
            start_s = time.perf_counter()
            while not (first := _size(place.count_path)):
                for process in processes:
                    if not process.is_running():
                        raise DriverFailed(f"work: {process.last_words()}")
                if time.perf_counter() - start_s > _START_S:
                    raise DriverFailed(f"work: no job ran within {_START_S:g} s")
                tick.wait(_POLL_S)
            first_s = now_s = time.perf_counter()
            done = first
            while done < variant.drained and now_s - first_s < DRAIN_S:
                tick.wait(_POLL_S)
                done, now_s = _size(place.count_path), time.perf_counter()
            broken = [one for one in processes if not one.is_running()]
            if broken and done < variant.drained:
                raise DriverFailed(f"work: {broken[0].last_words()}")
        if done == first:
            raise DriverFailed("work: all jobs ran between two looks, or none after the first")
        return (done - first) / (now_s - first_s)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
