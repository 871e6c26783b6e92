"""A worker that tells ``rest`` whenever it goes to sleep until the next look, or a ring."""

from __future__ import annotations

import sys

from bide.cli.main import main
from bide.storage.presence import POLL_S, _DiskSeat
from tests.crash.app import tell


def watch() -> None:
    wait = _DiskSeat.wait

    def telling(self: _DiskSeat, timeout_s: float) -> None:
        if timeout_s >= POLL_S:
            tell("rest")
        wait(self, timeout_s)

    _DiskSeat.wait = telling  # type: ignore[method-assign]


if __name__ == "__main__":
    watch()
    sys.argv = ["bide", "worker", "tests.crash.app:app", *sys.argv[1:]]
    main()
