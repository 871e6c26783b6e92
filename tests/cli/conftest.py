"""A program with tasks, a store with jobs, and two ways to call ``bide`` on them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import bide
from bide.cli.main import cli

SHOP = '''\
"""A program that a worker is started on."""

import os
import threading

import bide

app = bide.App()


@app.task(name="remind", queue="mail")
def remind(order_id: int) -> None:
    os.write(1, f"reminded {order_id}\\n".encode())  # whole, whatever another thread writes


@app.task(name="explode", max_retries=0)
def explode() -> None:
    raise ValueError("boom \\x1b[31m")


@app.task(name="hold")
def hold() -> None:
    """Runs until a byte comes from stdin."""
    os.write(1, b"holding\\n")
    os.read(0, 1)


@app.task(name="spin")
def spin() -> None:
    """Runs until it is stopped by force."""
    os.write(1, b"spinning\\n")
    while True:
        threading.Event().wait(0.01)
'''


def forget_modules() -> None:
    """Have what the working directory holds imported anew, as by a new process."""
    here = str(Path.cwd())
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(here):
            del sys.modules[name]


class Cli:
    """Calls ``bide`` in this process."""

    def __init__(self) -> None:
        self.env: dict[str, str | None] = {"BIDE_URL": None}

    def __call__(self, *args: str, code: int = 0) -> Result:
        """Run one command line, and hold it to its exit code."""
        forget_modules()
        result = CliRunner().invoke(cli, args, env=self.env)
        assert "Traceback" not in result.stderr
        assert isinstance(result.exception, SystemExit | None), result.exception
        assert result.exit_code == code, result.output
        return result

    def json(self, *args: str, code: int = 0) -> Any:
        """The document that the command prints."""
        return json.loads(self(*args, "--json", code=code).stdout)

    def error(self, *args: str, code: int) -> str:
        """The message of a command that is refused, and prints no result."""
        result = self(*args, code=code)
        assert result.stdout == ""
        assert result.stderr.startswith("bide: error: ")
        return result.stderr.removeprefix("bide: error: ")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory, empty at first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield tmp_path
    forget_modules()


@pytest.fixture
def run(here: Path) -> Cli:
    return Cli()


@pytest.fixture
def shop(here: Path) -> Path:
    """The program, as a file."""
    path = here / "shop.py"
    path.write_text(SHOP, encoding="utf-8")
    return path


class Store:
    """A store that has tasks to put jobs with."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.app = bide.App(url)

        @self.app.task(name="remind", queue="mail")
        def remind(order_id: int) -> None: ...

        @self.app.task(name="explode", max_retries=0)
        def explode() -> None: ...

        @self.app.task(name="hold")
        def hold() -> None: ...

        @self.app.task(name="spin")
        def spin() -> None: ...

        self.remind, self.explode, self.hold, self.spin = remind, explode, hold, spin


@pytest.fixture
def store(here: Path, run: Cli) -> Iterator[Store]:
    """A store, which ``run`` finds by ``$BIDE_URL``."""
    store = Store(f"file://{here}/jobs")
    run.env["BIDE_URL"] = store.url
    with store.app:
        yield store


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(here: Path) -> Iterator[Start]:
    """Starts ``bide`` as a process of its own; it is dead when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: str, **options: Any) -> "subprocess.Popen[str]":
        env = {name: value for name, value in os.environ.items() if name != "BIDE_URL"}
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        process = subprocess.Popen(
            [sys.executable, "-m", "bide.cli", *args],
            env=env,
            encoding="utf-8",
            **(pipes | options),
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with process:
            process.kill()
