"""Whatever the bytes: stored arguments are decoded to values of the types that the function asks
for, or it is `InvalidArguments`; and people are shown them, or that they cannot be read.
"""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import Any, cast

import msgspec

from bide.cli.phrases import call, decode_args
from bide.errors import InvalidArguments
from bide.jobs.arguments import Arguments
from bide.jobs.context import Context
from bide.model.queue import PREPARED_TASK
from tests.fuzz.inputs import damaged, golden


class Point(msgspec.Struct):
    x: float
    name: str = ""


def task(
    number: int, text: str, points: list[Point], *more: bytes, when: datetime | None = None
) -> None: ...


def loose(data: Any, **others: dict[str, Any]) -> None: ...


TASK, LOOSE = Arguments(task, "task"), Arguments(loose, "loose")
CONTEXT = cast("Context", object())
GOODS = [
    TASK.encode((1, "a", [Point(0.5, "b"), Point(2)], b"c"), {"when": datetime(2026, 1, 1)}),  # noqa: DTZ001
    TASK.encode((2**63, "\u2603", []), {}),
    LOOSE.encode(({"a": [1, {"b": None}]},), {"other": {"c": 1.5}}),
    *golden("group 1"),
]
INPUTS = damaged(GOODS)


def check(data: bytes) -> None:
    try:
        args, kwargs = TASK.decode(data, CONTEXT)
    except InvalidArguments:
        pass
    else:
        number, text, points, *more = args
        assert isinstance(number, int)
        assert isinstance(text, str)
        assert all(isinstance(point, Point) for point in points)
        assert all(isinstance(one, bytes) for one in more)
        assert set(kwargs) <= {"when"}
    with contextlib.suppress(InvalidArguments):
        LOOSE.decode(data, CONTEXT)
    for name in ("task", PREPARED_TASK):
        decode_args(data, name)
        assert isinstance(call(name, data), str)
