"""The comparison: what should have been, what was run, and what the store says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from examples.flights.expected import Answer
from examples.flights.history import History
from examples.flights.runs import Run

FAULTS_SHOWN_MAX = 5
"""How many faults of one kind are told one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a replay went."""

    flights: int
    boarded: int
    """Flights with a boarding run."""
    cancelled: int
    """Flights that were cancelled, and whose boarding was withdrawn and never ran."""
    lost: int
    """Boardings that never ran, and jobs left in the store."""
    early: int
    """Runs that started before their flight boards."""
    settled_twice: int
    rerun: int
    """Runs beyond the first of a job."""
    p50_ms: float
    p99_ms: float
    """Lateness of the first runs, in real milliseconds."""
    faults: tuple[str, ...]
    """All that is wrong; empty if all is right."""

    @property
    def exit_code(self) -> int:
        return 1 if self.faults else 0

    def line(self) -> str:
        """All of it in one line."""
        whose = "runs that the kill repeated, all of jobs that the killed worker held"
        if any(fault.startswith(RERUN) for fault in self.faults):
            whose = "not all of jobs that the killed worker held"
        return (
            f"flights: flights={self.flights} boarded={self.boarded} cancelled={self.cancelled} "
            f"lost={self.lost} early={self.early} settled_twice={self.settled_twice} "
            f"rerun={self.rerun} lateness p50={self.p50_ms:.1f} ms p99={self.p99_ms:.1f} ms "
            f"(rerun: {whose})"
        )


LOST, EARLY, TWICE, RERUN = "lost", "early", "settled twice", "run again"
BOARDED, WITHDRAWN, UNKNOWN = "boarded though cancelled", "not withdrawn", "unknown"


def judge(answer: Answer, runs: Sequence[Run], history: History, rate: float) -> Verdict:
    """Compare what was run, and the store's history, with the right answer.

    Args:
        runs: All that were noted, in any order.
        rate: How many times as fast as real time the replay's clock ran.
    """
    runs = sorted(runs, key=lambda run: run.start_ms)
    boardings = [run for run in runs if run.queue == "boarding"]
    boarded = {run.key for run in boardings}
    withdrawn = {
        key
        for queue, key in (history.names[job_id] for job_id in history.cancelled)
        if queue == "boarding"
    }
    cancelled = (answer.cancelled & withdrawn) - boarded

    never_ran = {("boarding", key) for key in answer.boards_ms.keys() - boarded}
    lost = never_ran | set(history.left().values())
    early = [run for run in boardings if run.start_ms < answer.boards_ms.get(run.key, 0)]
    twice = [job_id for job_id, count in history.completed.items() if count > 1]
    by_job: defaultdict[int, list[Run]] = defaultdict(list)
    for run in runs:
        by_job[run.job_id].append(run)
    again = [job_runs[0] for job_runs in by_job.values() if len(job_runs) > 1]

    faults = [
        *_list(LOST, (f"{queue} of {key}" for queue, key in lost)),
        *_list(EARLY, (_early(run, answer) for run in early)),
        *_list(TWICE, (f"{' of '.join(history.names[job_id])}" for job_id in twice)),
        *_list(RERUN, (_place(r) for r in again if r.job_id not in history.held)),
        *_list(BOARDED, boarded & answer.cancelled),
        *_list(WITHDRAWN, answer.cancelled - withdrawn),
        *_list(UNKNOWN, boarded - answer.boards_ms.keys() - answer.cancelled),
    ]
    late = _lateness_ms(boardings, answer, rate)
    return Verdict(
        flights=len(answer.boards_ms) + len(answer.cancelled),
        boarded=len(boarded),
        cancelled=len(cancelled),
        lost=len(lost),
        early=len(early),
        settled_twice=len(twice),
        rerun=len(runs) - len(by_job),
        p50_ms=percentile(late, 50),
        p99_ms=percentile(late, 99),
        faults=tuple(faults),
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """The least of *values*, sorted, that *percent* of them do not exceed; 0.0 of none."""
    if not values:
        return 0.0
    return values[max(0, -(-len(values) * percent // 100) - 1)]


def _lateness_ms(boardings: Iterable[Run], answer: Answer, rate: float) -> list[float]:
    """How late each flight's first run began, in real ms, sorted."""
    first: dict[str, int] = {}
    for run in boardings:
        first.setdefault(run.key, run.start_ms)
    boards_ms = answer.boards_ms
    return sorted((at - boards_ms[key]) / rate for key, at in first.items() if key in boards_ms)


def _list(kind: str, faults: Iterable[str]) -> list[str]:
    """The first few faults of a kind, and how many more there are."""
    found = sorted(faults)
    told = [f"{kind}: {fault}" for fault in found[:FAULTS_SHOWN_MAX]]
    if len(found) > FAULTS_SHOWN_MAX:
        told.append(f"{kind}: {len(found) - FAULTS_SHOWN_MAX} more")
    return told


def _early(run: Run, answer: Answer) -> str:
    minutes = (answer.boards_ms[run.key] - run.start_ms) / 60_000
    return f"{_place(run)}, {minutes:.1f} minutes of the replay"


def _place(run: Run) -> str:
    return f"{run.queue} of {run.key} (job {run.job_id}, attempt {run.attempt}, pid {run.pid})"
