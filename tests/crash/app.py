"""The program that the crash tests kill: a task that tells of each of its runs.

Every line goes to the standard output in one write, so what a process did
before it was killed is known.
"""

from __future__ import annotations

import os
import time

import bide

app = bide.App(os.environ.get("BIDE_URL"))


def tell(*words: object) -> None:
    """Say one line, whole."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


@app.task(max_retries=100, retry_backoff=0)
def note(ctx: bide.Context, number: int, work: int) -> None:
    """Work for a while, and tell of both ends: ``start/end NUMBER JOB ATTEMPT PID NS``."""
    for word in ("start", "end"):
        tell(word, number, ctx.job_id, ctx.attempt, os.getpid(), time.monotonic_ns())
        if word == "start":
            sum(range(work))


@app.task(max_retries=2, retry_backoff=0)
def fatal() -> None:
    """Kill the worker that runs this."""
    os.kill(os.getpid(), 9)


@app.task
def block(ctx: bide.Context, number: int) -> None:
    """Tell of the start, and go on until the process ends; the second attempt ends at once."""
    tell("start", number, ctx.job_id, ctx.attempt, os.getpid(), time.monotonic_ns())
    while ctx.attempt == 1 and not ctx.stopping:
        sum(range(10_000))
