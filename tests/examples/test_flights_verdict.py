"""The comparison trips over every wrong result, and over nothing else."""

from collections import Counter

import pytest

from bide.model import facts as f
from bide.model.job import Job, JobId, Leased, LeaseRow, Owner, OwnerId, Scheduled, Withdrawn
from examples.flights.expected import Answer
from examples.flights.history import History, Killed, tell
from examples.flights.runs import Run
from examples.flights.verdict import FAULTS_SHOWN_MAX, judge, percentile

ANSWER = Answer({"a": 1_000, "b": 2_000}, frozenset({"c"}))
RATE = 10.0
KILLED_PID = 77


def run(key: str, start_ms: int, *, job_id: int, queue: str = "boarding", attempt: int = 1) -> Run:
    return Run(queue, job_id, key, attempt, 7, ANSWER.boards_ms.get(key, 0), start_ms)


def right_runs() -> list[Run]:
    """a and b board, 1 and 3 real ms late; the news of all three is heard."""
    news = [run(key, 10, job_id=id_, queue="news") for key, id_ in (("a", 2), ("b", 4), ("c", 6))]
    return [*news, run("a", 1_010, job_id=1), run("b", 2_030, job_id=3)]


def right_history() -> History:
    names = {1: ("boarding", "a"), 2: ("news", "a"), 3: ("boarding", "b"), 4: ("news", "b")}
    names |= {5: ("boarding", "c"), 6: ("news", "c")}
    return History(names=names, completed=Counter([1, 2, 3, 4, 6]), cancelled={5})


def test_a_right_result_passes() -> None:
    verdict = judge(ANSWER, right_runs(), right_history(), RATE)
    assert verdict.faults == ()
    assert verdict.exit_code == 0
    assert verdict.line() == (
        "flights: flights=3 boarded=2 cancelled=1 lost=0 early=0 settled_twice=0 rerun=0 "
        "lateness p50=1.0 ms p99=3.0 ms "
        "(rerun: runs that the kill repeated, all of jobs that the killed worker held)"
    )


def test_a_missing_run_is_lost() -> None:
    verdict = judge(ANSWER, right_runs()[:-1], right_history(), RATE)
    assert (verdict.exit_code, verdict.boarded, verdict.lost) == (1, 1, 1)
    assert verdict.faults == ("lost: boarding of b",)


def test_a_job_left_in_the_store_is_lost() -> None:
    history = right_history()
    del history.completed[4]
    verdict = judge(ANSWER, right_runs(), history, RATE)
    assert (verdict.exit_code, verdict.lost) == (1, 1)
    assert verdict.faults == ("lost: news of b",)


def test_a_boarding_that_never_ran_and_is_left_is_lost_once() -> None:
    history = right_history()
    del history.completed[3]
    assert judge(ANSWER, right_runs()[:-1], history, RATE).lost == 1


def test_an_early_run_is_told() -> None:
    runs = [*right_runs()[:-1], run("b", 1_999, job_id=3)]
    verdict = judge(ANSWER, runs, right_history(), RATE)
    assert (verdict.exit_code, verdict.early) == (1, 1)
    assert verdict.faults[0].startswith("early: boarding of b (job 3, attempt 1, pid 7)")


def test_a_job_completed_twice_is_told() -> None:
    history = right_history()
    history.completed[3] = 2
    verdict = judge(ANSWER, right_runs(), history, RATE)
    assert (verdict.exit_code, verdict.settled_twice) == (1, 1)
    assert verdict.faults == ("settled twice: boarding of b",)


def test_a_rerun_of_what_the_killed_worker_held_is_right() -> None:
    history = right_history()
    history.held = {3}
    runs = [*right_runs(), run("b", 9_999, job_id=3, attempt=2)]
    verdict = judge(ANSWER, runs, history, RATE)
    assert (verdict.exit_code, verdict.rerun, verdict.boarded) == (0, 1, 2)
    assert verdict.p99_ms == 3.0  # of the first run


def test_a_rerun_of_what_it_did_not_hold_is_told() -> None:
    history = right_history()
    history.held = {1}
    runs = [*right_runs(), run("b", 9_999, job_id=3, attempt=2)]
    verdict = judge(ANSWER, runs, history, RATE)
    assert (verdict.exit_code, verdict.rerun) == (1, 1)
    assert verdict.faults == ("run again: boarding of b (job 3, attempt 1, pid 7)",)
    assert "(rerun: not all of jobs that the killed worker held)" in verdict.line()


def test_a_cancelled_flight_that_boards_is_told() -> None:
    runs = [*right_runs(), run("c", 3_000, job_id=5)]
    verdict = judge(ANSWER, runs, right_history(), RATE)
    assert (verdict.exit_code, verdict.boarded, verdict.cancelled) == (1, 3, 0)
    assert verdict.faults == ("boarded though cancelled: c",)


def test_a_cancelled_flight_whose_job_was_not_withdrawn_is_told() -> None:
    history = right_history()
    history.cancelled.clear()
    verdict = judge(ANSWER, right_runs(), history, RATE)
    assert (verdict.exit_code, verdict.cancelled) == (1, 0)
    assert verdict.faults == ("lost: boarding of c", "not withdrawn: c")


def test_a_run_of_no_flight_is_told() -> None:
    verdict = judge(ANSWER, [*right_runs(), run("d", 1, job_id=9)], right_history(), RATE)
    assert (verdict.exit_code, verdict.faults) == (1, ("unknown: d",))


def test_of_many_faults_a_few_are_told_one_by_one() -> None:
    many = Answer({f"{n:02}": 0 for n in range(20)}, frozenset())
    verdict = judge(many, [], History(), RATE)
    assert verdict.lost == 20
    assert len(verdict.faults) == FAULTS_SHOWN_MAX + 1
    assert verdict.faults[-1] == f"lost: {20 - FAULTS_SHOWN_MAX} more"


@pytest.mark.parametrize("percent, expected", [(1, 1.0), (50, 50.0), (99, 99.0), (100, 100.0)])
def test_percentiles(percent: int, expected: float) -> None:
    assert percentile([float(n) for n in range(1, 101)], percent) == expected


def test_percentiles_of_few_and_of_none() -> None:
    assert percentile([], 99) == 0.0
    assert percentile([4.0], 1) == 4.0


# ---------------------------------------------------------------- the history


VICTIM, OTHER = OwnerId(1), OwnerId(2)


def job(number: int) -> Job:
    return Job(
        id=JobId(number), queue="news", task="t", args=b"", due_ms=0, priority=0, key=f"k{number}",
        attempt=0, max_retries=5, timeout_ms=0, put_ms=0,
    )  # fmt: skip


def registered(owner: OwnerId, pid: int) -> f.Fact:
    return f.OwnerRegistered(
        Owner(id=owner, token=str(owner), host="h", pid=pid, started_ms=0, queues=())
    )


def reserved(owner: OwnerId, *numbers: int) -> f.Fact:
    return f.JobsReserved(owner, rows(*numbers))


def rows(*numbers: int) -> tuple[LeaseRow, ...]:
    return tuple(LeaseRow(JobId(n), "news", 0, 0, 1, f"k{n}") for n in numbers)


def completed(owner: OwnerId, *numbers: int) -> f.Fact:
    return f.JobsCompleted(
        tuple(Withdrawn(JobId(n), "news", f"k{n}", Leased(owner)) for n in numbers)
    )


def start() -> list[tuple[int, f.Fact]]:
    return [
        (1, f.JobsPut(tuple(map(job, range(1, 7))))),
        (2, registered(VICTIM, KILLED_PID)),
        (3, registered(OTHER, 78)),
    ]


def test_history_counts_what_each_job_came_to() -> None:
    facts = [
        *start(),
        (4, reserved(OTHER, 1, 2)),
        (5, completed(OTHER, 1)),
        (6, completed(OTHER, 1)),
        (7, f.JobsCancelled((Withdrawn(JobId(3), "news", "k3", Scheduled(0, 0)),))),
    ]
    history = tell(facts, None)
    assert history.completed == {1: 2}
    assert history.cancelled == {3}
    assert history.left() == {n: ("news", f"k{n}") for n in (2, 4, 5, 6)}
    assert history.held == set()


def test_held_is_what_the_victim_had_reserved_and_not_settled() -> None:
    facts = [
        *start(),
        (4, reserved(VICTIM, 1, 2, 3, 4)),
        (4, reserved(OTHER, 5)),
        (5, completed(VICTIM, 1)),
        (6, f.JobsReturned(VICTIM, rows(2))),
        (7, completed(OTHER, 5)),
    ]
    assert tell(facts, Killed(KILLED_PID, at_ms=10)).held == {3, 4}


def test_what_is_taken_back_after_the_kill_was_held_at_it() -> None:
    facts = [
        *start(),
        (4, reserved(VICTIM, 1, 2, 3)),
        (10, f.JobsReturned(VICTIM, rows(1))),
        (10, f.JobsRescheduled((job(2),), VICTIM)),
        (11, f.JobsFailed((job(3),), VICTIM)),
        (12, reserved(OTHER, 1, 2)),
    ]
    assert tell(facts, Killed(KILLED_PID, at_ms=10)).held == {1, 2, 3}


def test_a_lease_taken_while_the_kill_was_on_its_way_counts_as_held() -> None:
    facts = [*start(), (10, reserved(VICTIM, 1))]
    assert tell(facts, Killed(KILLED_PID, at_ms=10)).held == {1}


def test_what_it_failed_or_retried_itself_was_not_held() -> None:
    facts = [
        *start(),
        (4, reserved(VICTIM, 1, 2)),
        (5, f.JobsRescheduled((job(1),), VICTIM)),
        (6, f.JobsFailed((job(2),), VICTIM)),
    ]
    assert tell(facts, Killed(KILLED_PID, at_ms=10)).held == set()
