"""Values as people read them: moments, calls, text that is safe to print."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from bide.errors import CorruptIndex
from bide.format.group import Group, decode_group
from bide.model.queue import PREPARED_TASK

CALL_SIZE_MAX = 100
"""Characters of a call in a table; `bide show` has it whole."""

_UNITS = (("s", 60), ("min", 60), ("h", 24), ("d", 365))


def distance(ms: int) -> str:
    """How far away a moment is, rounded to its largest unit.

    >>> distance(3 * 86_400_000 - 8), distance(-125_000), distance(400)
    ('in 3 d', '2 min ago', 'now')
    """
    size: float = abs(ms) / 1_000
    if size < 0.5:
        return "now"
    unit = "y"
    for name, count in _UNITS:
        if round(size) < count:
            unit = name
            break
        size /= count
    text = f"{round(size)} {unit}"
    return f"in {text}" if ms > 0 else f"{text} ago"


def moment(
    at_ms: int | None, now_ms: int, *, precision: Literal["minutes", "seconds"] = "seconds"
) -> str:
    """A moment in the local time zone, and how far away it is; "-" for none."""
    if at_ms is None:
        return "-"
    try:
        local = datetime.fromtimestamp(at_ms / 1_000, tz=UTC).astimezone()
    except (OverflowError, ValueError, OSError):  # past the year 9999
        return f"Unix {at_ms} ms, {distance(at_ms - now_ms)}"
    text = local.replace(tzinfo=None).isoformat(sep=" ", timespec=precision)
    return f"{text}, {distance(at_ms - now_ms)}"


def decode_args(args: bytes, task: str = "") -> Any:
    """A job's arguments as plain values; `msgspec.UNSET` if the bytes hold none."""
    try:
        if task == PREPARED_TASK:
            return _group_values(decode_group(args))
        return msgspec.msgpack.decode(args)
    except (msgspec.MsgspecError, ValueError, RecursionError, CorruptIndex):
        return msgspec.UNSET


def _group_values(group: Group) -> dict[str, Any]:
    """What an undecided transaction holds."""
    jobs = [
        {
            "task": new.task,
            "queue": new.queue,
            "key": new.key,
            "due_ms": new.due_ms,
            "args": None if (args := decode_args(new.args, new.task)) is msgspec.UNSET else args,
        }
        for new in group.jobs
    ]
    return {"label": group.label, "jobs": jobs}


def call(task: str, args: bytes, *, size_max: int | None = CALL_SIZE_MAX) -> str:
    r"""A job as the call that it will be.

    >>> call("remind", b"\x81\xa8order_id\x2a")
    'remind(order_id=42)'
    """
    values = decode_args(args, task)
    if isinstance(values, dict):
        inner = ", ".join(f"{name}={value!r}" for name, value in values.items())
    else:
        inner = f"<{len(args)} bytes>"
    text = f"{task}({inner})"
    if size_max is not None and len(text) > size_max:
        text = f"{text[: size_max - 3]}..."
    return printable(text)


def last_line(text: str) -> str:
    """Where an error's text says what went wrong."""
    return printable(text.rstrip().rpartition("\n")[2])


def printable(text: str, *, keep: str = "") -> str:
    r"""*text* with whatever would move a terminal's cursor, or hide, written as an escape.

    >>> print(printable("red \x1b[31m"))
    red \x1b[31m
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in keep
        else character.encode("unicode_escape").decode()
        for character in text
    )
