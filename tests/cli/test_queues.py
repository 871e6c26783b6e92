"""pause, resume, purge, channels, channel make and drop; what is prepared is shown."""

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from bide.model.job import State
from tests.cli.conftest import Cli, Store
from tests.cli.test_inspect import fail, leased
from tests.worker.running import PATIENCE_S


def test_pause_and_resume(run: Cli, store: Store) -> None:
    store.remind.enqueue(1)
    assert "PAUSED" not in run("stats").stdout
    assert run("pause", "mail").stdout == "mail: paused\n"
    head, row = run("stats").stdout.splitlines()[1:3]
    assert head.split()[-1] == "PAUSED"
    assert row.split()[0] == "mail"
    assert row.split()[-1] == "paused"
    (queue,) = run.json("stats")["queues"]
    assert (queue["paused"], queue["ready"]) == (True, 1)
    assert run("resume", "mail").stdout == "mail: resumed\n"
    (queue,) = run.json("stats")["queues"]
    assert queue["paused"] is False


@pytest.mark.parametrize("command", ["pause", "resume", "purge"])
@pytest.mark.parametrize("name", ["mial", "orders:mail"])
def test_a_queue_that_is_none(run: Cli, store: Store, command: str, name: str) -> None:
    store.remind.enqueue(1)
    assert f"no queue '{name}'" in run.error(command, name, code=2)


@pytest.mark.parametrize("name", ["a b", "orders:", ":mail", "a:b:c"])
def test_a_name_that_no_queue_has(run: Cli, store: Store, name: str) -> None:
    store.remind.enqueue(1)
    assert "use 1 to 64 of the characters" in run.error("purge", name, code=2)


def test_purge(run: Cli, store: Store) -> None:
    for number in range(3):
        store.remind.enqueue(number)
    fail(store.app, "mail", "no")
    with leased(store.app, "mail"):
        result = run("purge", "mail", "--yes")
        assert result.stdout == "mail: 2 jobs withdrawn\n"
        assert result.stderr == ""
    assert run.json("purge", "mail") == {"queue": "mail", "gone": 1, "left": 0}


def test_purge_of_a_channel(run: Cli, store: Store) -> None:
    store.app.make_channel("orders", "mail")
    store.app.publish("orders", {"number": 1})
    store.app.backend.tick([])
    assert run("purge", "orders:mail").stdout == "orders:mail: 1 jobs withdrawn\n"


def on_a_terminal(url: str, answer: bytes, *args: str) -> tuple[int, str]:
    """Run ``bide`` on a terminal of its own, and give it an answer once it asks."""
    master, slave = pty.openpty()
    env = os.environ | {"BIDE_URL": url, "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "bide.cli", *args]
    process = subprocess.Popen(command, env=env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    with process:
        while select.select([master], [], [], PATIENCE_S)[0]:
            try:
                piece = os.read(master, 1 << 16)
            except OSError:  # Linux: the other end is closed
                break
            shown += piece
            if b"[y/N]" in piece:
                os.write(master, answer)
            if not piece:
                break
    os.close(master)
    return process.returncode, shown.decode()


def test_on_a_terminal_purge_asks_first(store: Store) -> None:
    for number in range(3):
        store.remind.enqueue(number)
    code, shown = on_a_terminal(store.url, b"n\n", "purge", "mail")
    assert "Withdraw 3 jobs of mail?" in shown
    assert (code, store.app.stats().queues[0].waiting) == (130, 3)
    code, shown = on_a_terminal(store.url, b"y\n", "purge", "mail")
    assert "mail: 3 jobs withdrawn" in shown
    assert "purging mail" in shown, "the bar"
    assert (code, store.app.stats().queues[0].waiting) == (0, 0)


def test_an_interrupted_purge_says_what_is_left(
    run: Cli, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.remind.enqueue(1)

    def interrupted(*_args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bide.cli.queue_commands.purge_steps", interrupted)
    result = run("purge", "mail", code=130)
    assert "mail: stopped: 0 jobs withdrawn, 1 left" in result.stderr
    assert result.stdout == ""


def test_channels_are_made_listed_and_dropped(run: Cli, store: Store) -> None:
    store.app.stats()  # makes the store
    assert run("channels").stdout == "there is no channel\n"
    assert run("channel", "make", "orders", "mail", "--max-retries", "2").stdout == (
        "orders:mail: made\n"
    )
    assert "it was there" in run("channel", "make", "orders", "mail", "--max-retries", "2").stdout
    store.app.publish("orders", {"number": 1})
    assert "orders:" in run("stats").stdout, "what waits in a topic is seen"
    store.app.backend.tick([])
    run("pause", "orders:mail")
    head, row = run("channels").stdout.splitlines()
    assert head.split() == ["TOPIC", "CHANNEL", "WAITING", "RUNNING", "FAILED", "PAUSED"]
    assert row.split() == ["orders", "mail", "1", "0", "0", "paused"]
    (document,) = run.json("channels")["channels"]
    assert (document["topic"], document["channel"], document["waiting"]) == ("orders", "mail", 1)
    assert (document["paused"], document["max_retries"]) == (True, 2)
    assert run("channel", "drop", "orders", "mail").stdout == (
        "orders:mail: dropped, 1 jobs withdrawn\n"
    )
    assert run.json("channels") == {"channels": []}
    assert "no such channel" in run.error("channel", "drop", "orders", "mail", code=2)


def test_a_channel_that_can_be_none(run: Cli, store: Store) -> None:
    store.app.stats()
    assert "channel name 'a b'" in run.error("channel", "make", "orders", "a b", code=2)
    assert "max_retries -1" in run.error(
        "channel", "make", "orders", "a", "--max-retries", "-1", code=2
    )


def test_what_is_prepared_is_shown(run: Cli, store: Store) -> None:
    request = store.remind.using(key="k").request(42)
    prepared = store.app.prepare(request, store.hold.request(), label="order 42")
    (document,) = run.json("jobs", "--queue", "mail")["jobs"]
    assert (document["id"], document["state"]) == (prepared.id, "prepared")
    assert document["args"]["label"] == "order 42"
    first, second = document["args"]["jobs"]
    assert (first["task"], first["queue"], first["key"]) == ("remind", "mail", "k")
    assert (first["args"], second["args"]) == ({"order_id": 42}, {})
    assert run.json("jobs", "--state", "prepared")["jobs"] == [document]
    shown = run("show", str(prepared.id)).stdout
    assert "prepared" in shown
    assert "order 42" in shown
    assert "order_id" in shown
    head, row = run("stats").stdout.splitlines()[1:3]
    assert (head.split()[-1], row.split()[0], row.split()[-1]) == ("PREPARED", "mail", "1")
    (queue,) = run.json("stats")["queues"]
    assert (queue["prepared"], queue["waiting"]) == (1, 0)
    assert run("cancel", str(prepared.id)).stdout == f"job {prepared.id}: cancelled\n"
    assert store.app.jobs(State.PREPARED).jobs == ()


SUBSCRIBER = """\
import os

import bide

app = bide.App()


@app.subscribe("orders", "mail", max_retries=1)
def mail(number: int) -> None:
    os.write(1, f"mailed {number}\\n".encode())


@app.task
def other() -> None: ...
"""


def test_a_worker_makes_and_serves_its_channels(run: Cli, store: Store) -> None:
    Path("subscriber.py").write_text(SUBSCRIBER, encoding="utf-8")
    store.app.publish("orders", {"number": 7, "more": "that it does not ask for"})
    command = [sys.executable, "-m", "bide.cli", "worker", "subscriber:app"]
    done = subprocess.run(
        [*command, "-q", "orders:mail", "--burst", "--url", store.url],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert "mailed 7\n" in done.stdout
    assert "queues orders:mail" in done.stdout
    (info,) = json.loads(run("channels", "--json").stdout)["channels"]
    assert (info["max_retries"], info["waiting"]) == (1, 0)
