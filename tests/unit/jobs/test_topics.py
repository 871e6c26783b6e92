"""Topics, channels and whole queues through an App."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

import bide
from bide.errors import (
    BodyTooLarge,
    DuplicateTask,
    InvalidArguments,
    InvalidName,
    InvalidOption,
    KeyTaken,
    UnknownQueue,
)
from tests.unit.jobs.apps import make_app, note


@dataclass
class Plain:
    number: int


class Struct(msgspec.Struct):
    number: int


class ArrayStruct(msgspec.Struct, array_like=True):
    number: int


@pytest.mark.parametrize("message", [{"number": 1}, Plain(1), Struct(1)])
def test_a_message_is_a_map_of_its_fields(message: Any) -> None:
    with make_app() as app:
        info = app.publish("orders", message, priority=3, delay=5).get()
        assert info is not None
        assert msgspec.msgpack.decode(info.job.args) == {"number": 1}
        assert (info.job.queue, info.job.priority, info.state) == (
            "orders:",
            3,
            bide.State.SCHEDULED,
        )


@pytest.mark.parametrize("message", [1, [1], "text", None, ArrayStruct(1), {1: 2}, {"x": object()}])
def test_what_is_no_message_is_refused(message: Any) -> None:
    with make_app() as app, pytest.raises(InvalidArguments, match="topic 'orders'"):
        app.publish("orders", message)


def test_a_message_has_a_limit() -> None:
    with make_app() as app, pytest.raises(BodyTooLarge):
        app.publish("orders", {"text": "x" * (1 << 20)})


def test_a_message_is_cancelled_and_moved_by_its_handle_or_key() -> None:
    with make_app() as app:
        handle = app.publish("orders", {}, key="k", delay=60)
        with pytest.raises(KeyTaken):
            app.publish("orders", {}, key="k")
        handle.move(delay=5)
        info = app.get(key="k", queue="orders:")
        assert info is not None
        assert info.job.due_ms == app.clock.now_ms() + 5_000
        assert handle.cancel()


def test_publishing_from_async_code() -> None:
    with make_app() as app:
        handle = asyncio.run(app.apublish("orders", {"number": 1}))
        assert handle.get() is not None


NO_NAMES: list[Any] = ["", "a:b", "a b", "ä", "x" * 65, None, 7, b"a"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_names_that_no_topic_has_are_refused(name: Any) -> None:
    with make_app() as app:
        with pytest.raises(InvalidName):
            app.publish(name, {})
        for topic, channel in ((name, "a"), ("a", name)):
            with pytest.raises(InvalidName):
                app.subscribe(topic, channel)
            with pytest.raises(InvalidName):
                app.make_channel(topic, channel)
            with pytest.raises(InvalidName):
                app.drop_channel(topic, channel)


@pytest.mark.parametrize("name", ["orders:mail", "orders:", ":mail"])
def test_only_bide_makes_names_with_a_colon(name: str) -> None:
    with make_app() as app:
        with pytest.raises(InvalidName):
            app.task(queue=name)
        with pytest.raises(InvalidName):
            app.task(note).using(queue=name)


def test_the_longest_names() -> None:
    topic, channel = "t" * 64, "c" * 64
    with make_app() as app:
        app.make_channel(topic, channel)
        app.pause(f"{topic}:{channel}")
        (info,) = app.channels()
        assert (info.topic, info.channel, info.paused) == (topic, channel, True)


def test_a_subscription_is_a_task_named_as_its_queue() -> None:
    with make_app() as app:
        task = app.subscribe("orders", channel="mail", max_retries=2)(note)
        assert (task.name, task.options.queue) == ("orders:mail", "orders:mail")
        assert app.tasks == {"orders:mail": task}
        with pytest.raises(DuplicateTask):
            app.subscribe("orders", "mail")(note)
        with pytest.raises(InvalidOption, match="subscribe"):
            app.subscribe("orders", "mail", queue="q")


def test_channels_are_made_and_dropped() -> None:
    with make_app() as app:
        assert app.make_channel("orders", "mail", max_retries=0, timeout=None)
        assert not app.make_channel("orders", "mail", max_retries=0, timeout=None)
        with pytest.raises(InvalidOption):
            app.make_channel("orders", "mail", max_retries=-1)
        for number in range(3):
            app.publish("orders", {"number": number})
        assert app.drop_channel("orders", "mail") == 3
        assert app.channels() == ()
        with pytest.raises(UnknownQueue):
            app.drop_channel("orders", "mail")


def test_more_than_one_step_is_purged_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    with make_app() as app:
        task = app.task(note)
        app.enqueue_many(task.request(number) for number in range(5_001))
        assert app.purge("default") == 5_001
        app.make_channel("orders", "mail")
        app.enqueue_many(app.message("orders", {}) for _ in range(6_001))
        assert app.drop_channel("orders", "mail") == 6_001
        assert app.channels() == ()


def test_pause_and_purge_check_their_names() -> None:
    with make_app() as app:
        for call in (app.pause, app.resume, app.purge):
            with pytest.raises(InvalidName):
                call("a b")
        with pytest.raises(UnknownQueue):
            app.pause("orders:mail")
        app.pause("mail")
        app.resume("mail")
