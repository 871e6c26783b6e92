"""``bide backup``, ``restore``, ``compact``, ``follow``, ``promote``: from end to end."""

from __future__ import annotations

import json
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

from bide.model.job import JobId, JobRef
from tests.cli.conftest import Cli, Start, Store


@pytest.fixture
def jobs(store: Store, here: Path) -> Path:
    """The store's directory, with ten jobs; nobody has it open."""
    for number in range(10):
        store.remind.using(delay=3600).enqueue(number)
    store.app.close()
    return here / "jobs"


def count(run: Cli, path: Path) -> int:
    """How many jobs wait in the store at *path*; it is checked too."""
    assert run.json("check", str(path))["faults"] == []
    return len(run.json("jobs", "--state", "scheduled", "--url", path.as_uri())["jobs"])


def put(path: Path, number: int = 0) -> None:
    other = Store(path.as_uri())
    with other.app:
        other.remind.using(delay=3600).enqueue(number)


# ---------------------------------------------------------------- backup, restore


def test_there_and_back_through_a_file(run: Cli, jobs: Path, here: Path) -> None:
    said = run.json("backup", "one.bide")
    assert said["file"] == "one.bide"
    assert (here / "one.bide").stat().st_size == said["size"]
    assert stat.S_IMODE((here / "one.bide").stat().st_mode) == 0o600
    put(jobs, 11)
    assert count(run, jobs) == 11
    said = run.json("restore", "one.bide")
    assert said["path"] == str(jobs)
    assert count(run, jobs) == 10
    done = run("restore", "one.bide", "--url", "file:new")
    assert "restored" in done.stdout
    assert count(run, here / "new") == 10
    assert sorted(entry.name for entry in here.iterdir()) == ["jobs", "new", "one.bide"]


def test_through_a_pipe(start: Start, run: Cli, jobs: Path, here: Path) -> None:
    first = start("backup", "-", "--url", jobs.as_uri(), stdin=subprocess.DEVNULL)
    second = start("restore", "-", "--url", f"file://{here}/new", stdin=first.stdout)
    assert second.wait(60) == 0
    assert first.wait(60) == 0
    assert first.stderr is not None
    assert first.stderr.read() == ""
    assert count(run, here / "new") == 10


def test_a_pipe_that_ends_early(start: Start, run: Cli, jobs: Path, here: Path) -> None:
    run("backup", "one.bide")
    data = (here / "one.bide").read_bytes()
    for cut in (0, 100, 4096, len(data) - 1):
        (here / "cut").write_bytes(data[:cut])
        with (here / "cut").open("rb") as stream:
            child = start("restore", "-", "--url", jobs.as_uri(), stdin=stream)
            assert child.wait(60) == 1
        assert child.stderr is not None
        message = child.stderr.read()
        assert message.startswith("bide: error: ")
        assert message.count("\n") == 1
    assert count(run, jobs) == 10


def test_a_reader_that_has_seen_enough(start: Start, run: Cli, jobs: Path) -> None:
    child = start("backup", "-", "--url", jobs.as_uri())
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait(60) in {0, 1}
    assert child.stderr is not None
    assert "Traceback" not in child.stderr.read()
    assert count(run, jobs) == 10


def test_calls_of_backup_that_are_refused(run: Cli, jobs: Path, here: Path) -> None:
    (here / "there").write_text("precious", encoding="utf-8")
    assert "--force" in run.error("backup", "there", code=2)
    assert (here / "there").read_text(encoding="utf-8") == "precious"
    run.error("backup", "-", "--json", code=2)
    run.error("backup", "x", "--url", "file:nothing", code=1)
    assert not (here / "x").exists()
    assert not (here / "nothing").exists()
    run.error("backup", "no/such/directory", code=1)
    run("backup", "there", "--force")
    run("restore", "there")
    run.error("restore", "missing", code=1)
    assert count(run, jobs) == 10


def test_a_restore_of_a_store_in_use_is_refused(run: Cli, jobs: Path) -> None:
    run("backup", "one.bide")
    other = Store(jobs.as_uri())
    with other.app:
        other.app.stats()
        assert "stop them" in run.error("restore", "one.bide", code=1)
    run("restore", "one.bide")
    assert count(run, jobs) == 10


def test_a_backup_is_not_there_until_it_is_whole(
    run: Cli, jobs: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def failing(_upkeep: object, write: object, _progress: object) -> None:
        assert callable(write)
        write(b"half of it")
        seen.append((here / "one.bide").exists())
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("bide.storage.backup.backup", failing)
        run.error("backup", "one.bide", code=1)
    assert seen == [False]
    assert sorted(entry.name for entry in here.iterdir()) == ["jobs"]


# ---------------------------------------------------------------- compact


def test_compact(run: Cli, store: Store) -> None:
    handles = store.app.enqueue_many(
        store.remind.using(delay=3600).request(number) for number in range(5_000)
    )
    store.app.backend.cancel([JobRef(id=JobId(handle.id)) for handle in handles[:4_900]])
    store.app.close()
    said = run.json("compact")
    assert said["index"] < said["index_before"]
    assert "the index took" in run("compact").stdout
    run.error("compact", "--url", "file:nothing", code=1)


# ---------------------------------------------------------------- follow, promote


def test_once(run: Cli, jobs: Path, here: Path) -> None:
    lag = json.loads(run("follow", "--once", "--json", str(jobs), "copy").stdout)
    assert (lag["size"], lag["records"], lag["ms"]) == (0, 0, 0)
    assert lag["end"] > 0
    assert count(run, here / "copy") == 10
    put(jobs)
    assert "0 records (0 bytes)" in run("follow", "--once", jobs.as_uri(), "copy").stdout
    assert count(run, here / "copy") == 11
    assert "bide promote" in run.error("cancel", "1", "--url", "file:copy", code=1)
    assert run.json("promote", "copy") == {"path": f"{here}/copy", "leads": True}
    run("cancel", "1", "--url", "file:copy")
    assert count(run, here / "copy") == 10
    assert "leads already" in run.error("promote", "copy", code=1)
    assert "follows no one" in run.error("follow", "--once", str(jobs), "copy", code=1)
    run.error("promote", "nothing", code=1)
    run.error("follow", "nothing", "copy", code=1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("leader_is_gone", [False, True])
def test_a_signal_ends_it_well(
    start: Start, run: Cli, jobs: Path, here: Path, number: int, *, leader_is_gone: bool
) -> None:
    child = start("follow", "--json", str(jobs), "copy")
    assert child.stdout is not None
    assert child.stderr is not None
    assert json.loads(child.stdout.readline())["end"] > 0
    if leader_is_gone:
        jobs.rename(here / "away")
        assert "trying again" in child.stderr.readline()
    else:
        assert run.json("check", "copy")["faults"] == []
    child.send_signal(number)
    assert child.wait(60) == 0
    assert count(run, here / "copy") == 10


def test_a_leader_that_comes_back_is_followed_on(
    start: Start, run: Cli, jobs: Path, here: Path
) -> None:
    child = start("follow", str(jobs), "copy")
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    jobs.rename(here / "away")
    assert "trying again" in child.stderr.readline()
    shutil.copytree(here / "away", jobs)
    put(jobs)
    until_s = time.monotonic() + 60
    while len(run.json("jobs", "--state", "scheduled", "--url", "file:copy")["jobs"]) < 11:
        assert time.monotonic() < until_s
    child.terminate()
    assert child.wait(60) == 0
    assert count(run, here / "copy") == 11
