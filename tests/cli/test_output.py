"""Where the output goes: terminals, pipes, full disks, readers that leave."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Start, Store

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(width: int, *args: str, **env: str) -> str:
    """What ``bide`` prints on a terminal of *width* columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "bide.cli", *args],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=_plain_environment() | {"TERM": "xterm-256color"} | env,
    )
    os.close(theirs)
    parts: list[bytes] = []
    try:
        while part := os.read(ours, 65_536):
            parts.append(part)
    except OSError:
        pass  # how Linux says that the other end is closed
    finally:
        os.close(ours)
    assert process.wait() == 0
    return b"".join(parts).decode()


def _plain_environment() -> dict[str, str]:
    """The environment, less what would say how to print."""
    says = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "BIDE_URL"}
    return {name: value for name, value in os.environ.items() if name not in says}


def fill(store: Store) -> None:
    for n in range(3):
        store.remind.using(key=f"order-{n}" * 5, delay=86_400 * n).enqueue(10**n)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_terminal_shows_colour_and_nothing_past_its_width(store: Store, width: int) -> None:
    fill(store)
    for command in ("jobs", "stats"):
        text = on_terminal(width, command, "--url", store.url)
        assert ESCAPE.search(text)
        lines = [ESCAPE.sub("", line) for line in text.splitlines()]
        assert max(map(len, lines)) <= width


def test_a_terminal_without_colour(store: Store) -> None:
    fill(store)
    text = on_terminal(100, "jobs", "--url", store.url, NO_COLOR="1")
    assert "\x1b[3" not in text


def test_a_job_is_a_line_where_the_output_is_no_terminal(run: Cli, store: Store) -> None:
    fill(store)
    text = run("jobs").stdout
    assert "\x1b" not in text
    assert len(text.splitlines()) == 4
    assert "order-2" * 5 in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_characters_that_the_output_cannot_hold(store: Store) -> None:
    store.remind.using(key="ä大").enqueue(1)
    done = subprocess.run(
        [sys.executable, "-m", "bide.cli", "jobs", "--url", store.url],
        env=_plain_environment() | {"PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=True,
    )
    assert b"\xe4\\u5927" in done.stdout


@pytest.mark.parametrize("args", [("jobs",), ("jobs", "--json"), ("stats",), ("cancel", "1")])
def test_a_reader_that_has_left_is_no_error(
    store: Store, start: Start, args: tuple[str, ...]
) -> None:
    fill(store)
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*args, "--url", store.url, stdout=writer)
    os.close(writer)
    assert process.communicate()[1] == ""
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux's alone")
@pytest.mark.parametrize("args", [("jobs",), ("jobs", "--json"), ("--help",)])
def test_output_that_cannot_be_written_is_an_error(
    store: Store, start: Start, args: tuple[str, ...]
) -> None:
    fill(store)
    url = () if "--help" in args else ("--url", store.url)
    with Path("/dev/full").open("w") as full:
        process = start(*args, *url, stdout=full)
    _, stderr = process.communicate()
    assert process.returncode == 1
    assert stderr.startswith("bide: error: ")
    assert "No space left" in stderr
    assert "Traceback" not in stderr
