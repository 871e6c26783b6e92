"""A topic's message <-> bytes: the MessagePack map that a subscriber's arguments are read from."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from bide.backends.port import Sync
from bide.errors import InvalidArguments
from bide.jobs.task import Options, Request
from bide.model.job import OnConflict
from bide.model.limits import check_body, check_topic
from bide.model.queue import topic_queue

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, Any]).decode


def message_request(
    topic: str,
    message: Any,
    *,
    delay: float | timedelta | None = None,
    run_at: datetime | None = None,
    priority: int = 0,
    key: str | None = None,
    on_conflict: OnConflict = "raise",
    sync: Sync | None = None,
) -> Request:
    """The put of a message into its topic; see `bide.jobs.app.App.message`."""
    queue = topic_queue(check_topic(topic))
    options = Options(
        queue=queue,
        priority=priority,
        delay=delay,
        run_at=run_at,
        key=key,
        on_conflict=on_conflict,
        sync=sync,
    )
    return Request(queue, encode_message(message, topic), options, timeout_ms=0)


def encode_message(message: Any, topic: str) -> bytes:
    """The bytes of a mapping, a msgspec struct or a dataclass.

    Raises:
        InvalidArguments: It is no map from str, or holds what can't be stored.
        BodyTooLarge: They take too many bytes.
    """
    try:
        data = _encode(message)
        _decode(data)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidArguments(
            f"a message for topic {topic!r} can't be stored: {error}; use a mapping of field "
            "names to values, a msgspec struct or a dataclass",
            task=topic,
        ) from error
    return check_body(data, topic)
