"""What a worker refuses to be built with."""

from __future__ import annotations

import math
from typing import Any

import pytest

import bide
from bide.errors import InvalidName, InvalidOption, UnknownQueue, UsageError
from bide.worker.options import THREADS_MAX, WorkerOptions
from bide.worker.worker import Worker


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 0},
        {"threads": -1},
        {"threads": THREADS_MAX + 1},
        {"threads": 2.5},
        {"threads": "8"},
        {"threads": True},
        {"threads": None},
        {"drain_timeout_s": -0.001},
        {"drain_timeout_s": math.nan},
        {"drain_timeout_s": "30"},
        {"drain_timeout_s": None},
        {"drain_timeout_s": True},
        {"queues": "mail"},
        {"queues": b"mail"},
        {"queues": {"mail"}},
        {"queues": None},
        {"queues": ("mail", "default", "mail")},
        {"queues": ["mail", "mail"]},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        WorkerOptions(**options)


NO_NAMES = [
    "",
    "no spaces",
    "topic:",
    ":queue",
    "a:b:c",
    "ä",
    "x" * 65,
    "a\n",
    b"mail",
    7,
    None,
    ("mail",),
]


def test_a_channel_is_served_by_its_name() -> None:
    assert WorkerOptions(queues=("topic:channel",)).queues == ("topic:channel",)


@pytest.mark.parametrize("name", NO_NAMES)
def test_names_that_no_queue_has_are_refused(name: Any) -> None:
    with pytest.raises(InvalidName):
        WorkerOptions(queues=("mail", name))


@pytest.mark.parametrize("threads", [1, THREADS_MAX])
def test_the_limits_themselves_are_allowed(threads: int) -> None:
    options = WorkerOptions(threads=threads, drain_timeout_s=0, queues=("a", "b"))
    assert options.threads == threads


def test_no_end_of_draining_is_allowed() -> None:
    assert WorkerOptions(drain_timeout_s=math.inf).drain_timeout_s == math.inf


def test_an_app_without_tasks_has_no_worker() -> None:
    with pytest.raises(InvalidOption, match=r"@app\.task"):
        Worker(bide.App("memory:"))


def app_with_queues(*queues: str) -> bide.App:
    app = bide.App("memory:")
    for queue in queues:

        @app.task(name=f"task-{queue}", queue=queue)
        def task() -> None: ...

    return app


def test_all_queues_of_the_tasks_are_served_if_none_is_named() -> None:
    assert Worker(app_with_queues("mail", "default", "bulk")).queues == ("bulk", "default", "mail")


def test_named_queues_keep_their_order() -> None:
    app = app_with_queues("a", "b", "c")
    assert Worker(app, WorkerOptions(queues=("c", "a"))).queues == ("c", "a")


def test_a_queue_that_nothing_names_is_refused_and_those_that_exist_are_told() -> None:
    with pytest.raises(UnknownQueue, match=r"'mial'.*default, mail") as caught:
        Worker(app_with_queues("mail", "default"), WorkerOptions(queues=("mial",)))
    assert caught.value.queue == "mial"
    assert isinstance(caught.value, UsageError)


def test_a_worker_is_built_without_opening_the_store() -> None:
    app = bide.App()

    @app.task
    def task() -> None: ...

    assert Worker(app).queues == ("default",)
