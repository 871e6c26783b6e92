"""What a call costs before it does anything, and what it says of itself."""

import subprocess
import sys
from importlib import metadata

import pytest

from bide.cli.main import cli
from tests.cli.conftest import Cli, Start

COMMANDS = sorted(cli.commands)


def imported_by(statement: str) -> set[str]:
    """The modules that are there after *statement*, in a new interpreter."""
    program = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True
    )
    return set(done.stdout.split())


def test_the_commands_import_little_beside_bide_and_click() -> None:
    already = imported_by("import bide, click.core, click.exceptions, base64")
    added = imported_by("import bide.cli.main") - already
    assert {name for name in added if not name.startswith("bide.")} <= {"difflib", "sysconfig"}
    assert "bide.worker.worker" not in added
    assert "bide.cli.tables" not in added


def test_help_documents_the_exit_codes(run: Cli) -> None:
    text = run("--help").stdout
    for line in (
        "0    done",
        "1    it could not be done: no such job, or the store refused",
        "2    the call was wrong: usage, unknown queue, app not found",
        "130  interrupted",
    ):
        assert line in text
    for command in COMMANDS:
        assert f"  {command} " in text


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_shows_an_example_of_itself(run: Cli, command: str) -> None:
    text = run(command, "--help").stdout
    assert "Example" in text
    assert f"  bide {command}" in text.partition("Example")[2]


def test_help_of_commands_is_not_cut(run: Cli) -> None:
    assert "..." not in run("--help").stdout.partition("Commands:")[2]


def test_no_command_is_a_wrong_call(run: Cli) -> None:
    assert run.error(code=2) == "Missing command.\nTry 'bide --help'.\n"


def test_an_unknown_option_is_a_wrong_call(run: Cli) -> None:
    message = run.error("jobs", "--colour", code=2)
    assert "No such option" in message
    assert "Try 'bide jobs --help'." in message


def test_version(run: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: {"bide": "1.2.3"}[name])
    assert run("--version").stdout.startswith("bide 1.2.3, Python 3.")


def test_version_of_a_checkout_that_is_not_installed(
    run: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    assert "not installed" in run("--version").stdout


def test_it_runs_as_a_module(start: Start) -> None:
    process = start("--help")
    stdout, stderr = process.communicate()
    assert (process.returncode, stderr) == (0, "")
    assert stdout.startswith("Usage: bide [OPTIONS] COMMAND")
