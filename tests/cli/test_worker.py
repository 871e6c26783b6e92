"""bide worker: a process of its own, its lines, its signals, its refusals."""

import signal
import subprocess
from pathlib import Path

import pytest

from bide.model.job import State
from tests.cli.conftest import Cli, Start, Store


def finish(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """What it still prints, once it has ended as it should."""
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert "Traceback" not in stderr
    return stdout, stderr


def start_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def wait_for(process: "subprocess.Popen[str]", stream: str, text: str) -> None:
    """Read lines until one starts with *text*."""
    lines = []
    for line in getattr(process, stream):
        if line.startswith(text):
            return
        lines.append(line)
    pytest.fail(f"no line starts with {text!r}: {lines}")


def test_a_burst_runs_what_is_due_and_ends(shop: Path, store: Store, start: Start) -> None:
    store.remind.enqueue(41)
    store.remind.enqueue(42)
    later = store.remind.using(delay=3_600).enqueue(43)
    bad = store.explode.enqueue()
    process = start("worker", "shop:app", "--burst", "--threads", "2", "--url", store.url)
    assert start_line(process) == (
        f"bide worker: shop:app at {store.url}; queues default, mail; 2 threads; "
        "tasks explode, hold, remind, spin"
    )
    stdout, stderr = finish(process)
    *ran, end = stdout.splitlines()
    assert sorted(ran) == ["reminded 41", "reminded 42"]
    assert end == (
        "bide worker ended: 2 succeeded, 1 failed, 0 retried, 0 snoozed, 0 cancelled, "
        "0 unsettled, 0 stuck"
    )
    (line,) = [line for line in stderr.splitlines() if "boom" in line]
    assert f" ERROR job {bad.id} (explode) failed for good" in line
    assert "\x1b" not in line
    info = bad.get()
    assert info is not None
    assert info.state is State.FAILED
    assert later.get() is not None


def test_only_the_queues_named_are_served(shop: Path, store: Store, start: Start) -> None:
    store.remind.enqueue(1)
    other = store.explode.enqueue()
    process = start("worker", "shop:app", "--burst", "-q", "mail", "--url", store.url)
    assert "; queues mail; 8 threads;" in start_line(process)
    assert "1 succeeded, 0 failed" in finish(process)[0]
    info = other.get()
    assert info is not None
    assert info.state is State.READY


def test_queues_are_served_in_the_order_named(shop: Path, start: Start) -> None:
    args = ("worker", "shop:app", "--burst", "--url", "file:new", "-q", "mail, default")
    assert "; queues mail, default;" in finish(start(*args))[0]


def test_a_worker_makes_its_store(shop: Path, here: Path, start: Start) -> None:
    finish(start("worker", "shop:app", "--burst", "--url", "file:new"))
    assert (here / "new" / "bide.json").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_lets_running_jobs_end(
    shop: Path, store: Store, start: Start, number: signal.Signals
) -> None:
    held = store.hold.enqueue()
    process = start("worker", "shop:app", "-q", "default", "--url", store.url)
    assert start_line(process).startswith("bide worker: shop:app at ")
    wait_for(process, "stdout", "holding")
    process.send_signal(number)
    wait_for(process, "stderr", "bide: stopping once the running jobs have ended")
    waiting = store.explode.enqueue()  # a stopping worker takes no more
    stdout, _ = process.communicate("x")
    assert process.returncode == 0
    assert "1 succeeded, 0 failed" in stdout
    assert held.get() is None
    assert waiting.get() is not None


def test_an_idle_worker_ends_at_a_signal(shop: Path, store: Store, start: Start) -> None:
    store.app.stats()
    process = start("worker", "shop:app", "--url", store.url)
    start_line(process)
    process.send_signal(signal.SIGTERM)
    assert "bide worker ended: 0 succeeded" in finish(process)[0]


def test_the_second_signal_stops_at_once_and_loses_no_job(
    shop: Path, store: Store, start: Start
) -> None:
    handle = store.spin.enqueue()
    process = start("worker", "shop:app", "--url", store.url, "--drain-timeout", "3600")
    wait_for(process, "stdout", "spinning")
    process.send_signal(signal.SIGTERM)
    wait_for(process, "stderr", "bide: stopping once")
    process.send_signal(signal.SIGTERM)
    stdout, stderr = finish(process)
    assert "bide: stopping now" in stderr
    assert "bide worker ended: 0 succeeded" in stdout
    info = handle.get()
    assert info is not None
    assert info.state is State.READY
    assert info.job.attempt == 0


def test_the_log_level(shop: Path, store: Store, start: Start) -> None:
    store.explode.enqueue()
    quiet = start("worker", "shop:app", "--burst", "--url", store.url, "--log-level", "warning")
    _, stderr = finish(quiet)
    assert "INFO" not in stderr
    assert "ERROR" in stderr


def test_logging_that_the_program_has_set_up_stays(shop: Path, store: Store, start: Start) -> None:
    text = shop.read_text(encoding="utf-8")
    setup = "import logging\nlogging.basicConfig(format='mine: %(message)s')\n"
    shop.write_text(text + setup, encoding="utf-8")
    store.explode.enqueue()
    _, stderr = finish(start("worker", "shop:app", "--burst", "--url", store.url))
    assert "mine: job " in stderr


# ---------------------------------------------------------------- refusals


def test_a_queue_that_no_task_names(run: Cli, shop: Path) -> None:
    message = run.error("worker", "shop:app", "-q", "mail,mial", "--url", "file:new", code=2)
    assert "'mial'" in message
    assert "default, mail" in message


def test_an_app_without_a_task(run: Cli, here: Path) -> None:
    (here / "bare.py").write_text("import bide\napp = bide.App('file:new')\n")
    assert "no task" in run.error("worker", "bare:app", code=2)
    assert not (here / "new").exists()


@pytest.mark.parametrize(
    "args,text",
    [
        (("--threads", "0"), "threads 0"),
        (("--threads", "x"), "not a valid int"),
        (("--drain-timeout", "-1"), "drain timeout -1.0"),
        (("--drain-timeout", "nan"), "drain timeout nan"),
        (("-q", "mail,mail"), "named twice"),
        (("-q", "a b"), "queue name 'a b'"),
        (("-q", ""), "queue name ''"),
        (("--log-level", "loud"), "is not one of"),
    ],
)
def test_options_out_of_range(run: Cli, shop: Path, args: tuple[str, ...], text: str) -> None:
    message = run.error("worker", "shop:app", "--url", "file:new", *args, code=2)
    assert text in message


def test_no_store_is_named(run: Cli, shop: Path) -> None:
    assert "which store?" in run.error("worker", "shop:app", code=2)


def test_a_store_that_cannot_be_used(run: Cli, shop: Path, here: Path) -> None:
    (here / "foreign").mkdir()
    (here / "foreign" / "file").touch()
    message = run.error("worker", "shop:app", "--url", "file:foreign", code=1)
    assert "another program's directory" in message
