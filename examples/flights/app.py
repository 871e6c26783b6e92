"""The program that is replayed: an app, its two tasks, and the jobs of a flight.

This is what a user of bide writes; everything else in the package makes a
month pass in a minute, kills a worker and counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta

import bide
from examples.flights.data import Flight
from examples.flights.runs import note_run
from examples.flights.shared_clock import clock_from

app = bide.App(clock=clock_from(os.environ))  # where its jobs are, $BIDE_URL says


@app.task(queue="boarding")
def board(ctx: bide.Context) -> None:
    """Let the passengers of flight *ctx.key* in."""
    note_run(ctx, app.clock.now_ms())


@app.task(queue="news")
def hear(ctx: bide.Context, flight: str, boards: datetime, delay_min: int | None) -> None:
    """Hear when *flight* will leave, and have it board then, or not at all.

    It may run twice, if its worker is killed. So it says at what time the
    flight boards, and not how much later: a second run changes nothing.
    """
    note_run(ctx, app.clock.now_ms())
    if delay_min is None:
        app.cancel(key=flight, queue="boarding")
    elif delay_min != 0:
        app.move(key=flight, queue="boarding", run_at=boards + timedelta(minutes=delay_min))


def jobs_of(flight: Flight) -> Iterator[bide.Request]:
    """What to put for a flight: that it boards, and that there will be news of it."""
    boards = flight.departs - timedelta(minutes=30)
    yield board.using(key=flight.key, run_at=boards).request()
    news = hear.using(key=flight.key, run_at=flight.departs - timedelta(days=3))
    yield news.request(flight.key, boards, flight.delay_min)
