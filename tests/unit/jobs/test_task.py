"""Tasks: options, names, and what `using` changes."""

from __future__ import annotations

import math
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import bide
from bide.errors import DuplicateTask, InvalidDelay, InvalidName, InvalidOption, UsageError
from bide.jobs.task import Options, task_name
from bide.testing import ManualClock
from tests.unit.jobs.apps import make_app

SOON = datetime(2027, 1, 1, tzinfo=UTC)


def remind(order_id: int) -> str:
    """Remind a customer."""
    return f"order {order_id}"


# ---------------------------------------------------------------- options


def test_defaults_are_the_documented_ones() -> None:
    with make_app() as app:
        options = app.task(remind).options
        assert (options.queue, options.priority) == ("default", 0)
        assert (options.max_retries, options.timeout) == (5, 120.0)
        assert (options.delay, options.run_at, options.key) == (None, None, None)
        assert (options.on_conflict, options.sync) == ("raise", None)


@pytest.mark.parametrize(
    "option, value, kind",
    [
        ("queue", "no spaces", InvalidName),
        ("queue", "", InvalidName),
        ("queue", None, InvalidName),
        ("priority", 101, InvalidOption),
        ("priority", True, InvalidOption),
        ("max_retries", -1, InvalidOption),
        ("max_retries", None, InvalidOption),
        ("timeout", 0, InvalidOption),
        ("timeout", math.nan, InvalidOption),
        ("delay", -1, InvalidDelay),
        ("delay", math.nan, InvalidDelay),
        ("delay", math.inf, InvalidDelay),
        ("delay", 1e18, InvalidDelay),
        ("delay", True, InvalidDelay),
        ("delay", "5", InvalidDelay),
        ("run_at", datetime(2026, 1, 1), InvalidDelay),  # noqa: DTZ001
        ("run_at", 5, InvalidDelay),
        ("key", "", InvalidName),
        ("key", "x" * 256, InvalidName),
        ("key", 42, InvalidName),
        ("key", "\ud800", InvalidName),
        ("on_conflict", "ignore", InvalidOption),
        ("on_conflict", None, InvalidOption),
        ("sync", "sometimes", InvalidOption),
        ("sync", True, InvalidOption),
    ],
)
def test_options_are_refused_when_they_are_given(
    option: str, value: object, kind: type[UsageError]
) -> None:
    with make_app() as app:
        task = app.task(remind)
        with pytest.raises(kind):
            task.using(**{option: value})
        with pytest.raises(kind):
            Options(**{option: value})  # type: ignore[arg-type]


def test_an_unknown_option_is_named_with_those_there_are() -> None:
    with make_app() as app:
        with pytest.raises(InvalidOption, match=r"no option 'retries'.*max_retries"):
            app.task(remind).using(retries=3)
        with pytest.raises(InvalidOption, match=r"no option 'retries'.*max_retries"):
            app.task(retries=3)(remind)


def test_delay_and_run_at_together_are_refused() -> None:
    with make_app() as app:
        task = app.task(remind)
        with pytest.raises(InvalidOption, match="both"):
            task.using(delay=5, run_at=SOON)
        with pytest.raises(InvalidOption, match="both"):
            task.using(delay=5).using(run_at=SOON)
        assert task.using(delay=5).using(delay=None, run_at=SOON).options.run_at == SOON


def test_using_leaves_the_task_as_it_was() -> None:
    with make_app() as app:
        task = app.task(remind)
        other = task.using(queue="mail", timeout=1, priority=7)
        assert (task.options.queue, task.options.priority) == ("default", 0)
        assert (other.options.queue, other.options.priority) == ("mail", 7)
        assert other.using(priority=8).options.queue == "mail"
        assert (task.request(1).timeout_ms, other.request(1).timeout_ms) == (120_000, 1_000)
        assert other.name == task.name
        assert app.tasks == {task.name: task}


def test_options_reach_the_job() -> None:
    clock = ManualClock()
    with make_app(clock) as app:
        task = app.task(queue="mail", max_retries=1, timeout=None, priority=-2)(remind)
        info = task.enqueue(1).get()
        assert info is not None
        job = info.job
        assert (job.queue, job.max_retries, job.timeout_ms, job.priority) == ("mail", 1, 0, -2)
        assert job.due_ms == clock.now_ms()
        other = task.using(delay=timedelta(days=30), key="k", timeout=timedelta(seconds=1.5))
        info = other.enqueue(2).get()
        assert info is not None
        job = info.job
        assert (job.key, job.timeout_ms) == ("k", 1_500)
        assert job.due_ms == clock.now_ms() + 30 * 86_400_000
        assert info.state is bide.State.SCHEDULED


def test_a_delay_counts_from_the_put() -> None:
    clock = ManualClock()
    with make_app(clock) as app:
        later = app.task(remind).using(delay=60)
        request = later.request(1)
        clock.advance(3600)
        (handle,) = app.enqueue_many([request])
        info = handle.get()
        assert info is not None
        assert info.job.due_ms == clock.now_ms() + 60_000


@pytest.mark.parametrize(
    "options",
    [
        {"retry_backoff": -1},
        {"retry_backoff": math.nan},
        {"retry_backoff": 5, "retry_backoff_max": 4},
        {"retry_jitter": 2},
        {"retry_on": "ValueError"},
        {"retry_on": (ValueError, 5)},
        {"retry_on": int},
        {"timeout": -1},
        {"queue": "a b"},
        {"name": "a b"},
        {"name": "x" * 201},
    ],
    ids=str,
)
def test_refused_when_registered(options: dict[str, Any]) -> None:
    with make_app() as app:
        with pytest.raises(UsageError):
            app.task(**options)(remind)
        assert app.tasks == {}


def test_retry_options_make_a_policy() -> None:
    with make_app() as app:
        task = app.task(
            retry_backoff=timedelta(seconds=2),
            retry_backoff_max=60,
            retry_jitter=0,
            retry_on=(OSError, ValueError),
        )(remind)
        assert task.retry_on == (OSError, ValueError)
        assert [task.retry.delay_ms(n, 0.5) for n in (1, 2, 9)] == [2_000, 4_000, 60_000]
        assert app.task(name="slow", retry_backoff=7_200)(remind).retry.delay_ms(3, 0) == 7_200_000
        assert app.task(name="one", retry_on=KeyError)(remind).retry_on == (KeyError,)


# ---------------------------------------------------------------- the function


def test_a_task_is_still_its_function() -> None:
    with make_app() as app:
        task = app.task(remind)
        assert task(42) == "order 42"
        assert task.__doc__ == "Remind a customer."
        assert task.__wrapped__ is remind
        assert "remind" in repr(task)


def test_a_task_is_no_function_to_register() -> None:
    with make_app() as app:
        task = app.task(remind)
        with pytest.raises(InvalidOption, match="task already"):
            app.task(name="again")(task)


def outer() -> Callable[[], None]:
    def inner() -> None: ...

    return inner


def test_names_say_where_the_function_is() -> None:
    assert task_name(remind) == f"{__name__}.remind"
    assert task_name(outer()) == f"{__name__}.outer.inner"
    with make_app() as app:
        assert app.task(remind).name == f"{__name__}.remind"
        assert app.task(name="shop.remind")(remind).name == "shop.remind"


def test_a_second_task_of_a_name_is_refused_with_both_places() -> None:
    with make_app() as app:
        app.task(remind)
        with pytest.raises(DuplicateTask) as caught:
            app.task(name=f"{__name__}.remind")(outer())
        assert caught.value.task == f"{__name__}.remind"
        for function in (remind, outer()):
            place = f"{__file__}:{function.__code__.co_firstlineno}"
            assert place in str(caught.value)
        assert app.tasks[f"{__name__}.remind"].function is remind


def test_two_apps_may_have_tasks_of_one_name() -> None:
    with make_app() as one, make_app() as other:
        assert one.task(remind).name == other.task(remind).name


SCRIPT = """\
import bide
app = bide.App("memory:")
@app.task
def remind(): ...
print(remind.name)
"""


def test_a_scripts_tasks_are_named_as_a_worker_imports_them(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SCRIPT)
    package = tmp_path / "store"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SCRIPT)
    (package / "mail.py").write_text(SCRIPT)
    calls = {
        "shop.remind": ["shop.py"],
        "store.remind": ["-m", "store"],
        "store.mail.remind": ["-m", "store.mail"],
    }
    for name, arguments in calls.items():
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(Path(bide.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout.strip(), done.stderr) == (name, "")
    assert (
        runpy.run_path(str(tmp_path / "shop.py"), run_name="shop")["remind"].name == "shop.remind"
    )
