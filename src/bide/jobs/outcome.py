"""What a task can say of its run, other than to return or to fail.

Each may be raised or returned: ``return Snooze(delay=60)`` and
``raise Snooze(delay=60)`` are the same.
"""

from __future__ import annotations

from datetime import timedelta

from bide.jobs.when import delay_to_ms


class Retry(Exception):
    """Run again; this run counts as an attempt.

    Args:
        delay: Seconds or a timedelta; None: as the task's backoff says.
        reason: Kept in the job's history.
    """

    def __init__(self, delay: float | timedelta | None = None, reason: str = "retry asked for"):
        super().__init__(reason)
        self.delay_ms = None if delay is None else delay_to_ms(delay)
        self.reason = reason


class Snooze(Exception):
    """Run again after *delay* (seconds or a timedelta); this run does not count."""

    def __init__(self, delay: float | timedelta):
        super().__init__(f"snoozed for {delay}")
        self.delay_ms = delay_to_ms(delay)


class Cancel(Exception):
    """Withdraw this job: it is no longer wanted, and that is no failure."""

    def __init__(self, reason: str = ""):
        super().__init__(reason)
        self.reason = reason


class Fail(Exception):
    """Fail for good, whatever attempts are left; the job is kept for a human."""

    def __init__(self, reason: str):
        super().__init__(reason)
        self.reason = reason


class TaskTimeout(BaseException):
    """Raised inside a task whose time is up. Not an `Exception`: few tasks catch it by mistake."""


class TaskStopped(BaseException):
    """Raised inside a task that a stopping worker has waited for long enough; it will run again."""
