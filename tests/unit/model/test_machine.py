"""The table of rules, case by case: a command, a job's state, the facts and the answer."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from bide.errors import BideError, CorruptIndex, JobNotFound, KeyTaken, LeaseLost, WrongState
from bide.model import commands as c
from bide.model import facts as f
from bide.model.job import (
    Failed,
    JobId,
    JobRef,
    Leased,
    NewJob,
    OnConflict,
    OwnerId,
    Scheduled,
    Withdrawn,
)
from bide.model.machine import decide
from tests.unit.model.dict_view import JOB, NOW_MS, OWNER, DictView

LATER_MS = NOW_MS + 500
REF = JobRef(id=JOB.id)
NEW = NewJob(queue="q", task="t", args=b"", due_ms=NOW_MS, key="k")


def run(command: c.Command, view: DictView) -> tuple[list[f.Fact], c.Answer]:
    """The facts of *command* and its answer."""
    facts: list[f.Fact] = []
    decision = decide(command, view, NOW_MS)
    while True:
        try:
            facts.append(next(decision))
        except StopIteration as stop:
            answer: c.Answer = stop.value
            return facts, answer


def view_with(state: str) -> DictView:
    view = DictView()
    match state:
        case "scheduled":
            view.add_waiting(replace(JOB, due_ms=LATER_MS))
        case "ready":
            view.add_waiting(JOB)
        case "running":
            view.add_running(JOB)
        case "last run":
            view.add_running(replace(JOB, attempt=1))
        case "failed":
            view.add_failed(JOB)
    return view


def settle(outcome: c.Outcome, attempt: int = 1) -> c.Settle:
    return c.Settle(OWNER, (c.Settlement(JOB.id, attempt, outcome),))


def conflict(word: str) -> c.Put:
    return c.Put((replace(NEW, on_conflict=word),))


RESERVE = c.Reserve(OWNER, ("other", "q"), 5)
MOVE = c.Move((c.Change(REF, LATER_MS + 1, 3),))
DONE = settle(c.Completed())
AGAIN = settle(c.Retried(LATER_MS, "no"))
STARTED = c.Expire(OWNER, frozenset({(1, 1)}), "died", 10)
STARTED_TWICE = c.Expire(OWNER, frozenset({(1, 2)}), "died", 10)
HELD = c.Expire(OWNER, frozenset(), "died", 10)

# command, state, facts, answer: a type of error, or what is answered for the one job.
TABLE: list[tuple[c.Command, str, str, object]] = [
    (RESERVE, "scheduled", "", "no lease"),
    (RESERVE, "ready", "JobsReserved", "a lease"),
    (RESERVE, "running", "", "no lease"),
    (RESERVE, "failed", "", "no lease"),
    (DONE, "gone", "", LeaseLost),
    (DONE, "scheduled", "", LeaseLost),
    (DONE, "ready", "", LeaseLost),
    (DONE, "failed", "", LeaseLost),
    (DONE, "running", "JobsCompleted", None),
    (settle(c.Completed(), attempt=2), "running", "", LeaseLost),
    (settle(c.Completed(), attempt=0), "running", "", LeaseLost),
    (settle(c.Completed(), attempt=1), "last run", "", LeaseLost),
    (settle(c.Completed(), attempt=2), "last run", "JobsCompleted", None),
    (AGAIN, "running", "JobsRescheduled", None),
    (settle(c.Retried(LATER_MS, "no"), attempt=2), "last run", "JobsFailed", None),
    (settle(c.Exhausted("no")), "running", "JobsFailed", None),
    (settle(c.Snoozed(LATER_MS)), "running", "JobsRescheduled", None),
    (settle(c.Snoozed(LATER_MS), attempt=2), "last run", "JobsRescheduled", None),
    (settle(c.Returned()), "running", "JobsReturned", None),
    (settle(c.Dropped()), "running", "JobsCancelled", None),
    (MOVE, "gone", "", JobNotFound),
    (MOVE, "scheduled", "JobsMoved", None),
    (MOVE, "ready", "JobsMoved", None),
    (MOVE, "running", "", WrongState),
    (MOVE, "failed", "", WrongState),
    (c.Move((c.Change(REF),)), "ready", "", None),
    (c.Move((c.Change(REF, NOW_MS, 0),)), "ready", "", None),
    (c.Kick((REF,)), "gone", "", JobNotFound),
    (c.Kick((REF,)), "scheduled", "JobsMoved", None),
    (c.Kick((REF,)), "ready", "", None),
    (c.Kick((REF,)), "running", "", WrongState),
    (c.Kick((REF,)), "failed", "JobsMoved", None),
    (c.Cancel((REF,)), "gone", "", JobNotFound),
    (c.Cancel((REF,)), "scheduled", "JobsCancelled", None),
    (c.Cancel((REF,)), "ready", "JobsCancelled", None),
    (c.Cancel((REF,)), "running", "JobsCancelled", None),
    (c.Cancel((REF,)), "failed", "JobsCancelled", None),
    (conflict("raise"), "gone", "JobsPut", "put"),
    (conflict("raise"), "failed", "JobsPut", "put"),
    (conflict("skip"), "scheduled", "", "skipped"),
    (conflict("skip"), "running", "", "skipped"),
    (conflict("replace"), "ready", "JobsCancelled JobsPut", "replaced"),
    (conflict("replace"), "running", "JobsPut", "replaced"),
    (conflict("replace"), "failed", "JobsPut", "put"),
    (STARTED, "running", "JobsRescheduled", "1 left"),
    (STARTED_TWICE, "last run", "JobsFailed", "1 left"),
    (STARTED, "last run", "JobsReturned", "1 left"),
    (HELD, "running", "JobsReturned", "1 left"),
    (HELD, "ready", "OwnerRemoved", "0 left"),
]


def told(command: c.Command, answer: c.Answer) -> object:
    """The answer in the table's words."""
    if isinstance(answer, int):
        return f"{answer} left"
    if isinstance(command, c.Reserve):
        return "a lease" if answer else "no lease"
    assert isinstance(answer, tuple)
    (one,) = answer
    if isinstance(one, c.PutResult):
        return one.outcome
    return type(one) if isinstance(one, BideError) else one


def case_name(value: object) -> str:
    return type(value).__name__ if not isinstance(value, (str, type)) else str(value)


@pytest.mark.parametrize("command, state, facts, answer", TABLE, ids=case_name)
def test_rule(command: c.Command, state: str, facts: str, answer: object) -> None:
    found, given = run(command, view_with(state))
    assert [type(fact).__name__ for fact in found] == facts.split()
    assert told(command, given) == answer


@pytest.mark.parametrize("state", ["scheduled", "ready", "running"])
def test_raise_is_refused_before_any_fact(state: str) -> None:
    others = [replace(NEW, key=None), replace(NEW, key="free")]
    decision = decide(c.Put((*others, NEW)), view_with(state), NOW_MS)
    with pytest.raises(KeyTaken) as caught:
        next(decision)
    assert (caught.value.job_id, caught.value.key) == (JOB.id, "k")
    assert "on_conflict" in str(caught.value)


@pytest.mark.parametrize(
    "state, place",
    [
        ("scheduled", Scheduled(0, LATER_MS)),
        ("ready", Scheduled(0, NOW_MS)),
        ("running", Leased(OWNER)),
        ("failed", Failed(NOW_MS - 1)),
    ],
)
def test_a_cancel_says_what_to_take_out(state: str, place: Scheduled | Leased | Failed) -> None:
    facts, _ = run(c.Cancel((REF,)), view_with(state))
    assert facts == [f.JobsCancelled((Withdrawn(JOB.id, "q", "k", place),))]


def test_a_key_names_the_job_that_holds_it() -> None:
    by_key = JobRef(queue="q", key="k")
    facts, answer = run(c.Cancel((by_key, JobRef(queue="other", key="k"))), view_with("ready"))
    assert len(facts) == 1
    assert isinstance(answer, tuple)
    assert answer[0] is None
    assert isinstance(answer[1], JobNotFound)
    assert answer[1].key == "k"


def rescheduled(command: c.Command, view: DictView) -> Sequence[object]:
    ((fact,), _) = run(command, view)
    assert isinstance(fact, f.JobsRescheduled)
    return [(job.attempt, job.due_ms, job.snoozes, len(job.errors)) for job in fact.jobs]


def test_what_counts_as_an_attempt() -> None:
    view = view_with("running")
    assert rescheduled(AGAIN, view) == [(1, LATER_MS, 0, 1)]
    assert rescheduled(settle(c.Snoozed(LATER_MS)), view) == [(0, LATER_MS, 1, 0)]
    assert rescheduled(STARTED, view) == [(1, NOW_MS, 0, 1)]


def test_an_end_without_the_key_leaves_it_with_the_successor() -> None:
    view = view_with("running")
    view.keys["q", "k"] = JobId(2)
    for command in (AGAIN, settle(c.Exhausted("no")), settle(c.Snoozed(LATER_MS))):
        ((fact,), _) = run(command, view)
        assert isinstance(fact, f.JobsRescheduled | f.JobsFailed)
        assert fact.jobs[0].key is None
    ((returned,), _) = run(settle(c.Returned()), view)
    assert not isinstance(returned, f.JobsReturned), "its row still names the key"


def test_a_kicked_failure_starts_anew() -> None:
    view = view_with("failed")
    ((moved,), _) = run(c.Kick((REF,)), view)
    job = replace(JOB, due_ms=NOW_MS, attempt=0, failed_ms=None)
    assert moved == f.JobsMoved((job,), (Failed(NOW_MS - 1),))
    view.keys["q", "k"] = JobId(2)
    ((moved,), _) = run(c.Kick((REF,)), view)
    assert moved == f.JobsMoved((replace(job, key=None),), (Failed(NOW_MS - 1),))


def test_strangers_reserve_nothing() -> None:
    decision = decide(c.Reserve(OwnerId(99), ("q",), 1), view_with("ready"), NOW_MS)
    with pytest.raises(LeaseLost, match="99"):
        next(decision)


def test_expiring_a_stranger_does_nothing() -> None:
    facts, answer = run(replace(STARTED, owner=OwnerId(99)), view_with("running"))
    assert (facts, answer) == ([], 0)


def test_a_new_owner_has_a_number_of_its_own() -> None:
    (fact,), answer = run(c.Register("token", "host", 12, ("q",)), DictView())
    assert isinstance(fact, f.OwnerRegistered)
    assert fact.owner.id == answer == OWNER + 1
    assert fact.owner.started_ms == NOW_MS


# ---------------------------------------------------------------- rows that cannot be read


def test_an_unreadable_job_does_not_strand_the_rest() -> None:
    view = view_with("ready")
    view.add_waiting(replace(JOB, id=JobId(2), key=None))
    view.unreadable.add(JOB.id)
    facts, answer = run(RESERVE, view)
    gone = Withdrawn(JOB.id, "q", None, Scheduled(0, NOW_MS))
    assert facts[0] == f.JobsQuarantined((gone,), NOW_MS)
    assert isinstance(facts[1], f.JobsReserved)
    assert isinstance(answer, tuple)
    assert len(answer) == 1


@pytest.mark.parametrize("outcome", [c.Retried(LATER_MS, "no"), c.Exhausted("no"), c.Snoozed(0)])
def test_an_unreadable_run_is_set_aside(outcome: c.Outcome) -> None:
    view = view_with("running")
    view.unreadable.add(JOB.id)
    facts, answer = run(settle(outcome), view)
    assert [type(fact) for fact in facts] == [f.JobsQuarantined]
    assert answer == (None,)


@pytest.mark.parametrize("outcome", [c.Completed(), c.Dropped()])
def test_an_unreadable_run_can_still_end(outcome: c.Outcome) -> None:
    view = view_with("running")
    view.unreadable.add(JOB.id)
    _, answer = run(settle(outcome), view)
    assert answer == (None,)


@pytest.mark.parametrize("command", [c.Cancel((REF,)), MOVE, c.Kick((REF,))])
def test_an_unreadable_job_is_named_as_such(command: c.Command) -> None:
    view = view_with("ready")
    view.unreadable.add(JOB.id)
    facts, answer = run(command, view)
    assert facts == []
    assert told(command, answer) is CorruptIndex


@pytest.mark.parametrize("word", ["raise", "skip", "replace"])
def test_an_unreadable_holder_does_not_keep_its_key_from_a_successor(word: OnConflict) -> None:
    view = view_with("ready")
    view.unreadable.add(JOB.id)
    first = replace(NEW, key="other")  # two puts of one key in a call: facts come in between
    jobs = (first, replace(first, on_conflict="replace"), replace(NEW, on_conflict=word))
    facts, answer = run(c.Put(jobs), view)
    assert isinstance(facts[-1], f.JobsPut)
    assert facts[-1].jobs[-1].key == "k"
    assert isinstance(answer, tuple)
    assert len(answer) == 3
