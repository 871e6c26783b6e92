"""The program of a worker one of whose tasks forks: its child lives until it is killed."""

from __future__ import annotations

import os
import signal

import bide
from tests.crash.app import tell
from tests.unit.storage.children import GUARD_S, fork

app = bide.App(os.environ.get("BIDE_URL"))


@app.task(retry_backoff=0, timeout=None)
def have_child(ctx: bide.Context) -> None:
    """Tell ``child PID ATTEMPT``, and be killed; at the second attempt only tell."""
    if ctx.attempt > 1:
        return
    pid = fork()
    if pid == 0:
        signal.alarm(GUARD_S)
        while True:
            signal.pause()
    tell("child", pid, ctx.attempt)
    os.waitpid(pid, 0)
