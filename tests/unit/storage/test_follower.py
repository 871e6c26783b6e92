"""`bide.storage.follower` and `bide.storage.replica`: a second store, byte for byte the first."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bide.backends.local import open_upkeep
from bide.errors import (
    CorruptRecord,
    NotAStore,
    OutOfStep,
    StoreLocked,
    StoreReadOnly,
)
from bide.model.job import JobRef
from bide.storage import follower as follower_module
from bide.storage import replica as replica_module
from bide.storage import retention
from bide.storage.backup import backup, restore
from bide.storage.follower import Follower, Lag, promote
from bide.storage.log_end import roll_back
from tests.power import forget_boot
from tests.unit.storage.stores import (
    CLOCK,
    args_of,
    assert_sound,
    assert_tidy,
    directory_at,
    end_of,
    log_files,
    new_job,
    numbered,
    opened,
    put,
    rows_at,
    upkeep,
)


@pytest.fixture
def leader(tmp_path: Path) -> Path:
    put(tmp_path / "leader", *numbered(0, 40))
    return tmp_path / "leader"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the follower is to be."""
    return tmp_path / "follower"


@contextlib.contextmanager
def following(leader: Path, path: Path) -> Iterator[Follower]:
    with contextlib.closing(Follower(leader, path)) as follower:
        yield follower


def step(follower: Follower) -> Lag:
    """One step; then this process may open the leader for other things."""
    try:
        return follower.step(CLOCK.now_ms())
    finally:
        follower.leader.close()


def catch_up(follower: Follower) -> Lag:
    while (lag := step(follower)).size:
        assert lag.size > 0
    return lag


def follow_once(leader: Path, path: Path) -> None:
    with following(leader, path) as follower:
        catch_up(follower)


def assert_equal(leader: Path, path: Path) -> None:
    """The follower's log is the leader's, as far back as both go; so is its index."""
    ours, theirs = log_files(path), log_files(leader)
    assert end_of(path) == end_of(leader)
    end = end_of(path).end
    shared = set(ours.bases()) & set(theirs.bases())
    assert shared
    assert max(ours.bases()) == max(theirs.bases())
    for base in shared:
        mine = bytes(ours.segment(base))
        assert mine == bytes(theirs.segment(base))[: min(len(mine), end - base)]
        assert len(mine) == min([b for b in ours.bases() if b > base], default=end) - base
    assert rows_at(path) == rows_at(leader)
    assert_sound(path)
    assert_tidy(path)


def back_to(leader: Path, index: int) -> None:
    """Have the leader lose its log from record *index* on."""
    directory = directory_at(leader)
    ends = [position.end for _, position in log_files(leader).read(end_of(leader))]
    with directory.alone():
        roll_back(directory, ends[index])


def backup_of(path: Path) -> bytes:
    with open_upkeep(path, CLOCK) as care:
        out = io.BytesIO()
        backup(care, out.write, lambda *_: None)
    return out.getvalue()


# ---------------------------------------------------------------- in step


def test_from_the_start_and_on(leader: Path, path: Path) -> None:
    with following(leader, path) as follower:
        for number in range(3):
            catch_up(follower)
            put(leader, *numbered(100 * number, 30))
        catch_up(follower)
    assert_equal(leader, path)
    follow_once(leader, path)
    assert_equal(leader, path)


def test_from_a_checkpoint(leader: Path, path: Path) -> None:
    upkeep(leader)
    put(leader, *numbered(100, 30))
    follow_once(leader, path)
    assert_equal(leader, path)
    forget_boot(path)
    put(leader, *numbered(200, 3))
    follow_once(leader, path)
    assert_equal(leader, path)


def test_a_leader_without_a_job(tmp_path: Path, path: Path) -> None:
    put(tmp_path / "leader")
    with following(tmp_path / "leader", path) as follower:
        lag = catch_up(follower)
        assert (lag.size, lag.records, lag.ms, lag.end) == (0, 0, 0, 0)
        put(tmp_path / "leader", b"first")
        catch_up(follower)
    assert_equal(tmp_path / "leader", path)


def test_the_lag_is_right_at_each_step(
    leader: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "STEP_SIZE", 64)
    records = list(log_files(leader).read(end_of(leader)))
    end = end_of(leader).end
    with following(leader, path) as follower:
        for index, (_, position) in enumerate(records):
            now_ms = CLOCK.now_ms()
            lag = follower.step(now_ms)
            assert lag.end == position.end
            assert lag.size == end - position.end
            assert lag.records == len(records) - index - 1
            if lag.records:
                assert lag.ms == now_ms - records[index + 1][0].written_ms
            else:
                assert lag.ms == 0


def test_the_leader_compacts_and_trims(leader: Path, path: Path) -> None:
    with following(leader, path) as follower:
        for number in range(4):
            catch_up(follower)
            put(leader, *numbered(100 * number, 30))
            upkeep(leader, compact=number % 2 == 0)
        catch_up(follower)
    assert_equal(leader, path)


def test_left_behind_it_begins_anew(
    leader: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "FOLLOWED_SIZE_MAX", 0)
    with following(leader, path) as follower:
        catch_up(follower)
        put(leader, *numbered(100, 60))
        upkeep(leader)
        assert min(log_files(leader).bases()) > follower.replica.position.end
        catch_up(follower)
    assert_equal(leader, path)


def test_its_claim_keeps_segments_up_to_a_limit(
    leader: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow_once(leader, path)
    at = end_of(path).end
    assert directory_at(leader).followed() == [at]
    put(leader, *numbered(100, 60))
    upkeep(leader)
    bases = log_files(leader).bases()
    assert bases[0] <= at < bases[1]
    monkeypatch.setattr(retention, "FOLLOWED_SIZE_MAX", end_of(leader).end - at - 1)
    put(leader, b"one more")
    upkeep(leader)
    assert log_files(leader).bases()[0] > at
    follow_once(leader, path)
    assert_equal(leader, path)


def test_two_followers(leader: Path, path: Path) -> None:
    other = path.with_name("other")
    follow_once(leader, path)
    put(leader, *numbered(100, 60))
    follow_once(leader, other)
    assert sorted(directory_at(leader).followed()) == [end_of(path).end, end_of(other).end]
    upkeep(leader)
    follow_once(leader, path)
    assert_equal(leader, path)
    assert_equal(leader, other)


def put_and_cancel(path: Path, args: list[bytes]) -> None:
    """Have the log grow, and the index not."""
    with opened(path) as backend:
        results = backend.put([new_job(one) for one in args])
        backend.cancel([JobRef(id=result.id) for result in results])


def test_it_has_checkpoints_of_its_own(
    leader: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "CHECKPOINT_LOG_SIZE", 1)
    follow_once(leader, path)
    first = end_of(path)
    with following(leader, path) as follower:
        for number in range(40):
            put_and_cancel(leader, numbered(1_000 + 100 * number, 60))
            catch_up(follower)
    assert list(path.glob("log-*/*.checkpoint"))
    assert log_files(path).bases()[0] > first.base
    assert_equal(leader, path)
    forget_boot(path)
    follow_once(leader, path)
    assert_equal(leader, path)


# ---------------------------------------------------------------- out of step


@pytest.mark.parametrize("back_index", [38, 30, 5])
@pytest.mark.parametrize("regrown", [0, 1, 60])
def test_a_leader_that_lost_its_tail(
    leader: Path, path: Path, back_index: int, regrown: int
) -> None:
    with following(leader, path) as follower:
        catch_up(follower)
        back_to(leader, back_index)
        put(leader, *numbered(500, regrown))
        catch_up(follower)
    assert_equal(leader, path)
    assert args_of(leader) == numbered(0, back_index + 1) + numbered(500, regrown)


def test_a_leader_that_was_copied_back(leader: Path, path: Path, tmp_path: Path) -> None:
    shutil.copytree(leader, tmp_path / "copy")
    put(leader, *numbered(100, 20))
    with following(leader, path) as follower:
        catch_up(follower)
        shutil.rmtree(leader)
        with pytest.raises(NotAStore):
            step(follower)
        shutil.copytree(tmp_path / "copy", leader)
        put(leader, *numbered(700, 9))
        catch_up(follower)
    assert_equal(leader, path)


@pytest.mark.parametrize("after", [0, 1, 30])
def test_a_leader_that_was_restored(leader: Path, path: Path, after: int) -> None:
    data = backup_of(leader)
    put(leader, *numbered(100, 20))
    with following(leader, path) as follower:
        catch_up(follower)
        restore(io.BytesIO(data).read, leader, lambda *_: None)
        put(leader, *numbered(900, after))
        catch_up(follower)
        put(leader, b"on")
        catch_up(follower)
    assert_equal(leader, path)
    assert_equal_after_a_power_cut(leader, path)


def test_a_leader_that_is_restored_while_its_index_is_open(leader: Path, path: Path) -> None:
    data = backup_of(leader)
    put(leader, *numbered(100, 20))
    with following(leader, path) as follower:
        while follower.step(CLOCK.now_ms()).size:
            pass
        restore(io.BytesIO(data).read, leader, lambda *_: None)
        assert follower.step(CLOCK.now_ms()).size == 0
    assert_equal(leader, path)


def assert_equal_after_a_power_cut(leader: Path, path: Path) -> None:
    forget_boot(path)
    follow_once(leader, path)
    assert_equal(leader, path)


def test_a_leader_that_goes_and_comes_back(leader: Path, path: Path, tmp_path: Path) -> None:
    with following(leader, path) as follower:
        catch_up(follower)
        put(leader, *numbered(100, 3))
        leader.rename(tmp_path / "away")
        with pytest.raises(NotAStore):
            step(follower)
        (tmp_path / "away").rename(leader)
        catch_up(follower)
    assert_equal(leader, path)


def test_a_copy_that_fails_leaves_a_follower_that_goes_on(
    leader: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with following(leader, path) as follower:
        catch_up(follower)
        put(leader, *numbered(100, 60))
        monkeypatch.setattr(retention, "FOLLOWED_SIZE_MAX", 0)
        upkeep(leader)

        def fail(*_: object) -> None:
            raise StoreLocked("not now")

        with monkeypatch.context() as patch:
            patch.setattr(follower, "_copy", fail)
            with pytest.raises(StoreLocked, match="not now"):
                step(follower)
        catch_up(follower)
    follow_once(leader, path)
    assert_equal(leader, path)


# ---------------------------------------------------------------- refused


def test_what_does_not_follow_is_refused(leader: Path, path: Path) -> None:
    follow_once(leader, path)
    at = end_of(path)
    put(leader, b"x" * 100, b"y" * 100)
    files = log_files(leader)
    base = files.bases()[-1]
    assert base == at.base
    (first, first_end), (_, second_end) = files.read(end_of(leader), start=at)
    data = files.part(base, at.end, second_end.end - at.end)
    sizes = [first_end.end - at.end, second_end.end - first_end.end]
    damaged = data[:-1] + bytes([data[-1] ^ 1])
    bad_head = bytes([data[0] ^ 1]) + data[1:]
    with following(leader, path) as follower:
        replica = follower.replica
        before = rows_at_open(follower), bytes(log_files(path).segment(base))
        for wrong, offset, stated in (
            (data, at.end + 1, sizes),
            (data, at.end - 1, sizes),
            (data, at.end, [sizes[0], sizes[1] + 1]),
            (data, at.end, [sizes[0] + 1, sizes[1] - 1]),
            (data, at.end, sizes[:1]),
            (data[:-1], at.end, [sizes[0], sizes[1] - 1]),
            (data[sizes[0] :], first_end.end, sizes[1:]),
        ):
            with pytest.raises(OutOfStep) as caught:
                replica.accept(wrong, offset, stated)
            assert caught.value.end == at.end
            assert str(at.end) in str(caught.value)
            assert str(caught.value.offset) in str(caught.value)
        for wrong, offset, stated in (
            (damaged, at.end, sizes),
            (bad_head, at.end, sizes),
            (data[sizes[0] :], at.end, sizes[1:]),
        ):
            with pytest.raises((OutOfStep, CorruptRecord)):
                replica.accept(wrong, offset, stated)
        head = files.part(base, base, 48)
        for offset in (base, at.end, at.end + 5):
            with pytest.raises((OutOfStep, CorruptRecord)):
                replica.accept_segment(head, offset)
        assert replica.position == at
        assert (rows_at_open(follower), bytes(log_files(path).segment(base))) == before
        replica.accept(data, at.end, sizes)
    assert first.offset == at.end
    assert_equal(leader, path)


def rows_at_open(follower: Follower) -> object:
    return follower.replica.position, follower.replica._tables.size()


def test_who_may_follow_whom(leader: Path, path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    put(other, b"theirs")
    with pytest.raises(NotAStore, match="another store"):
        Follower(leader, other)
    assert args_of(other) == [b"theirs"]
    with pytest.raises(NotAStore, match="no store there"):
        Follower(tmp_path / "nothing", path)
    assert not path.exists()
    with pytest.raises(NotAStore, match="follow itself"):
        Follower(leader, leader)
    shutil.copytree(leader, tmp_path / "twin")
    with pytest.raises(StoreLocked, match="follows no one"):
        Follower(leader, tmp_path / "twin")
    with following(leader, path), pytest.raises(StoreLocked):
        Follower(leader, path)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "precious").touch()
    with pytest.raises(NotAStore, match="precious"):
        Follower(leader, tmp_path / "foreign")
    follow_once(leader, path)
    assert_equal(leader, path)


# ---------------------------------------------------------------- to lead


def test_nobody_works_there_until_it_leads(leader: Path, path: Path) -> None:
    follow_once(leader, path)
    with pytest.raises(StoreReadOnly, match="bide promote"):
        put(path, b"no")
    promote(path)
    put(path, b"yes")
    assert args_of(path) == sorted([*numbered(0, 40), b"yes"])
    with pytest.raises(OutOfStep, match="leads already"):
        promote(path)
    with pytest.raises(StoreLocked, match="follows no one"):
        Follower(leader, path)
    assert_sound(path)
    assert_tidy(path)


def test_a_store_that_is_followed_to_is_not_promoted(leader: Path, path: Path) -> None:
    with following(leader, path), pytest.raises(StoreLocked):
        promote(path)
    with pytest.raises(NotAStore):
        promote(path.with_name("nothing"))
    with pytest.raises(OutOfStep):
        promote(leader)
