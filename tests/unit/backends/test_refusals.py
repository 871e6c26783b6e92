"""Directories that are no place for a store: each a typed error that says what to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import bide
from bide.errors import NotAStore, StoreError, StoreReadOnly, UnsupportedFormat
from tests.mounts import run_on_small_disk, run_read_only

MIB = 1 << 20


def refusal(path: Path) -> StoreError:
    """Why a store at *path* can't be used; each use says the same."""
    app = bide.App(path.as_uri())
    app.task(name="note")(note)
    calls: list[Callable[[], object]] = [app.stats, lambda: app.tasks["note"].enqueue(1), app.stats]
    errors: list[StoreError] = []
    for call in calls:
        with pytest.raises(StoreError) as caught:
            call()
        errors.append(caught.value)
    app.close()
    assert len({str(error) for error in errors}) == 1
    assert errors[0].path.startswith(str(path))
    return errors[0]


def note(number: int) -> None: ...


def make_store(path: Path) -> None:
    with bide.App(path.as_uri()) as app:
        app.task(name="note")(note).using(delay=3_600, key="k").enqueue(1)


# ---------------------------------------------------------------- not bide's, not this bide's


def test_another_programs_directory(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data", encoding="utf-8")
    error = refusal(tmp_path)
    assert type(error) is NotAStore
    for text in (str(tmp_path), "'precious'", "another program's directory", "name an empty one"):
        assert text in str(error)
    assert [entry.name for entry in tmp_path.iterdir()] == ["precious"], "nothing is left in it"


@pytest.mark.parametrize("data", [b"", b"{}", b"null", b"\xff", b'{"format": "x", "version": 1}'])
def test_a_file_of_the_right_name_and_something_else_in_it(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bide.json").write_bytes(data)
    error = refusal(tmp_path)
    assert type(error) is NotAStore
    assert "bide.json" in str(error)
    assert (tmp_path / "bide.json").read_bytes() == data


def test_a_store_of_a_newer_bide(tmp_path: Path) -> None:
    make_store(tmp_path)
    file = tmp_path / "bide.json"
    identity = json.loads(file.read_bytes()) | {"version": 2, "made_by": "a later bide"}
    file.write_text(json.dumps(identity), encoding="utf-8")
    error = refusal(tmp_path)
    assert type(error) is UnsupportedFormat
    for text in (str(tmp_path), "format 2", "reads 1", "upgrade bide"):
        assert text in str(error)
    file.write_text(json.dumps(identity | {"version": 1}), encoding="utf-8")
    with bide.App(tmp_path.as_uri()) as app:
        assert app.get(key="k") is not None, "it was not touched"


def test_a_file_in_the_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("data", encoding="utf-8")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        assert type(refusal(path)) is NotAStore
    assert (tmp_path / "file").read_text(encoding="utf-8") == "data"


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    assert "File name too long" in str(refusal(tmp_path / ("x" * 300)))


# ---------------------------------------------------------------- read-only

READ_ONLY = """
import sys, bide
app = bide.App(sys.argv[1])
app.task(name="note")(lambda: None)
for call in (app.stats, app.tasks["note"].enqueue):
    try:
        call()
    except bide.errors.StoreReadOnly as error:
        print(error)
"""


@pytest.mark.parametrize("is_there", [True, False])
def test_a_read_only_disk(tmp_path: Path, *, is_there: bool) -> None:
    store = tmp_path / "disk" / "store"
    store.parent.mkdir()
    if is_there:
        make_store(store)
    done = run_read_only(tmp_path / "disk", "-c", READ_ONLY, store.as_uri())
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith(f"{store}: ")
        assert "give this user the right to write there" in line
    assert store.exists() == is_there
    if is_there:
        make_way(store)


def make_way(store: Path) -> None:
    """The store is as it was, now that it can be written to."""
    with bide.App(store.as_uri()) as app:
        assert app.cancel(key="k")


def test_a_directory_that_this_user_may_not_write_to(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere: see the read-only disk")
    tmp_path.chmod(0o500)
    try:
        assert type(refusal(tmp_path / "store")) is StoreReadOnly
    finally:
        tmp_path.chmod(0o700)


# ---------------------------------------------------------------- full

BALLAST = """
import os, sys, bide
from pathlib import Path

disk = Path(sys.argv[1])
left = int(sys.argv[2])
app = bide.App((disk / "store").as_uri())

@app.task(name="note")
def note(text: str) -> None: ...

def fill(left: int) -> None:
    with (disk / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(file.tell() - left)
"""

MAKE_ON_A_FULL_DISK = (
    BALLAST
    + """
fill(left)
try:
    app.stats()
    print("made")
except bide.errors.StoreFull as error:
    print("StoreFull", error)
(disk / "ballast").unlink()
print(note.enqueue("again").id)
"""
)

USE_ON_A_FULL_DISK = (
    BALLAST
    + """
first = note.using(delay=3600).enqueue("first")
fill(left)
count = 1
try:
    while True:
        note.enqueue("x" * 5000)
        count += 1
except bide.errors.StoreFull as error:
    print("StoreFull", error)
print(app.stats().queues[0].waiting == count, first.get() is not None)
try:
    app.enqueue_many(note.request("y" * 5000) for _ in range(100))
except bide.errors.StoreFull:
    print(app.stats().queues[0].waiting == count)
(disk / "ballast").unlink()
print(note.enqueue("after").id > count, first.cancel(), app.stats().queues[0].waiting == count)
app.close()
with bide.App((disk / "store").as_uri()) as app:
    print(app.stats().queues[0].waiting == count)
"""
)


def run_full(tmp_path: Path, program: str, left: int) -> subprocess.CompletedProcess[str]:
    return run_on_small_disk(tmp_path, 4 * MIB, "-c", program, str(tmp_path), str(left))


@pytest.mark.parametrize("left", [4_096, 16_384, 40_960, 65_536, 131_072])
def test_making_a_store_on_a_full_disk_is_refused_and_works_with_space(
    tmp_path: Path, left: int
) -> None:
    done = run_full(tmp_path, MAKE_ON_A_FULL_DISK, left)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first == "made" or first.startswith(f"StoreFull {tmp_path}/store")
    assert second == "1"


def test_making_a_store_on_a_disk_without_a_byte_left_is_refused(tmp_path: Path) -> None:
    done = run_full(tmp_path, MAKE_ON_A_FULL_DISK, 0)
    assert done.returncode != -signal.SIGBUS
    first, second = done.stdout.splitlines()
    assert first.startswith("StoreFull")
    assert second == "1"


@pytest.mark.parametrize("left", [0, 10_000, MIB])
def test_a_full_disk_refuses_puts_whole_and_keeps_all_that_was_accepted(
    tmp_path: Path, left: int
) -> None:
    done = run_full(tmp_path, USE_ON_A_FULL_DISK, left)
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert first.startswith(f"StoreFull {tmp_path}/store")
    assert "space" in first
    assert rest == ["True True", "True", "True True True", "True"]


SETTLE_ON_A_FULL_DISK = (
    BALLAST
    + """
from bide.model.commands import Completed, Settlement

app.enqueue_many(note.request("x" * 500) for _ in range(1000))
backend = app.backend
attendance = backend.attend(["default"])
leases = backend.reserve(attendance.owner, ["default"], 500).leases
fill(left)
with (disk / "rest").open("wb", buffering=0) as file:  # every byte that truncating gave back
    try:
        while True:
            file.write(bytes(512))
    except OSError:
        pass
try:
    while True:
        note.enqueue("x" * 5000)
except bide.errors.StoreFull as error:
    print("StoreFull")
done = [Settlement(lease.job.id, lease.attempt, Completed()) for lease in leases]
refused = backend.reserve(attendance.owner, ["default"], 0, done).refused
print(len(refused), set(refused))
print(app.cancel(leases[-1].job.id + 1))
(disk / "ballast").unlink()
(disk / "rest").unlink()
print(note.enqueue("after").id > 1000)
attendance.leave()
app.close()
with bide.App((disk / "store").as_uri()) as app:
    (queue,) = app.stats().queues
    print(queue.succeeded_total, queue.cancelled_total, queue.running)
"""
)


@pytest.mark.parametrize("left", [0, 40_960])
def test_what_ends_jobs_goes_on_on_a_full_disk(tmp_path: Path, left: int) -> None:
    done = run_on_small_disk(
        tmp_path, 8 * MIB, "-c", SETTLE_ON_A_FULL_DISK, str(tmp_path), str(left)
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "StoreFull",
        "500 {None}",
        "True",
        "True",
        "500 1 0",
    ]
