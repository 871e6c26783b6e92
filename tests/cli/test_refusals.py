"""What bad input gets: a line that says what to do, the documented code, and no traceback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bide.model.job import State
from tests.cli.conftest import Cli, Start, Store
from tests.mounts import run_on_small_disk, run_read_only

COMMANDS = (
    ("stats",),
    ("jobs",),
    ("failed",),
    ("show", "1"),
    ("cancel", "1"),
    ("kick", "1"),
    ("worker", "shop:app", "--burst"),
)

EACH_COMMAND = pytest.mark.parametrize("args", COMMANDS, ids=lambda args: args[0])


# ---------------------------------------------------------------- the store's directory


@EACH_COMMAND
def test_another_programs_directory(
    run: Cli, shop: Path, here: Path, args: tuple[str, ...]
) -> None:
    (here / "foreign").mkdir()
    (here / "foreign" / "precious").touch()
    message = run.error(*args, "--url", "file:foreign", code=1)
    assert f"{here}/foreign: " in message
    makes_one = args[0] == "worker"
    assert ("name an empty one" if makes_one else "a program that uses `bide.App`") in message
    assert [entry.name for entry in (here / "foreign").iterdir()] == ["precious"]


@EACH_COMMAND
def test_a_store_of_a_newer_bide(
    run: Cli, shop: Path, store: Store, here: Path, args: tuple[str, ...]
) -> None:
    store.app.stats()
    file = here / "jobs" / "bide.json"
    identity = json.loads(file.read_bytes()) | {"version": 9}
    file.write_text(json.dumps(identity), encoding="utf-8")
    message = run.error(*args, code=1)
    assert message == f"{here}/jobs: the store has format 9; this bide reads 1: upgrade bide\n"


@EACH_COMMAND
def test_a_file_in_the_place_of_the_directory(
    run: Cli, shop: Path, here: Path, args: tuple[str, ...]
) -> None:
    message = run.error(*args, "--url", "file:shop.py", code=1)
    assert f"{here}/shop.py" in message
    assert "Not a directory" in message


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of a process that was refused by the store."""
    assert done.returncode == 1, done
    assert done.stdout == ""
    assert done.stderr.startswith("bide: error: ")
    assert done.stderr.count("\n") == 1, "no traceback"
    return done.stderr.removeprefix("bide: error: ")


@EACH_COMMAND
def test_a_read_only_disk(store: Store, here: Path, args: tuple[str, ...]) -> None:
    handle = store.remind.enqueue(1)
    (here / "shop.py").touch()
    args = tuple("tests.crash.app:app" if arg == "shop:app" else arg for arg in args)
    done = run_read_only(here, "-m", "bide.cli", *args, "--url", store.url)
    assert handle.get() is not None
    if args[0] in {"stats", "jobs", "failed", "show"}:  # to look, nothing need be written
        assert (done.returncode, done.stderr) == (0, "")
        return
    message = refused(done)
    assert message.startswith(f"{here}/jobs: ")
    assert "give this user the right to write there" in message


ON_A_FULL_DISK = """
import sys, bide
from pathlib import Path
from bide.cli.main import main

disk = Path(sys.argv.pop(1))
url = (disk / "jobs").as_uri()
if "worker" not in sys.argv:
    with bide.App(url) as app:
        app.task(name="note")(lambda: None).using(delay=3600).enqueue()
with (disk / "ballast").open("wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(4096))
    except OSError:
        file.truncate(file.tell() - 8192)
sys.argv += ["--url", url]
main()
"""


def test_a_full_disk_has_no_room_for_a_workers_store(here: Path) -> None:
    args = ("worker", "tests.crash.app:app", "--burst")
    done = run_on_small_disk(here, 4 << 20, "-c", ON_A_FULL_DISK, str(here), *args)
    assert "no space left on" in refused(done).lower()


@pytest.mark.parametrize("args", COMMANDS[:4], ids=lambda args: args[0])
def test_a_full_disk_can_be_looked_at(here: Path, args: tuple[str, ...]) -> None:
    done = run_on_small_disk(here, 4 << 20, "-c", ON_A_FULL_DISK, str(here), *args)
    assert (done.returncode, done.stderr) == (0, "")


# ---------------------------------------------------------------- which store, queue, job


@EACH_COMMAND
@pytest.mark.parametrize("url", ["jobs", "redis://localhost/0", "file://host/jobs", "file:"])
def test_a_url_that_names_no_store(run: Cli, shop: Path, args: tuple[str, ...], url: str) -> None:
    message = run.error(*args, "--url", url, code=2)
    assert "use file:///path/to/directory" in message


@pytest.mark.parametrize("url", ["file://[jobs", "file:///jobs%00"])
def test_a_url_that_cannot_even_be_taken_apart(run: Cli, here: Path, url: str) -> None:
    assert "use file:///path/to/directory" in run.error("stats", "--url", url, code=2)


@pytest.mark.parametrize("queue", ["mial", "", "a b", "mail ", "\x1b[31m", "x" * 65, "größe"])
@pytest.mark.parametrize(
    "args",
    [
        ("jobs",),
        ("failed",),
        ("show", "--key", "k"),
        ("cancel", "--key", "k"),
        ("kick", "--key", "k"),
    ],
    ids=lambda args: args[0],
)
def test_a_queue_that_is_unknown_or_can_be_none(
    run: Cli, store: Store, args: tuple[str, ...], queue: str
) -> None:
    store.remind.enqueue(1)
    store.explode.enqueue()
    message = run.error(*args, "--queue", queue, code=2)
    assert message.startswith("no queue '")
    assert "the queues are default, mail" in message
    assert "\x1b" not in message


@pytest.mark.parametrize("command", ["jobs", "failed"])
def test_a_queue_without_a_name(run: Cli, store: Store, command: str) -> None:
    store.remind.enqueue(1)
    assert run.error(command, "--queue", "", code=2).startswith("no queue ''")


@pytest.mark.parametrize("command", ["show", "cancel", "kick"])
@pytest.mark.parametrize("key", ["", "x" * 256, "ä" * 128, "\udcff"])
def test_a_key_that_can_be_none(run: Cli, store: Store, command: str, key: str) -> None:
    store.remind.enqueue(1)
    message = run.error(command, "--key", key, "--queue", "mail", code=2)
    assert "1 to 255 bytes" in message or "not encodable as UTF-8" in message


# ---------------------------------------------------------------- the program that is named

MODULE = """\
import math
from datetime import datetime, timedelta
import bide

app = bide.App("file:jobs")

@app.task(name="remind")
def remind(order_id: int) -> None: ...

{line}
"""


@pytest.mark.parametrize(
    "line, text",
    [
        ("remind.enqueue('one')", "InvalidArguments: task 'remind': Expected `int`, got `str`"),
        ("remind.enqueue()", "InvalidArguments: task 'remind': missing a required argument"),
        ("remind.enqueue(1, to='x')", "InvalidArguments: task 'remind': got an unexpected"),
        ("remind.using(queue='a b').enqueue(1)", "InvalidName: queue name 'a b': use 1 to 64"),
        ("remind.using(key='k' * 256).enqueue(1)", "InvalidName: key of 256 bytes: use 1 to 255"),
        ("remind.using(delay=-1).enqueue(1)", "InvalidDelay: delay -1 is negative: use 0 for now"),
        ("remind.using(delay=math.nan).enqueue(1)", "InvalidDelay: delay nan: use a finite number"),
        ("remind.using(delay=math.inf).enqueue(1)", "InvalidDelay: delay inf: use a finite number"),
        (
            "remind.using(delay=1e18).enqueue(1)",
            "InvalidDelay: delay 1e+18: the limit is 100 years",
        ),
        ("remind.using(delay=True).enqueue(1)", "InvalidDelay: delay True: use a finite number"),
        ("remind.using(run_at=datetime(2030, 1, 1)).enqueue(1)", "is naive: give it a time zone"),
        ("app.task(name='big')(lambda text: None).enqueue('x' * 2**20)", "BodyTooLarge: arguments"),
        ("app.close(); remind.enqueue(1)", "StoreClosed: this App was closed; make a new one"),
        ("@app.task(name='remind')\ndef again() -> None: ...", "DuplicateTask: task 'remind'"),
        ("@app.task(timeout=-1)\ndef again() -> None: ...", "InvalidOption: timeout -1: use"),
        ("bide.App('jobs').stats()", "InvalidUrl: 'jobs' names no store: use file:///path"),
        ("bide.App().stats()", "InvalidUrl: the App has no store: write App("),
    ],
)
@pytest.mark.parametrize("command", ["worker", "stats"])
def test_a_module_with_a_wrong_call(
    run: Cli, here: Path, command: str, line: str, text: str
) -> None:
    (here / "wrong.py").write_text(MODULE.format(line=line), encoding="utf-8")
    args = ("worker", "wrong:app") if command == "worker" else ("stats", "--app", "wrong:app")
    message = run.error(*args, code=2)
    assert message.startswith("module 'wrong' does not import: ")
    assert text in message
    assert f"({here}/wrong.py, line " in message
    assert message.count("\n") == 1


def test_a_second_app_on_the_directory_is_none_of_these(run: Cli, here: Path) -> None:
    (here / "two.py").write_text(
        MODULE.format(
            line="remind.enqueue(1)\nwith bide.App('file:./jobs') as other: other.stats()"
        ),
        encoding="utf-8",
    )
    assert run.json("stats", "--app", "two:app")["queues"][0]["ready"] == 1


# ---------------------------------------------------------------- jobs that do not fit the program


def end(process: subprocess.Popen[str]) -> list[str]:
    """What a worker logged, which has ended well."""
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in stderr
    return stderr.splitlines()


def test_a_job_whose_arguments_no_longer_fit(shop: Path, store: Store, start: Start) -> None:
    old = store.app.task(name="old", queue="mail")(lambda order: None)
    request = old.using(max_retries=0).request("one")
    del store.app.tasks["old"]
    store.app.enqueue_many([type(request)("remind", request.args, request.options, 0)])
    (line,) = end(start("worker", "shop:app", "--burst", "-q", "mail", "--url", store.url))
    assert "failed for good at attempt 1" in line
    assert "its signature is remind(order_id: int)" in line
    (info,) = store.app.jobs(State.FAILED).jobs
    assert "missing required field" in info.job.errors[-1].text


def test_a_job_of_a_task_that_the_program_has_not(shop: Path, store: Store, start: Start) -> None:
    handle = store.app.task(name="gone", queue="mail")(lambda: None).enqueue()
    (line,) = end(start("worker", "shop:app", "--burst", "-q", "mail", "--url", store.url))
    assert f"job {handle.id}: no task 'gone' here; it waits for a worker that has it" in line
    info = handle.get()
    assert info is not None
    assert (info.state, info.job.attempt) == (State.SCHEDULED, 0)
