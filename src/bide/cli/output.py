"""What a command writes: results to stdout, whole and as they are; messages to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import msgspec
from click.exceptions import Exit

from bide.cli.phrases import printable

NEWLINE = "\n"


class OutputFailed(OSError):
    """Stdout can't be written, for another reason than that nobody reads it any more."""


@contextmanager
def writing() -> Iterator[None]:
    """A block that writes to stdout.

    Raises:
        BrokenPipeError: Nobody reads it any more.
        OutputFailed: It fails otherwise: a full disk.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(error.errno, f"the output can't be written: {error.strerror}") from error


def print_line(text: str) -> None:
    """A result for people."""
    with writing():
        click.echo(text)


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


def abandon() -> None:
    """Point stdout at nothing, so that the interpreter does not fail in flushing it as it ends."""
    try:
        fd = sys.stdout.fileno()
    except (OSError, ValueError):
        return  # it is no file: a test's
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, fd)
    os.close(nothing)
