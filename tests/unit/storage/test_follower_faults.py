"""A follower that is killed, or refused by its disk, at each call in turn; then it goes on."""

from __future__ import annotations

import contextlib
import os
import shutil
from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from bide.errors import CorruptRecord, StoreError
from bide.storage import follower as follower_module
from bide.storage import retention
from bide.storage.check import check
from tests.power import forget_boot
from tests.unit.storage.dying import failing, is_killed
from tests.unit.storage.stores import (
    assert_sound,
    directory_at,
    log_files,
    numbered,
    put,
    upkeep,
)
from tests.unit.storage.test_follower import (
    assert_equal,
    back_to,
    catch_up,
    follow_once,
    following,
)


@pytest.fixture
def leader(tmp_path: Path) -> Path:
    put(tmp_path / "leader", *numbered(0, 40))
    return tmp_path / "leader"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "follower"


@pytest.mark.parametrize("how", ["new", "on", "back", "anew"])
def test_killed_at_every_call_it_goes_on(
    leader: Path, path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(follower_module, "STEP_SIZE", 6_000)
    if how != "new":
        follow_once(leader, path)
    if how == "back":
        back_to(leader, 12)
    if how == "anew":
        monkeypatch.setattr(retention, "FOLLOWED_SIZE_MAX", 0)
        put(leader, *numbered(100, 40))
        upkeep(leader)
    if how != "anew":
        put(leader, *numbered(300, 14))
    copy, at = path.with_name("copy"), 0
    while True:
        if path.exists():
            shutil.copytree(path, copy)
        killed = is_killed(lambda: follow_once(leader, copy), at)
        if copy.exists() and (copy / "bide.json").exists():
            assert_sound(copy)
            if at % 2:
                forget_boot(copy)
        follow_once(leader, copy)
        assert_equal(leader, copy)
        shutil.rmtree(copy)
        if not killed:
            break
        at += 1 if at < 40 else 3
    assert at > 20


@pytest.mark.parametrize("how, errno", [("new", ENOSPC), ("on", ENOSPC), ("back", EIO)])
def test_refused_by_the_disk_at_every_call_it_goes_on(
    leader: Path, path: Path, monkeypatch: pytest.MonkeyPatch, how: str, errno: int
) -> None:
    monkeypatch.setattr(follower_module, "STEP_SIZE", 6_000)
    if how != "new":
        follow_once(leader, path)
    if how == "back":
        back_to(leader, 12)
    put(leader, *numbered(300, 14))
    copy, at, refused = path.with_name("copy"), 0, 0
    while True:
        if path.exists():
            shutil.copytree(path, copy)
        with (
            failing(errno, at) as calls,
            contextlib.suppress(StoreError),
            following(leader, copy) as follower,
        ):
            try:
                catch_up(follower)
            except StoreError:
                refused += 1
                catch_up(follower)  # as `bide follow` does, in the same process
        follow_once(leader, copy)
        assert_equal(leader, copy)
        shutil.rmtree(copy)
        if len(calls) <= at:
            break
        at += 1
    assert refused > 10


def test_a_log_that_is_shorter_than_its_index_is_damaged(leader: Path, path: Path) -> None:
    follow_once(leader, path)
    files = log_files(path)
    last = Path(files.file(files.bases()[-1]))
    os.truncate(last, last.stat().st_size - 1)
    with pytest.raises(CorruptRecord, match="it ends before"), following(leader, path):
        pass
    assert check(directory_at(path)).faults
