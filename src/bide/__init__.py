"""bide: durable delayed jobs for Python.

>>> import bide
>>> app = bide.App("memory:")
>>> @app.task
... def remind(order_id: int) -> None: ...
>>> handle = remind.using(delay=3600, key="order-42").enqueue(42)
>>> app.cancel(key="order-42")
True
>>> app.close()
"""

from __future__ import annotations

from bide import errors
from bide.backends.port import ChannelInfo, JobInfo, Page, QueueStats, Stats, Sync
from bide.clock import Clock, ScaledClock, SystemClock
from bide.connect import connect
from bide.errors import BideError
from bide.jobs import app as _app
from bide.jobs.context import Context
from bide.jobs.handle import Handle
from bide.jobs.outcome import Cancel, Fail, Retry, Snooze, TaskStopped, TaskTimeout
from bide.jobs.task import Request, Task
from bide.jobs.transaction import Prepared, PreparedJob, Transaction
from bide.model.job import Job, State

__all__ = [
    "App",
    "BideError",
    "Cancel",
    "ChannelInfo",
    "Clock",
    "Context",
    "Fail",
    "Handle",
    "Job",
    "JobInfo",
    "Page",
    "Prepared",
    "PreparedJob",
    "QueueStats",
    "Request",
    "Retry",
    "ScaledClock",
    "Snooze",
    "State",
    "Stats",
    "SystemClock",
    "Task",
    "TaskStopped",
    "TaskTimeout",
    "Transaction",
    "errors",
]


class App(_app.App):
    """`bide.jobs.app.App`, with the backends that come with bide."""

    def __init__(
        self, url: str | None = None, *, clock: Clock | None = None, sync: Sync | None = None
    ) -> None:
        super().__init__(url, opener=connect, clock=clock, sync=sync)
