"""The program that the crash tests kill: a task that tells of each of its runs.

Every line goes to the standard output in one write, so what a process did
before it was killed is known.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import bide


def clock() -> bide.Clock:
    """The machine's; or by ``$CRASH_CLOCK``, as ``START_MS,RATE,ORIGIN_NS``, a faster one."""
    start_ms, rate, origin_ns = os.environ.get("CRASH_CLOCK", "0,0,0").split(",")
    if start_ms == "0":
        return bide.SystemClock()
    return bide.ScaledClock(start_ms=int(start_ms), rate=float(rate), origin_ns=int(origin_ns))


app = bide.App(os.environ.get("BIDE_URL"), clock=clock())


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


@app.task
def take_days(ctx: bide.Context, number: int, days: int) -> None:
    """Run for *days* by the App's clock, and tell of both ends by it."""
    start_ms = app.clock.now_ms()
    tell("start", number, ctx.job_id, ctx.attempt, os.getpid(), start_ms)
    while app.clock.now_ms() < start_ms + days * 86_400_000:
        pass
    tell("end", number, ctx.job_id, ctx.attempt, os.getpid(), app.clock.now_ms())


@app.task
def nothing() -> None:
    """Be done at once, and silent."""


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


@app.task
def have_family(ctx: bide.Context, number: int) -> None:
    """As `block`, beside a process of its own that lives as long as nobody kills it."""
    if ctx.attempt > 1:
        block.function(ctx, number)
        return
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ):
        block.function(ctx, number)
