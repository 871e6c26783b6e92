"""`bide.backends.listing`: cursors that lead on, and those that are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bide.backends.memory import open_memory
from bide.backends.port import Backend
from bide.errors import InvalidOption
from bide.model.commands import Exhausted, Settlement
from bide.model.job import NewJob, State
from bide.testing import ManualClock
from tests.model.profile import STEADY

QUEUES = ("a", "b")


def fill() -> Backend:
    """A store with four jobs in each state, two in each queue."""
    clock = ManualClock()
    backend = open_memory(clock)
    worker = backend.attend(QUEUES)

    def put(priority: int, delay_ms: int = 0) -> None:
        due_ms = clock.now_ms() + delay_ms
        backend.put(
            [
                NewJob(queue=queue, task="t", args=b"", due_ms=due_ms, priority=priority)
                for queue in QUEUES
                for _ in range(2)
            ]
        )

    put(1)
    for lease in backend.reserve(worker.owner, QUEUES, 4).leases:
        backend.reserve(
            worker.owner, (), 0, [Settlement(lease.job.id, lease.attempt, Exhausted("no"))]
        )
    put(1)
    backend.reserve(worker.owner, QUEUES, 4)
    put(-100)
    put(100, delay_ms=1_000)
    due_ms = clock.now_ms() + 5
    for queue in QUEUES:
        backend.put([NewJob(queue=f":{queue}", task="t", args=b"", due_ms=due_ms)] * 2)
    return backend


@pytest.fixture
def backend() -> Iterator[Backend]:
    backend = fill()
    yield backend
    backend.close()


def listed(backend: Backend, state: State, limit: int, after: str | None = None) -> list[int]:
    found: list[int] = []
    while True:
        page = backend.list(queue=None, state=state, limit=limit, after=after)
        found += [info.job.id for info in page.jobs]
        after = page.next
        if after is None:
            return found


def cursor_of(backend: Backend, state: State, limit: int = 1) -> str:
    cursor = backend.list(queue=None, state=state, limit=limit).next
    assert cursor is not None
    return cursor


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_pages_put_together_are_the_whole(backend: Backend, state: State, limit: int) -> None:
    whole = listed(backend, state, 100)
    assert len(whole) == len(set(whole)) == 4
    assert listed(backend, state, limit) == whole
    assert listed(backend, state, 100, cursor_of(backend, state, limit)) == whole[limit:]


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("other", list(State))
def test_a_cursor_is_for_its_own_state(backend: Backend, state: State, other: State) -> None:
    cursor = cursor_of(backend, state)
    if other is state:
        assert len(listed(backend, other, 100, cursor)) == 3
    else:
        with pytest.raises(InvalidOption, match="page of the same state"):
            backend.list(queue=None, state=other, limit=1, after=cursor)


@pytest.mark.parametrize("state", list(State))
def test_a_cursor_goes_past_the_queues_before_its_own(backend: Backend, state: State) -> None:
    cursor = cursor_of(backend, state, 3)  # all of queue a, and one of queue b
    jobs = backend.list(queue=None, state=state, limit=100, after=cursor).jobs
    assert [info.job.queue.removeprefix(":") for info in jobs] == ["b"]
    assert backend.list(queue="a", state=state, limit=100, after=cursor).jobs == ()


WAITING = (State.READY, State.SCHEDULED, State.PREPARED)
POSITIONS: list[Any] = [
    None,
    "",
    [],
    [1],
    [1, 2],  # one number short for what waits
    [1, 2, 3, 4],
    [101, 1, 1],
    [-101, 1, 1],
    [0, -1, 1],
    [0, 1, -1],
    [0, 1, 1 << 63],
    [0, 1, 1 << 64],
    [0, 1.5, 1],
    ["0", 1, 1],
    [None, 1, 1],
    {"0": 1},
]
OTHERS: list[Any] = [None, [], [1], [1, 2, 3], [-1, 1], [1, -1], [1, 1 << 63], [1, "2"], [0.5, 1]]


@pytest.mark.parametrize("state", list(State))
def test_a_position_that_cannot_be_one_is_refused(backend: Backend, state: State) -> None:
    for position in POSITIONS if state in WAITING else OTHERS:
        after = json.dumps([state, "a", position])
        with pytest.raises(InvalidOption) as caught:
            backend.list(queue=None, state=state, limit=1, after=after)
        assert repr(after) in str(caught.value), "it is named"


@pytest.mark.parametrize(
    "after",
    [
        *("", "junk", "{}", "[]", "null", "5", '"ready"', "[" * 10_000, "\0"),
        *('["ready"]', '["ready","a"]', '["ready",5,[0,1,1]]', '["ready","a",[0,1,1]'),
        '["done","a",[0,1,1]]',
        "\ud800",
    ],
)
def test_what_is_no_cursor_is_refused(backend: Backend, after: str) -> None:
    with pytest.raises(InvalidOption):
        backend.list(queue=None, state=State.READY, limit=1, after=after)


@pytest.mark.parametrize("after", [5, 1.5, ["ready"], object()])
def test_a_cursor_is_a_str(backend: Backend, after: Any) -> None:
    with pytest.raises(InvalidOption):
        backend.list(queue=None, state=State.READY, limit=1, after=after)


def test_bounds_of_a_position_are_allowed(backend: Backend) -> None:
    for position in ([100, 0, 0], [-100, 0, 0]):
        after = json.dumps(["ready", "a", position])
        backend.list(queue=None, state=State.READY, limit=1, after=after)
    after = json.dumps(["failed", "a", [(1 << 63) - 1, (1 << 63) - 1]])
    jobs = backend.list(queue=None, state=State.FAILED, limit=9, after=after).jobs
    assert [info.job.queue for info in jobs] == ["b", "b"]


@STEADY
@given(
    state=st.sampled_from(State),
    text=st.text()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(json.dumps)
    | st.tuples(
        st.sampled_from(State),
        st.sampled_from(["", "a", "b", "c"]),
        st.lists(
            st.sampled_from(
                [-(1 << 63), -101, -100, -1, 0, 1, 100, 101, 1 << 53, 1 << 63, 1 << 64]
            ),
            max_size=4,
        ),
    ).map(json.dumps),
)
def test_any_text_is_a_cursor_or_refused(state: State, text: str) -> None:
    backend = fill()
    try:
        page = backend.list(queue=None, state=state, limit=100, after=text)
    except InvalidOption:
        pass
    else:
        assert len(page.jobs) <= 4
    backend.close()
