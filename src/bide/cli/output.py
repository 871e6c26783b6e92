"""What a command writes: results to stdout, whole and as they are; messages to stderr."""

from __future__ import annotations

import os
import sys
from typing import Any

import click
import msgspec
from click.exceptions import Exit

from bide.cli.phrases import printable

NEWLINE = "\n"


def print_line(text: str) -> None:
    """A result for people.

    Raises:
        Exit: Nobody reads stdout any more: a reader that has seen enough.
        click.ClickException: It can't be written otherwise: a full disk.
    """
    try:
        click.echo(text)
    except BrokenPipeError:
        _abandon_stdout()
        raise Exit(0) from None
    except OSError as error:
        _abandon_stdout()
        raise click.ClickException(f"the output can't be written: {error.strerror}") from error


def print_json(document: Any) -> None:
    """The one result for programs."""
    print_line(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def print_note(text: str) -> None:
    """What a person may want to know beside the result."""
    click.echo(text, err=True)


def print_error(text: str) -> None:
    """Why it was not done."""
    click.echo(f"bide: error: {printable(text, keep=NEWLINE)}", err=True)


def exit_with(code: int) -> None:
    """Leave the command with *code*, if it is not 0."""
    if code:
        raise Exit(code)


def flush() -> None:
    """Write what stdout still holds, or drop it: the interpreter would fail over it as it ends."""
    try:
        sys.stdout.flush()
    except OSError:
        _abandon_stdout()


def _abandon_stdout() -> None:
    """Point stdout at nothing."""
    try:
        fd = sys.stdout.fileno()
    except (OSError, ValueError):
        return  # it is no file: a test's
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, fd)
    os.close(nothing)
