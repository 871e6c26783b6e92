"""A job that is refused harms no other: not of its call, nor of those that share its commit."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import bide
from bide.errors import (
    BideError,
    BodyTooLarge,
    InvalidArguments,
    InvalidDelay,
    InvalidName,
    InvalidOption,
)
from bide.jobs.task import Task
from bide.model.limits import BODY_SIZE_MAX
from tests.unit.jobs.apps import make_app

CENTURIES = datetime(9999, 1, 1, tzinfo=UTC)


def remind(order_id: int, text: str = "") -> None: ...


BAD: dict[str, tuple[Callable[[Any], Any], type[BideError]]] = {
    "argument of a wrong type": (lambda t: t.request("one"), InvalidArguments),
    "argument missing": (lambda t: t.request(), InvalidArguments),
    "argument too many": (lambda t: t.request(1, "", 3), InvalidArguments),
    "argument unknown": (lambda t: t.request(1, to="x"), InvalidArguments),
    "argument that cannot be stored": (lambda t: t.request(object()), InvalidArguments),
    "body too large": (lambda t: t.request(1, "x" * BODY_SIZE_MAX), BodyTooLarge),
    "queue with a space": (lambda t: t.using(queue="a b"), InvalidName),
    "key too long": (lambda t: t.using(key="k" * 256), InvalidName),
    "delay negative": (lambda t: t.using(delay=-0.001), InvalidDelay),
    "delay NaN": (lambda t: t.using(delay=math.nan), InvalidDelay),
    "delay infinite": (lambda t: t.using(delay=math.inf), InvalidDelay),
    "delay beyond the limit": (lambda t: t.using(delay=1e18), InvalidDelay),
    "delay timedelta beyond": (lambda t: t.using(delay=timedelta(days=36_526)), InvalidDelay),
    "delay a bool": (lambda t: t.using(delay=True), InvalidDelay),
    "moment naive": (lambda t: t.using(run_at=datetime(2030, 1, 1)), InvalidDelay),  # noqa: DTZ001
    "moment beyond the limit": (lambda t: t.using(run_at=CENTURIES).request(1), InvalidDelay),
    "priority too high": (lambda t: t.using(priority=101), InvalidOption),
}
"""How each comes about. The last moment is refused only when the job is put."""


def request_of(app: bide.App, name: str) -> Callable[[], Any]:
    """Makes the bad request: by the option, and by the call that it would go into."""
    task = app.tasks[f"{__name__}.remind"]
    make, _ = BAD[name]

    def bad() -> Any:
        made = make(task)
        return made.request(1) if isinstance(made, Task) else made

    return bad


@pytest.fixture
def app() -> Any:
    with make_app() as app:
        app.task(remind)
        yield app


@pytest.mark.parametrize("name", BAD)
def test_it_is_refused_with_its_own_error_before_anything_is_stored(
    app: bide.App, name: str
) -> None:
    kind = BAD[name][1]
    with pytest.raises(kind) as caught:
        app.enqueue(request_of(app, name)())
    assert type(caught.value) is kind
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) > 20
    assert app.stats().queues == ()


@pytest.mark.parametrize("name", BAD)
def test_the_others_of_a_call_are_all_or_none(app: bide.App, name: str) -> None:
    task, bad = app.tasks[f"{__name__}.remind"], request_of(app, name)
    with pytest.raises(BAD[name][1]):
        app.enqueue_many(bad() if n == 5 else task.request(n) for n in range(10))
    assert app.stats().queues == ()
    assert len(app.enqueue_many(task.request(n) for n in range(10))) == 10


@pytest.mark.parametrize("name", BAD)
def test_those_awaited_together_with_it_are_put(app: bide.App, name: str) -> None:
    task, bad = app.tasks[f"{__name__}.remind"], request_of(app, name)

    async def put_bad() -> None:
        await app.aenqueue(bad())

    async def put_all() -> list[Any]:
        good = [task.aenqueue(n) for n in range(4)]
        return await asyncio.gather(*good[:2], put_bad(), *good[2:], return_exceptions=True)

    results = asyncio.run(put_all())
    assert [type(r) for r in results].count(bide.Handle) == 4
    assert type(results[2]) is BAD[name][1]
    assert app.stats().queues[0].ready == 4


def test_a_move_to_what_is_no_moment_leaves_the_job_where_it_is(app: bide.App) -> None:
    handle = app.tasks[f"{__name__}.remind"].using(delay=60).enqueue(1)
    before = handle.get()
    for where in (
        {"delay": math.nan},
        {"delay": math.inf},
        {"delay": -1},
        {"delay": 1e18},
        {"delay": True},
        {"run_at": datetime(2030, 1, 1)},  # noqa: DTZ001
        {"run_at": CENTURIES},
    ):
        with pytest.raises(InvalidDelay):
            handle.move(**where)
    assert handle.get() == before
