"""Every limit, and what a name may be. Reaching one is a typed error, never a truncation."""

from __future__ import annotations

import re

from bide.errors import BatchTooLarge, BodyTooLarge, InvalidDelay, InvalidName, InvalidOption

BODY_SIZE_MAX = 1 << 20
"""Bytes of one job's encoded arguments."""

KEY_SIZE_MAX = 255
"""Bytes of a key in UTF-8."""

QUEUE_NAME_SIZE_MAX = 64
TASK_NAME_SIZE_MAX = 200

PRIORITY_MIN = -100
PRIORITY_MAX = 100

DELAY_MS_MAX = 36_525 * 86_400_000
"""A hundred years."""

TIME_MS_MAX = 1 << 53
"""Latest moment that any due time may name; what a double holds exactly."""

RETRIES_MAX = 65_535
TIMEOUT_MS_MAX = 366 * 86_400_000

BATCH_COUNT_MAX = 10_000
"""Jobs, or references to jobs, in one call."""

BATCH_SIZE_MAX = 64 << 20
"""Bytes of arguments in one call."""

ERROR_TEXT_SIZE_MAX = 4_096
"""Characters kept of one attempt's error: its end, where the cause stands."""

ERRORS_KEPT_MAX = 10
"""Attempts whose errors a job remembers; the oldest are dropped."""

LEASES_MAX = 2_048
"""Jobs that one worker process holds, running or waiting for a thread."""

PAGE_COUNT_MAX = 1_000
"""Jobs in one page of a listing."""

MISSES_MAX = 100
"""How often a job waits for a worker that knows its task, before it fails: about a day."""

PURGE_STEP = 5_000
"""Jobs that a purge looks at in one transaction."""

SPREAD_COPIES_MAX = 1_000
SPREAD_SIZE_MAX = 8 << 20
"""Copies of a topic's messages, and bytes of them, in one step."""

LABEL_SIZE_MAX = 1_000
"""Characters of a transaction's label."""

_QUEUE_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}", re.ASCII)


def encodable(text: str) -> str:
    """*text* as UTF-8 can hold it: a file's name in an error, say, may be none."""
    return text.encode(errors="backslashreplace").decode()


def check_queue(name: object) -> str:
    """The queue's name, if it is one; else `InvalidName`."""
    if isinstance(name, str) and _QUEUE_NAME.fullmatch(name):
        return name
    raise InvalidName(
        f"queue name {name!r}: use 1 to {QUEUE_NAME_SIZE_MAX} of the characters a-z A-Z 0-9 _ . -",
        name=name,
    )


def check_topic(name: object) -> str:
    """The topic's name, if it is one; else `InvalidName`. A channel's follows the same rule."""
    if isinstance(name, str) and _QUEUE_NAME.fullmatch(name):
        return name
    raise InvalidName(
        f"topic or channel name {name!r}: use 1 to {QUEUE_NAME_SIZE_MAX} of the characters "
        "a-z A-Z 0-9 _ . -",
        name=name,
    )


def check_source(name: object) -> str:
    """The name of a queue or, as ``topic:channel``, of a channel; else `InvalidName`."""
    if isinstance(name, str) and ":" in name:
        for part in name.split(":", 1):
            check_topic(part)
        return name
    return check_queue(name)


def check_destination(name: object) -> str:
    """The name of a queue, of a channel, or, as ``topic:``, of a topic; else `InvalidName`."""
    if isinstance(name, str) and name.endswith(":"):
        check_topic(name[:-1])
        return name
    return check_source(name)


def check_task_name(name: object) -> str:
    """The task's name, if it is one; else `InvalidName`."""
    if (
        isinstance(name, str)
        and name.isprintable()
        and " " not in name
        and 0 < len(name.encode()) <= TASK_NAME_SIZE_MAX
    ):
        return name
    raise InvalidName(
        f"task name {name!r}: use 1 to {TASK_NAME_SIZE_MAX} bytes of printable text without spaces",
        name=name,
    )


def check_key(key: object) -> str:
    """The key, if it is one; else `InvalidName`."""
    if not isinstance(key, str):
        raise InvalidName(f"key {key!r}: a key is a str, not {type(key).__name__}", name=key)
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise InvalidName(
            f"key {key!r}: not encodable as UTF-8 ({error.reason})", name=key
        ) from None
    if not 0 < size <= KEY_SIZE_MAX:
        raise InvalidName(
            f"key of {size} bytes: use 1 to {KEY_SIZE_MAX} bytes of UTF-8 (hash what is longer)",
            name=key,
        )
    return key


def check_priority(priority: object) -> int:
    """The priority, if it is one; else `InvalidOption`."""
    if (
        isinstance(priority, int)
        and not isinstance(priority, bool)
        and PRIORITY_MIN <= priority <= PRIORITY_MAX
    ):
        return priority
    raise InvalidOption(
        f"priority {priority!r}: use an int from {PRIORITY_MIN} to {PRIORITY_MAX}, the higher first"
    )


def check_retries(max_retries: object) -> int:
    """The number of retries, if it is one; else `InvalidOption`."""
    if (
        isinstance(max_retries, int)
        and not isinstance(max_retries, bool)
        and 0 <= max_retries <= RETRIES_MAX
    ):
        return max_retries
    raise InvalidOption(
        f"max_retries {max_retries!r}: use an int from 0 (one run, no retry) to {RETRIES_MAX}"
    )


def check_due(due_ms: int, now_ms: int) -> int:
    """The due time, if it lies at most a hundred years ahead; else `InvalidDelay`."""
    if due_ms - now_ms > DELAY_MS_MAX:
        raise InvalidDelay(f"due {due_ms - now_ms} ms from now: the limit is 100 years")
    return due_ms


def check_body(args: bytes, task: str) -> bytes:
    """The encoded arguments, if they fit; else `BodyTooLarge`."""
    if len(args) <= BODY_SIZE_MAX:
        return args
    raise BodyTooLarge(
        f"arguments of task {task!r} take {len(args)} bytes; the limit is {BODY_SIZE_MAX}: "
        "store the data elsewhere and pass a reference to it",
        size=len(args),
        size_max=BODY_SIZE_MAX,
    )


def check_batch(count: int, size: int = 0) -> None:
    """Refuse a call with too many jobs or bytes, with `BatchTooLarge`."""
    if count > BATCH_COUNT_MAX:
        raise BatchTooLarge(
            f"{count} jobs in one call: the limit is {BATCH_COUNT_MAX}; split the call",
            count=count,
            count_max=BATCH_COUNT_MAX,
        )
    if size > BATCH_SIZE_MAX:
        raise BatchTooLarge(
            f"{size} bytes of arguments in one call: the limit is {BATCH_SIZE_MAX}; split the call",
            count=size,
            count_max=BATCH_SIZE_MAX,
        )
