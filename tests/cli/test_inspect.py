"""stats, jobs, show and failed, for people and for programs."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

import bide
from bide.backends.port import Attendance
from bide.errors import StoreClosed
from bide.model.commands import Exhausted, Settlement
from bide.model.job import Lease, NewJob
from tests.cli.conftest import Cli, Store

THREE_DAYS = 3 * 86_400


@contextmanager
def leased(app: bide.App, queue: str, count: int = 1) -> Iterator[tuple[Attendance, list[Lease]]]:
    """Jobs of a queue, held by this process as a worker."""
    attendance = app.backend.attend((queue,))
    leases = app.backend.reserve(attendance.owner, (queue,), count).leases
    assert len(leases) == count
    yield attendance, list(leases)
    attendance.leave()


def fail(app: bide.App, queue: str, text: str) -> int:
    """Fail the next job of *queue* for good; returns its id."""
    with leased(app, queue) as (attendance, (lease,)):
        settlement = Settlement(lease.job.id, lease.attempt, Exhausted(text))
        assert app.backend.reserve(attendance.owner, (queue,), 0, (settlement,)).refused == (None,)
        return lease.job.id


# ---------------------------------------------------------------- stats


def test_stats_of_an_empty_store_says_so_in_words(run: Cli, store: Store) -> None:
    assert store.app.stats().queues == ()
    result = run("stats")
    assert "no job was ever put here" in result.stdout
    assert "no worker is known" in result.stdout
    assert run.json("stats") | {"now_ms": 0} == {"now_ms": 0, "queues": [], "owners": []}


def test_stats_counts(run: Cli, store: Store) -> None:
    store.remind.enqueue(1)
    store.remind.enqueue(2)
    store.remind.using(delay=THREE_DAYS).enqueue(3)
    store.explode.enqueue()
    fail(store.app, "default", "no")
    with leased(store.app, "mail") as (attendance, _):
        document = run.json("stats")
        text = run("stats").stdout
    default, mail = document["queues"]
    assert default["queue"] == "default"
    assert default["failed"] == default["failed_total"] == 1
    assert default["next_due_ms"] is None
    assert {name: mail[name] for name in ("waiting", "ready", "running", "put_total")} == {
        "waiting": 2,
        "ready": 1,
        "running": 1,
        "put_total": 3,
    }
    (owner,) = document["owners"]
    assert owner["id"] == attendance.owner
    assert owner["queues"] == ["mail"]
    assert set(owner) == {"id", "token", "host", "pid", "started_ms", "queues"}
    rows = [line.split() for line in text.splitlines()]
    assert ["QUEUE", "READY", "SCHEDULED", "RUNNING", "FAILED", "NEXT", "DUE"] in rows
    assert ["default", "0", "0", "0", "1", "-"] in rows
    assert any(row[:5] == ["mail", "1", "1", "1", "0"] for row in rows)
    assert any(row[:1] == [str(owner["id"])] and str(owner["pid"]) in row for row in rows)


# ---------------------------------------------------------------- jobs


def test_jobs_lists_running_then_ready_then_scheduled(run: Cli, store: Store) -> None:
    later = store.remind.using(delay=THREE_DAYS, key="order-[red]").enqueue(3)
    running = store.remind.enqueue(1)
    ready = store.remind.using(priority=-5).enqueue(42)
    store.explode.enqueue()
    failed = fail(store.app, "default", "no")
    with leased(store.app, "mail"):
        document = run.json("jobs")
        text = run("jobs").stdout
        for state, job_id in (
            ("running", running.id),
            ("ready", ready.id),
            ("scheduled", later.id),
            ("failed", failed),
        ):
            assert [job["id"] for job in run.json("jobs", "--state", state)["jobs"]] == [job_id]
    assert [(job["id"], job["state"]) for job in document["jobs"]] == [
        (running.id, "running"),
        (ready.id, "ready"),
        (later.id, "scheduled"),
    ]
    assert document["next"] is None
    assert document["unreadable"] == []
    header, *rows = text.splitlines()
    assert header.split() == ["JOB", "STATE", "QUEUE", "DUE", "CALL", "PRIORITY", "KEY"]
    assert [row.split()[0] for row in rows] == [str(job["id"]) for job in document["jobs"]]
    assert "remind(order_id=42)" in rows[1]
    assert "in 3 d" in rows[2]
    assert rows[2].endswith("order-[red]")


def test_jobs_of_one_queue(run: Cli, store: Store) -> None:
    store.remind.enqueue(1)
    handle = store.explode.enqueue()
    assert [job["id"] for job in run.json("jobs", "--queue", "default")["jobs"]] == [handle.id]


def test_pages_meet_end_to_end(run: Cli, store: Store) -> None:
    handles = [store.remind.enqueue(n) for n in range(4)]
    handles += [store.remind.using(delay=THREE_DAYS + n).enqueue(n) for n in range(3)]
    seen: list[int] = []
    document = run.json("jobs", "--limit", "2")
    seen += [job["id"] for job in document["jobs"]]
    for _ in range(3):  # 7 jobs by 2
        document = run.json("jobs", "--limit", "2", "--after", document["next"])
        seen += [job["id"] for job in document["jobs"]]
    assert document["next"] is None
    assert seen == [handle.id for handle in handles]


def test_a_full_page_says_how_to_go_on(run: Cli, store: Store) -> None:
    store.remind.enqueue(1)
    store.remind.using(delay=THREE_DAYS).enqueue(2)
    result = run("jobs", "--limit", "1")
    assert len(result.stdout.splitlines()) == 2
    cursor = result.stderr.rpartition("--after ")[2].strip()
    assert "remind(order_id=2)" in run("jobs", "--after", cursor).stdout
    assert run("jobs").stderr == ""


def test_a_limit_over_a_page_of_the_store(run: Cli, store: Store) -> None:
    store.app.enqueue_many(store.remind.request(n) for n in range(1_005))
    document = run.json("jobs", "--limit", "1003")
    assert len({job["id"] for job in document["jobs"]}) == 1_003
    assert len(run.json("jobs", "--after", document["next"])["jobs"]) == 2


def test_a_cursor_belongs_to_its_listing(run: Cli, store: Store) -> None:
    store.remind.enqueue(1)
    store.remind.enqueue(2)
    cursor = run.json("jobs", "--limit", "1", "--queue", "mail")["next"]
    assert "--state and --queue" in run.error("jobs", "--after", cursor, code=2)
    ours = ("jobs", "--queue", "mail", "--after", cursor)
    assert "--state and --queue" in run.error(*ours, "--state", "failed", code=2)
    assert len(run.json(*ours)["jobs"]) == 1


@pytest.mark.parametrize("cursor", ["", "x", "!!", "W10", "\u00e9", "W1tdLG51bGwsbnVsbF0"])
def test_a_cursor_that_is_none(run: Cli, store: Store, cursor: str) -> None:
    store.remind.enqueue(1)
    assert "--after" in run.error("jobs", "--after", cursor, code=2)


def test_a_cursor_whose_inside_is_damaged(run: Cli, store: Store) -> None:
    store.remind.enqueue(1)
    word = base64.urlsafe_b64encode(b'[["scheduled","prepared"],null,"["]').decode()
    assert "after '['" in run.error("jobs", "--after", word, code=2)


def test_nothing_to_list_is_said_in_words(run: Cli, store: Store) -> None:
    store.app.cancel(store.remind.enqueue(1).id)
    assert run("jobs").stdout == "no job waits or runs\n"
    assert run("jobs", "--state", "ready", "--queue", "mail").stdout == (
        "no job is ready in queue mail\n"
    )
    assert run("failed").stdout == "no job has failed\n"


def test_arguments_that_cannot_be_decoded_are_shown_as_such(run: Cli, store: Store) -> None:
    for args in (b"\xc1", msgspec.msgpack.encode({"x": msgspec.msgpack.Ext(3, b"y")})):
        store.app.backend.put((NewJob(queue="raw", task="t", args=args, due_ms=0),))
    first, second = run.json("jobs", "--queue", "raw")["jobs"]
    assert first["args"] is second["args"] is None
    assert base64.b64decode(first["args_base64"]) == b"\xc1"
    assert "t(<1 bytes>)" in run("jobs").stdout


def test_text_from_jobs_cannot_steer_a_terminal(run: Cli, store: Store) -> None:
    handle = store.remind.using(key="\x1b[31m[bold]\n").enqueue(1)
    for result in (run("jobs"), run("show", str(handle.id))):
        assert "\x1b" not in result.stdout
        assert r"\x1b[31m[bold]\n" in result.stdout
    assert "\x1b" not in run.error("show", "--key", "\x1b", "--queue", "mail", code=1)


# ---------------------------------------------------------------- show


def test_show_a_job(run: Cli, store: Store) -> None:
    handle = store.remind.using(delay=THREE_DAYS, key="order-42", timeout=1.5).enqueue(42)
    by_id = run.json("show", str(handle.id))
    assert by_id == run.json("show", "--key", "order-42", "--queue", "mail")
    info = handle.get()
    assert info is not None
    assert by_id == {
        "id": handle.id,
        "state": "scheduled",
        "queue": "mail",
        "task": "remind",
        "args": {"order_id": 42},
        "args_base64": base64.b64encode(info.job.args).decode(),
        "due_ms": info.job.due_ms,
        "priority": 0,
        "key": "order-42",
        "attempt": 0,
        "max_retries": 5,
        "timeout_ms": 1_500,
        "put_ms": info.job.put_ms,
        "failed_ms": None,
        "snoozes": 0,
        "misses": 0,
        "errors": [],
        "owner": None,
    }
    rows = [line.split(maxsplit=1) for line in run("show", str(handle.id)).stdout.splitlines()]
    assert ["call", "remind(order_id=42)"] in rows
    assert ["attempts", "0 of 6"] in rows
    assert ["timeout", "1.5 s"] in rows


def test_show_a_running_job_names_its_worker(run: Cli, store: Store) -> None:
    handle = store.remind.enqueue(1)
    with leased(store.app, "mail") as (attendance, _):
        assert run.json("show", str(handle.id))["owner"]["id"] == attendance.owner
        assert f"worker {attendance.owner}, pid " in run("show", str(handle.id)).stdout


def test_show_a_failed_job_with_its_whole_error(run: Cli, store: Store) -> None:
    store.explode.enqueue()
    job_id = fail(store.app, "default", "first line\nValueError: \x1b[31m[red]no")
    (error,) = run.json("show", str(job_id))["errors"]
    assert error["attempt"] == 1
    assert error["text"].endswith("[red]no")
    text = run("show", str(job_id)).stdout
    assert "first line" in text
    assert r"ValueError: \x1b[31m[red]no" in text


def test_show_without_a_queue_means_the_default_queue(run: Cli, store: Store) -> None:
    handle = store.explode.using(key="k").enqueue()
    assert run.json("show", "--key", "k")["id"] == handle.id


@pytest.mark.parametrize("command", ["show", "cancel", "kick"])
def test_which_job_must_be_said_once(run: Cli, store: Store, command: str) -> None:
    store.remind.enqueue(1)
    both = "by its id, or by --key and --queue"
    assert both in run.error(command, code=2)
    assert both in run.error(command, "1", "--key", "k", "--queue", "mail", code=2)
    assert "--queue goes with --key" in run.error(command, "1", "--queue", "mail", code=2)
    assert "not a valid int" in run.error(command, "one", code=2)
    assert "is not in the range" in run.error(command, "0", code=2)
    assert "is not in the range" in run.error(command, str(1 << 63), code=2)


@pytest.mark.parametrize("command", ["show", "cancel", "kick"])
def test_a_job_that_is_not_there(run: Cli, store: Store, command: str) -> None:
    store.remind.enqueue(1)
    missing = "no such live job; it may have run, or been cancelled\n"
    assert run.error(command, "99", code=1) == f"job 99: {missing}"
    by_key = run.error(command, "--key", "k", "--queue", "mail", code=1)
    assert by_key == f"key 'k' in queue 'mail': {missing}"


# ---------------------------------------------------------------- failed


def test_failed_lists_the_last_line_of_the_last_error(run: Cli, store: Store) -> None:
    store.explode.enqueue()
    store.remind.enqueue(7)
    for queue in ("default", "mail"):
        fail(store.app, queue, f"Traceback ...\n  in {queue}\nValueError: [{queue}] \x07\n")
    header, first, second = run("failed").stdout.splitlines()
    assert header.split() == ["JOB", "TASK", "ATTEMPTS", "WHEN", "ERROR"]
    assert first.endswith(r"ValueError: [default] \x07")
    assert "now" in first or "s ago" in first
    assert second.split()[1:3] == ["remind", "1"]
    document = run.json("failed", "--queue", "mail")
    assert [job["task"] for job in document["jobs"]] == ["remind"]
    assert run("jobs", "--state", "failed").stdout == run("failed").stdout
    assert "--after" in run("failed", "--limit", "1").stderr


# ---------------------------------------------------------------- which store, which queue


@pytest.mark.parametrize(
    "args",
    [
        ("jobs", "--queue", "mial"),
        ("failed", "--queue", "mial"),
        ("show", "--key", "k", "--queue", "mial"),
        ("cancel", "--key", "k", "--queue", "mial"),
        ("kick", "--key", "k", "--queue", "mial"),
    ],
)
def test_an_unknown_queue_is_refused_by_naming_the_known_ones(
    run: Cli, store: Store, args: tuple[str, ...]
) -> None:
    store.remind.enqueue(1)
    store.explode.enqueue()
    message = run.error(*args, code=2)
    assert message == "no queue 'mial': did you mean mail? the queues are default, mail\n"


def test_an_unknown_queue_of_an_empty_store(run: Cli, store: Store) -> None:
    store.app.stats()
    assert run.error("jobs", "--queue", "mail", code=2) == (
        "no queue 'mail': no job was ever put here\n"
    )


def test_a_queue_that_only_a_task_names_is_known_with_its_app(
    run: Cli, store: Store, shop: Path
) -> None:
    store.app.stats()
    result = run("jobs", "--queue", "mail", "--app", "shop:app")
    assert result.stdout == "no job waits or runs in queue mail\n"


READERS = (("stats",), ("jobs",), ("failed",), ("show", "1"), ("cancel", "1"), ("kick", "1"))


@pytest.mark.parametrize("args", READERS)
def test_looking_makes_no_store(run: Cli, here: Path, args: tuple[str, ...]) -> None:
    message = run.error(*args, "--url", f"file://{here}/none", code=1)
    assert f"{here}/none: no store there" in message
    assert not (here / "none").exists()


def test_looking_through_an_app_makes_no_store(run: Cli, here: Path, shop: Path) -> None:
    run.error("stats", "--app", "shop:app", "--url", "file:none", code=1)
    assert not (here / "none").exists()


@pytest.mark.parametrize("args", READERS)
def test_no_store_is_named(run: Cli, args: tuple[str, ...]) -> None:
    message = run.error(*args, code=2)
    for way in ("--url file:///path/to/jobs", "BIDE_URL", "an App that has one"):
        assert way in message


def test_a_url_that_names_no_store(run: Cli) -> None:
    assert "use file:///path/to/directory" in run.error("stats", "--url", "/jobs", code=2)
    assert "unknown option" in run.error("stats", "--url", "file:jobs?x=1", code=2)


def test_the_command_line_comes_before_the_app_and_that_before_the_environment(
    run: Cli, here: Path
) -> None:
    for name in ("line", "own", "environment"):
        with bide.App(f"file:{name}") as app:
            app.task(name="t", queue=name)(lambda: None).enqueue()
    (here / "shop.py").write_text("import bide\napp = bide.App('file:own')\nnone = bide.App()\n")
    run.env["BIDE_URL"] = "file:environment"

    def store_of(*args: str) -> str:
        (queue,) = run.json("stats", *args)["queues"]
        return str(queue["queue"])

    assert store_of("--app", "shop:app", "--url", "file:line") == "line"
    assert store_of("--app", "shop:none", "--url", "file:line") == "line"
    assert store_of() == "environment"
    assert store_of("--app", "shop:none") == "environment"
    del run.env["BIDE_URL"]
    assert store_of("--url", "file:line") == "line"


def test_the_apps_own_store_comes_before_the_environment(run: Cli, here: Path) -> None:
    for name in ("own", "environment"):
        with bide.App(f"file:{name}") as app:
            app.task(name="t", queue=name)(lambda: None).enqueue()
    (here / "shop.py").write_text("import bide\napp = bide.App('file:own')\n")
    run.env["BIDE_URL"] = "file:environment"
    assert run.json("stats", "--app", "shop:app")["queues"][0]["queue"] == "own"


def test_an_app_that_its_module_has_used_already(run: Cli, here: Path) -> None:
    (here / "eager.py").write_text(
        "import bide\n"
        "app = bide.App('file:jobs')\n"
        "@app.task(name='t')\n"
        "def t() -> None: ...\n"
        "t.enqueue()\n"
    )
    assert len(run.json("jobs", "--app", "eager:app")["jobs"]) == 1


def test_an_app_that_its_module_has_used_elsewhere(run: Cli, here: Path) -> None:
    (here / "eager.py").write_text("import bide\napp = bide.App('file:jobs')\napp.stats()\n")
    message = run.error("jobs", "--app", "eager:app", "--url", "file:other", code=2)
    assert "already uses file:jobs" in message
    import_module("eager").app.close()


def test_relative_times_are_by_the_apps_own_clock(run: Cli, store: Store, here: Path) -> None:
    (here / "past.py").write_text(
        "import bide\n"
        "from bide.clock import monotonic_ns\n"
        "clock = bide.ScaledClock(start_ms=86_400_000, rate=1.0, origin_ns=monotonic_ns())\n"
        "app = bide.App(clock=clock)\n"
    )
    handle = store.remind.enqueue(1)
    assert run.json("stats", "--app", "past:app")["now_ms"] < 2 * 86_400_000
    assert run.json("show", str(handle.id), "--app", "past:app")["state"] == "scheduled"
    assert " y" in run("jobs", "--app", "past:app").stdout


def test_a_command_closes_the_store(run: Cli, here: Path) -> None:
    (here / "kept.py").write_text("import bide\napp = bide.App('memory:')\n")
    run("stats", "--app", "kept:app")
    with pytest.raises(StoreClosed):
        import_module("kept").app.stats()
