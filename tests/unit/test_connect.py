"""`bide.connect`: what a URL may look like, what its options do, and what is refused."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import bide
from bide.backends.port import Backend, Opener, Sync
from bide.connect import connect
from bide.errors import InvalidUrl, NotAStore
from bide.model.job import NewJob
from bide.testing import ManualClock

Opened = dict[str, Any]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Opened]:
    """What `connect` asks of the backends, none of which is opened."""
    calls: list[Opened] = []

    def recording(kind: str) -> Callable[..., Backend]:
        def open_backend(*args: object, **options: object) -> Backend:
            calls.append({"kind": kind, "path": args[0], **options})
            return cast("Backend", object())

        return open_backend

    module = sys.modules["bide.connect"]  # the package has the function under its name
    monkeypatch.setattr(module, "open_local", recording("local"))
    monkeypatch.setattr(module, "open_memory", recording("memory"))
    return calls


@pytest.mark.parametrize(
    "url, path",
    [
        ("file:///var/lib/shop", "/var/lib/shop"),
        ("file://localhost/var/lib/shop", "/var/lib/shop"),
        ("file:/var/lib/shop", "/var/lib/shop"),
        ("FILE:///var/Lib", "/var/Lib"),
        ("file:jobs", "jobs"),
        ("file:./a/../jobs", "a/../jobs"),
        ("file:///a%20b/%C3%A4%3F%23%25", "/a b/ä?#%"),
        ("file:///%ff", "/\N{REPLACEMENT CHARACTER}"),
        ("file:///a;b=c&d", "/a;b=c&d"),
        ("file:///a?sync=always", "/a"),
    ],
)
def test_a_file_url_is_a_path(opened: list[Opened], url: str, path: str) -> None:
    connect(url, ManualClock())
    (call,) = opened
    assert (call["kind"], call["path"], call["sync"]) == ("local", Path(path), "always")
    assert (call["create"], call["read_only"]) == (True, False)


@pytest.mark.parametrize("name", ["jobs", "a b", "ä大", "a?b", "a#b", "50%", "a;b", "a&sync=no"])
def test_a_path_as_a_url_leads_back_to_it(opened: list[Opened], tmp_path: Path, name: str) -> None:
    connect((tmp_path / name).as_uri(), ManualClock())
    assert [call["path"] for call in opened] == [tmp_path / name]


@pytest.mark.parametrize("url", ["memory:", "memory://", "MEMORY:", "memory:?sync=interval"])
def test_a_memory_url(opened: list[Opened], url: str) -> None:
    connect(url, ManualClock())
    assert [call["kind"] for call in opened] == ["memory"]


@pytest.mark.parametrize("in_url", [None, "always", "interval", "never"])
@pytest.mark.parametrize("given", [None, "always", "interval", "never"])
def test_a_sync_that_is_given_goes_before_the_urls(
    opened: list[Opened], in_url: str | None, given: Sync | None
) -> None:
    connect("file:jobs" + (f"?sync={in_url}" if in_url else ""), ManualClock(), sync=given)
    assert [call["sync"] for call in opened] == [given or in_url or "always"]


@pytest.mark.parametrize("create", [True, False])
def test_create_and_read_only_are_handed_on(opened: list[Opened], create: bool) -> None:
    connect("file:jobs", ManualClock(), create=create, read_only=not create)
    assert [(call["create"], call["read_only"]) for call in opened] == [(create, not create)]


@pytest.mark.parametrize(
    "url, text",
    [
        ("", "use file:///path/to/directory"),
        ("jobs", "use file:///path/to/directory"),
        ("/var/lib/shop", "use file:///path/to/directory"),
        ("C:\\jobs", "use file:///path/to/directory"),
        ("file:", "use file:///path/to/directory"),
        ("file://", "use file:///path/to/directory"),
        ("file://host", "use file:///path/to/directory"),
        ("file://host/jobs", "use file:///path/to/directory"),
        ("file://jobs", "use file:///path/to/directory"),  # a host, where a path was meant
        ("memory:jobs", "use file:///path/to/directory"),
        ("memory://jobs", "use file:///path/to/directory"),
        ("redis://localhost", "use file:///path/to/directory"),
        ("file:jobs?sync=often", "sync=often is not one of always, interval, never"),
        ("file:jobs?sync=", "sync= is not one of always, interval, never"),
        ("file:jobs?sync", "sync= is not one of always, interval, never"),
        ("file:jobs?sync=Always", "sync=Always is not one of"),
        ("memory:?sync=often", "sync=often is not one of"),
        ("file:jobs?snyc=never", "unknown option 'snyc'"),
        ("file:jobs?sync=never&x=1", "unknown option 'x'"),
        ("file:jobs#part", "unknown option 'part'"),
    ],
)
def test_what_is_refused_says_what_to_write(opened: list[Opened], url: str, text: str) -> None:
    with pytest.raises(InvalidUrl) as caught:
        connect(url, ManualClock())
    assert text in str(caught.value)
    assert url in str(caught.value).replace("\\\\", "\\")
    assert opened == []


@pytest.mark.parametrize("url", ["file://[jobs", "file://[x]y/jobs", "file:///var/%00jobs"])
def test_a_url_that_is_none_or_no_path_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl, match="use file:///path/to/directory"):
        connect(url, ManualClock())


def test_a_sync_that_is_none_is_refused_though_given_as_an_argument(tmp_path: Path) -> None:
    wrong: Any = "often"
    with pytest.raises(bide.errors.UsageError, match="always, interval, never"):
        bide.App(tmp_path.as_uri(), sync=wrong)


def test_each_memory_url_is_a_store_of_its_own() -> None:
    clock = ManualClock()
    one, other = connect("memory:", clock), connect("memory:", clock)
    assert one.clock is clock
    one.put([NewJob(queue="q", task="t", args=b"", due_ms=0)])
    assert (len(one.stats().queues), len(other.stats().queues)) == (1, 0)
    one.close()
    other.close()


def test_a_relative_url_is_seen_from_the_working_directory_of_the_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "first")
    backend = connect("file:jobs", ManualClock())
    monkeypatch.chdir(tmp_path / "second")
    backend.stats()
    backend.close()
    assert (tmp_path / "first" / "jobs" / "bide.json").exists()
    assert not (tmp_path / "second" / "jobs").exists()
    with pytest.raises(NotAStore):
        connect("file:jobs", ManualClock(), create=False)


def test_it_is_what_an_app_opens_its_store_with() -> None:
    signature = inspect.signature(Opener.__call__)
    expected = {name: p.kind for name, p in signature.parameters.items() if name != "self"}
    assert {n: p.kind for n, p in inspect.signature(connect).parameters.items()} == expected
    with bide.App("memory:") as app:
        assert app.backend.clock is app.clock
