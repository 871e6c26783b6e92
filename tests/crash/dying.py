"""A worker that is killed at a chosen point of its first job's way: ``POINT [OPTION]...``.

Each point lies between two steps that a worker does by itself, so none can
be hit from outside.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from bide.backends.embedded import Embedded
from bide.cli.main import main
from bide.storage.log import SegmentLog
from bide.storage.presence import _DiskSeat

POINTS = ("reserving", "reserved", "starting", "started", "settling", "settled")


def die(*_: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL was survived")


def before(owner: type, name: str, condition: Callable[..., object]) -> None:
    """Die instead of calling a method, if its arguments meet the condition."""
    method = getattr(owner, name)

    def dying(*args: Any, **options: Any) -> Any:
        return die() if condition(*args) else method(*args, **options)

    setattr(owner, name, dying)


def after(owner: type, name: str, condition: Callable[..., object]) -> None:
    """Die when a method is done, if its result and arguments meet the condition."""
    method = getattr(owner, name)

    def dying(*args: Any, **options: Any) -> Any:
        result = method(*args, **options)
        return die() if condition(result, *args) else result

    setattr(owner, name, dying)


def within_reserve(*, is_settling: bool) -> None:
    """Die with the record in the log and the index's transaction open."""
    reserve = Embedded.reserve

    def armed(self: Embedded, owner: Any, queues: Any, limit: int, settlements: Any = ()) -> Any:
        if bool(settlements) == is_settling:
            after(SegmentLog, "append", lambda *_: True)
        return reserve(self, owner, queues, limit, settlements)

    Embedded.reserve = armed  # type: ignore[method-assign]


def arm(point: str) -> None:
    match point:
        case "reserving":
            within_reserve(is_settling=False)
        case "reserved":
            after(Embedded, "reserve", lambda reserved, *_: reserved.leases)
        case "starting":
            before(_DiskSeat, "start", lambda *_: True)
        case "started":
            after(_DiskSeat, "start", lambda *_: True)
        case "settling":
            within_reserve(is_settling=True)
        case "settled":
            after(Embedded, "reserve", lambda reserved, *_: reserved.refused)
        case _:
            raise ValueError(f"{point!r} is none of {POINTS}")


if __name__ == "__main__":
    arm(sys.argv[1])
    sys.argv = ["bide", "worker", "tests.crash.app:app", *sys.argv[2:]]
    main()
