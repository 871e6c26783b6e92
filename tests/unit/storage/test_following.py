"""A follower holds its leader's log, byte for byte, and an index made of it.

LMDB opens an index once in a process, so here leader and follower take turns.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bide.errors import CorruptRecord, NotAStore, OutOfStep, StoreLocked, StoreReadOnly
from bide.format.record import peek_sizes
from bide.format.segment import HEAD_SIZE
from bide.model import commands as c
from bide.storage import follower as follower_module
from bide.storage import replica as replica_module
from bide.storage import retention as retention_module
from bide.storage.check import check
from bide.storage.directory import Directory
from bide.storage.disk import Disk
from bide.storage.follower import Follower, Lag, promote
from bide.storage.log_end import roll_back
from bide.storage.store import Store
from tests.power import forget_boot
from tests.unit.storage.histories import (
    check_tables,
    do,
    dump_store,
    put,
    register,
    run_history,
    waiting_args,
)
from tests.unit.storage.opened import made, opened, upkeep_of
from tests.unit.storage.test_restoring import backup_of, killed_at, restored


@pytest.fixture
def leader(tmp_path: Path) -> Directory:
    return made(tmp_path / "leader")


@contextlib.contextmanager
def leading(leader: Directory) -> Iterator[Store]:
    store = opened(leader)
    yield store
    store.close()


@pytest.fixture(autouse=True)
def first(leader: Directory) -> None:
    with leading(leader) as store:
        do(store, put(b"first"))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "follower"


def step(follower: Follower, now_ms: int = 0) -> Lag:
    try:
        return follower.step(now_ms)
    finally:
        follower.leader.close()


def catch_up(follower: Follower, now_ms: int = 0) -> Lag:
    while (lag := step(follower, now_ms)).size:
        pass
    return lag


def follow(leader: Path, target: Path, *, disk: Disk | None = None) -> None:
    follower = Follower(leader, target, disk=disk)
    catch_up(follower)
    follower.close()


def segments_of(directory: Directory) -> dict[str, bytes]:
    path = directory.log_path(directory.read_state().log)
    return {one.name: one.read_bytes() for one in sorted(path.glob("*.log"))}


def assert_same(leader: Directory, target: Path) -> None:
    """What both have of the log is the same, to its end, and nothing is wrong with it."""
    directory = made(target)
    findings = check(directory)
    assert findings.faults == ()
    theirs, ours = segments_of(leader), segments_of(directory)
    shared = min(len(ours), len(theirs))
    assert shared
    assert list(ours)[-shared:] == list(theirs)[-shared:], "segments are missing"
    for name in list(ours)[-shared:]:
        data = ours[name]
        assert theirs[name].startswith(data), name
        assert not any(theirs[name][len(data) :]), f"{name} goes on"


def test_it_is_kept_up_byte_for_byte(leader: Directory, target: Path) -> None:
    follower = Follower(leader.path, target)
    for seed in range(4):
        with leading(leader) as store:
            run_history(store, seed, 100)
            end = store.end
        lag = catch_up(follower)
        assert (lag.size, lag.records, lag.ms, lag.end) == (0, 0, 0, end)
    follower.close()
    assert_same(leader, target)
    assert dump_of(target) == dump_of(leader.path)


def dump_of(path: Path) -> object:
    """The rows of a store, read as anyone may."""
    with contextlib.closing(Store(made(path).open_to_read, path=str(path))) as reader:
        return dump_store(reader)


def waiting_args_of(path: Path) -> list[bytes]:
    with contextlib.closing(Store(made(path).open_to_read, path=str(path))) as reader:
        return waiting_args(reader)


def test_its_lag_is_told_in_bytes_records_and_time(
    leader: Directory, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "STEP_SIZE", 1)
    follower = Follower(leader.path, target)
    at = catch_up(follower).end
    with leading(leader) as store:
        for number in range(5):
            do(store, put(b"x" * 100), now_ms=1_000 + number)
        end = store.end
    size = (end - at) // 5
    for taken in range(1, 6):  # one record in each step
        lag = step(follower, 3_000)
        assert (lag.size, lag.end) == (end - at - taken * size, at + taken * size)
        assert lag.records == 5 - taken
        assert lag.ms == (3_000 - (1_000 + taken) if taken < 5 else 0)
    follower.close()


def test_it_goes_on_after_the_leader_was_trimmed_and_compacted(
    leader: Directory, target: Path
) -> None:
    follower = Follower(leader.path, target)
    for _ in range(3):
        with leading(leader) as store:
            for _ in range(40):
                do(store, put(b"x" * 200))
        catch_up(follower)
        with leading(leader) as store:
            upkeep_of(leader, store).run(compact=True)
            do(store, put(b"behind"))
        catch_up(follower)
    follower.close()
    assert_same(leader, target)
    assert dump_of(target) == dump_of(leader.path)


def trim(leader: Directory) -> None:
    with leading(leader) as store:
        for _ in range(60):
            do(store, put(b"x" * 200))
        upkeep_of(leader, store).run()
        do(store, put(b"behind"))


FIRST = "00000000000000000000.log"


def test_one_that_was_left_behind_begins_anew(
    leader: Directory, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(leader.path, target)
    monkeypatch.setattr(retention_module, "FOLLOWED_SIZE_MAX", 1_000)
    trim(leader)
    assert FIRST not in segments_of(leader)
    follow(leader.path, target)
    assert_same(leader, target)
    assert dump_of(target) == dump_of(leader.path)


def test_what_it_has_not_got_is_kept_for_it(leader: Directory, target: Path) -> None:
    follow(leader.path, target)
    trim(leader)
    assert FIRST in segments_of(leader)
    follow(leader.path, target)
    trim(leader)
    assert FIRST not in segments_of(leader)


def test_one_that_ran_ahead_is_cut_back(leader: Directory, target: Path) -> None:
    with leading(leader) as store:
        run_history(store, 1, 100)
        end = store.end
        run_history(store, 2, 60)
    follow(leader.path, target)
    with leader.alone():
        roll_back(leader, end)
    with leading(leader) as store:
        do(store, put(b"another history"))
    follow(leader.path, target)
    assert_same(leader, target)
    assert dump_of(target) == dump_of(leader.path)


def test_a_leader_that_was_restored_is_followed(leader: Directory, target: Path) -> None:
    with leading(leader) as store:
        data = backup_of(leader, store)
        do(store, put(b"two"))
    follow(leader.path, target)
    restored(data, leader.path)
    with leading(leader) as store:
        do(store, put(b"three"))
    follow(leader.path, target)
    assert waiting_args_of(target) == [b"first", b"three"]
    assert_same(leader, target)


def test_a_follower_makes_its_own_checkpoints(
    leader: Directory, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "CHECKPOINT_LOG_SIZE", 5_000)
    follower = Follower(leader.path, target)
    for seed in range(6):
        with leading(leader) as store:
            run_history(store, seed, 200)
        catch_up(follower)
    directory = made(target)
    assert list(directory.log_path(directory.read_state().log).glob("*.checkpoint"))
    assert FIRST not in segments_of(directory), "nothing was trimmed"
    follower.close()
    forget_boot(target)  # it recovers from them
    follow(leader.path, target)
    assert_same(leader, target)
    assert dump_of(target) == dump_of(leader.path)


# ---------------------------------------------------------------- refusals


def test_only_what_follows_is_taken(leader: Directory, target: Path) -> None:
    with leading(leader) as store:
        for number in range(4):
            do(store, put(b"%d" % number))
    follower = Follower(leader.path, target)
    replica = follower.replica
    (data,) = segments_of(leader).values()
    head, rest = data[:HEAD_SIZE], data[HEAD_SIZE:]
    sizes = peek_sizes(rest)
    replica.accept_segment(head, 0)
    replica.accept(rest[: sizes[0]], HEAD_SIZE, sizes[:1])
    end = replica.position.end
    second = rest[sizes[0] : sizes[0] + sizes[1]]
    third = rest[sum(sizes[:2]) : sum(sizes[:3])]
    wrong: list[tuple[bytes, int, list[int]]] = [
        (second, end + 1, [len(second)]),
        (second, end - 1, [len(second)]),
        (second, end, [len(second) + 1]),
        (second[:-1], end, [len(second)]),
        (third, end, [len(third)]),
        (second + third, end, [len(second) + 1, len(third) - 1]),
    ]
    for data_, offset, sizes_ in wrong:
        with pytest.raises((OutOfStep, CorruptRecord)) as caught:
            replica.accept(data_, offset, sizes_)
        if isinstance(caught.value, OutOfStep):
            assert caught.value.end == end
            assert f"ends at {end}" in str(caught.value)
    damaged = bytearray(second)
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecord):
        replica.accept(bytes(damaged), end, [len(damaged)])
    with pytest.raises(OutOfStep):
        replica.accept_segment(head, 0)
    assert replica.position.end == end
    (own,) = segments_of(made(target)).values()
    assert len(own) == end, "something was written"
    replica.accept(second + third, end, [len(second), len(third)])
    catch_up(follower)
    follower.close()
    assert_same(leader, target)


def test_who_may_not_be_followed_to_or_from(
    leader: Directory, target: Path, tmp_path: Path
) -> None:
    with pytest.raises(NotAStore, match="no store there to follow"):
        Follower(tmp_path / "nothing", target)
    follow(leader.path, target)
    with pytest.raises(StoreReadOnly, match="bide promote"):
        do(opened(made(target)), put(b"no"))
    one = Follower(leader.path, target)
    with pytest.raises(StoreLocked, match="another process"):
        Follower(leader.path, target)
    with pytest.raises(StoreLocked, match="stop them"):
        promote(target)
    one.close()
    with pytest.raises(NotAStore, match="follow itself"):
        Follower(leader.path, leader.path)
    shutil.copytree(leader.path, tmp_path / "copy")
    with pytest.raises(StoreLocked, match="follows no one"):
        Follower(leader.path, tmp_path / "copy")
    with pytest.raises(OutOfStep, match="leads already"):
        promote(tmp_path / "copy")


def test_once_promoted_it_takes_jobs_and_gives_back_what_ran(
    leader: Directory, target: Path
) -> None:
    with leading(leader) as store:
        owner = do(store, register())
        (lease,) = do(store, c.Reserve(owner, ("q",), 1))
    follow(leader.path, target)
    promote(target)
    promoted = opened(made(target))
    with promoted.view() as view:
        assert view.owner_of(lease.job.id) == owner  # for a worker there to find dead
    assert do(promoted, c.Expire(owner, frozenset(), "gone", 10)) == 0
    do(promoted, put(b"own"))
    assert waiting_args(promoted) == [b"first", b"own"]
    check_tables(dump_store(promoted))
    promoted.close()
    assert check(made(target)).faults == ()


# ---------------------------------------------------------------- kills


def test_killed_at_any_point_it_goes_on(leader: Directory, target: Path) -> None:
    with leading(leader) as store:
        run_history(store, 5, 120)
        upkeep_of(leader, store).run()
        run_history(store, 6, 120)
    at = 0
    while killed_at(at, lambda disk: follow(leader.path, target, disk=disk)):
        at += 1
        if at % 5 == 0:
            shutil.rmtree(target, ignore_errors=True)  # from its beginning again
    assert at > 20
    assert_same(leader, target)
    assert dump_of(target) == dump_of(leader.path)


@pytest.mark.parametrize("seed", range(5))
def test_any_history_of_both_ends_in_one(leader: Directory, target: Path, seed: int) -> None:
    rng = random.Random(seed)
    for turn in range(12):
        with leading(leader) as store:
            run_history(store, seed * 100 + turn, 30)
            if rng.random() < 0.3:
                upkeep_of(leader, store).run(compact=rng.random() < 0.5)
        match rng.randrange(4):
            case 0:
                killed_at(rng.randrange(40), lambda disk: follow(leader.path, target, disk=disk))
            case 1:
                forget_boot(leader.path)
            case 2 if (target / "state.json").exists():
                forget_boot(target)
            case _:
                follow(leader.path, target)
    with leading(leader) as store:
        do(store, put(b"last"))
    follow(leader.path, target)
    assert_same(leader, target)
    assert dump_of(target) == dump_of(leader.path)
