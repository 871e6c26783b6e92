"""Every fault is named, with kind, file and offset; a repair mends it, and says what is lost."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bide.errors import NotAStore, StoreLocked, StoreReadOnly
from bide.format.record import HEAD_SIZE
from bide.format.record import peek_sizes as sizes_of
from bide.format.row import encode_u64
from bide.format.segment import HEAD_SIZE as SEGMENT_HEAD_SIZE
from bide.model import commands as c
from bide.model.job import JobRef
from bide.storage.check import Findings, check
from bide.storage.directory import Directory
from bide.storage.disk import Disk
from bide.storage.follower import Follower
from bide.storage.repair import Repaired, repair
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
from tests.unit.storage.opened import environment_of, made, opened, unfinished, upkeep_of
from tests.unit.storage.test_following import step
from tests.unit.storage.test_restoring import backup_of, killed_at, restored

NOW_MS = 1_000


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return made(tmp_path / "store")


def use(directory: Directory, work: Callable[[Store], object]) -> None:
    store = opened(directory)
    work(store)
    store.close()


def fill(store: Store) -> None:
    """Sixty jobs over some segments: a third put before a checkpoint; two of each ten cancelled."""
    for number in range(60):
        (result,) = do(store, put(b"%02d" % number * 60, key=f"key {number}"))
        if number % 10 in {3, 4}:
            do(store, c.Cancel((JobRef(id=result.id),)))


def segments(directory: Directory) -> list[Path]:
    return sorted(directory.log_path(directory.read_state().log).glob("*.log"))


def flip(path: Path, offset: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)


def mended(directory: Directory, *, lost: bool = False) -> Repaired:
    """Repair; afterwards nothing is wrong, and the store goes on."""
    repaired = repair(directory, NOW_MS)
    assert bool(repaired.lost) == lost, repaired.lost
    assert check(directory).faults == ()
    assert repair(directory, NOW_MS).done == "nothing was wrong"
    store = opened(directory)
    check_tables(dump_store(store))
    (result,) = do(store, put(b"after"))
    assert result.id > 60, "an id was given again"
    upkeep_of(directory, store).run(compact=True)
    do(store, put(b"more"))
    store.close()
    forget_boot(directory.path)
    store = opened(directory)
    assert waiting_args(store)[-2:] == [b"after", b"more"]
    store.close()
    assert check(directory).faults == ()
    assert not unfinished(directory.path)
    return repaired


def only(findings: Findings) -> tuple[str, str, int | None]:
    """Kind, file and offset of the only fault."""
    (fault,) = findings.faults
    return fault.kind, Path(fault.path).name, fault.offset


# ---------------------------------------------------------------- nothing is wrong


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_store_that_is_whole_has_no_fault(directory: Directory, seed: int) -> None:
    store = opened(directory)
    assert check(directory).faults == ()
    run_history(store, seed, 300)
    assert check(directory).faults == ()  # in use meanwhile
    upkeep_of(directory, store).run(compact=True)
    run_history(store, seed + 10, 100)
    findings = check(directory)
    assert (findings.faults, findings.needs_recovery) == ((), False)
    assert findings.log_end == store.end
    assert findings.job_count == len(dump_store(store)["jobs"])
    store.close()
    forget_boot(directory.path)
    findings = check(directory)
    assert (findings.faults, findings.needs_recovery, findings.job_count) == ((), True, None)
    assert repair(directory, NOW_MS).done.startswith("the index was made anew")
    assert check(directory).job_count is not None


def test_what_a_crash_leaves_is_no_fault(directory: Directory) -> None:
    use(directory, fill)
    for tail in (b"bIdR", b"bIdR" + bytes(20), bytes(4096), b"rubbish" * 10):
        path = segments(directory)[-1]
        size = check(directory).log_end - int(path.stem)
        path.write_bytes(path.read_bytes()[:size] + tail)
        assert check(directory).faults == ()
        forget_boot(directory.path)
        assert check(directory).faults == ()
        use(directory, lambda store: do(store, put(b"next")))


def test_a_store_in_use_is_not_repaired(directory: Directory) -> None:
    store = opened(directory)
    fill(store)
    with pytest.raises(StoreLocked, match="stop them"):
        repair(directory, NOW_MS)
    store.close()


# ---------------------------------------------------------------- the log


def test_a_flipped_bit_anywhere_in_a_record_is_named(directory: Directory) -> None:
    use(directory, fill)
    path = segments(directory)[1]
    base = int(path.stem)
    data = path.read_bytes()
    first, second, *_ = sizes_of(data[SEGMENT_HEAD_SIZE:])
    start = SEGMENT_HEAD_SIZE + first
    for offset in range(start, start + second):
        flip(path, offset, offset % 8)
        (fault,) = check(directory).faults
        assert (fault.kind, fault.path, fault.offset) == ("log", str(path), base + start)
        flip(path, offset, offset % 8)
    assert check(directory).faults == ()
    for offset in range(SEGMENT_HEAD_SIZE):
        flip(path, offset)
        assert ("log", path.name, base) == only(check(directory))
        flip(path, offset)


def test_what_the_index_still_says_is_not_lost(directory: Directory) -> None:
    use(directory, fill)
    expected: list[list[bytes]] = []
    use(directory, lambda store: expected.append(waiting_args(store)))
    for damage in (
        lambda paths: flip(paths[1], SEGMENT_HEAD_SIZE + HEAD_SIZE + 5),
        lambda paths: paths[1].unlink(),
        lambda paths: paths[0].unlink(),
        lambda paths: paths[-1].unlink(),
        lambda paths: paths[1].write_bytes(paths[1].read_bytes()[:1000]),
        lambda paths: paths[-1].write_bytes(paths[-1].read_bytes()[:100]),
        lambda paths: paths[1].write_bytes(bytes(3000)),
    ):
        damage(segments(directory))
        assert check(directory).of("log")
        repaired = mended(directory)
        assert repaired.kept is not None
        assert Path(repaired.kept).is_dir()
        expected[0] += [b"after", b"more"]
        use(directory, lambda store: _same(waiting_args(store), expected[0]))
        use(directory, fill_more)
        expected.clear()
        use(directory, lambda store: expected.append(waiting_args(store)))


def fill_more(store: Store) -> None:
    for number in range(60):
        do(store, put(b"m%02d" % number * 60))


def _same(one: object, other: object) -> None:
    assert one == other


def test_what_is_lost_is_told_by_id(directory: Directory) -> None:
    use(directory, fill)
    paths = segments(directory)
    before: set[int] = set()
    use(directory, lambda store: before.update(ids_of(store)))
    flip(paths[1], SEGMENT_HEAD_SIZE + HEAD_SIZE + 5)  # the body of the first record in it
    forget_boot(directory.path)  # the index is of no use
    repaired = mended(directory, lost=True)
    after: set[int] = set()
    use(directory, lambda store: after.update(ids_of(store)))
    gone = before - after
    assert len(gone) == 1
    (lost,) = gone
    told = [line for line in repaired.lost if f"job {lost}," in line or f"job {lost} " in line]
    assert told, repaired.lost
    for job_id in before & after:
        assert not any(f"job {job_id} of" in line for line in repaired.lost)


def ids_of(store: Store) -> list[int]:
    with store.view() as view:
        return [row[2] for row in view.due("q", 1 << 40, 1_000)]


@pytest.mark.parametrize("seed", range(25))
def test_any_damage_is_mended(directory: Directory, seed: int) -> None:
    """Of log, index and checkpoint, whatever; what the damage did not touch is as it was."""
    rng = random.Random(seed)
    store = opened(directory)
    run_history(store, seed, 150)
    if rng.random() < 0.5:
        upkeep_of(directory, store).run()
    run_history(store, seed + 100, 150)
    store.close()
    files = [one for one in directory.path.rglob("*") if one.suffix in {".log", ".checkpoint"}]
    for _ in range(rng.randrange(1, 4)):
        path = rng.choice(files)
        data = bytearray(path.read_bytes())
        match rng.randrange(3):
            case 0:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            case 1:
                del data[rng.randrange(len(data)) :]
            case 2:
                at = rng.randrange(len(data))
                data[at : at + 512] = bytes(len(data[at : at + 512]))
        path.write_bytes(data)
    if rng.random() < 0.5:
        forget_boot(directory.path)
    repair(directory, NOW_MS)
    assert check(directory).faults == ()
    store = opened(directory)
    check_tables(dump_store(store))
    do(store, put(b"after"))
    store.close()
    forget_boot(directory.path)
    use(directory, lambda store: check_tables(dump_store(store)))
    assert check(directory).faults == ()


# ---------------------------------------------------------------- the index and the checkpoint


def damage_rows(directory: Directory, change: Callable[..., object]) -> None:
    store = opened(directory)
    environment = environment_of(store)
    with environment.begin(write=True) as txn:
        change(txn, environment.tables)
    store.close()


def test_a_row_that_the_log_does_not_make_is_named(directory: Directory) -> None:
    use(directory, fill)
    use(directory, lambda store: do(store, register()))
    job, key = encode_u64(1), b"\1qkey 0"
    changes: dict[str, Callable[..., object]] = {
        "job 1 is missing": lambda txn, t: txn.delete(job, db=t["jobs"]),
        "job 1 is not what": lambda txn, t: txn.put(job, b"rubbish", db=t["jobs"]),
        "job 99 is too many": lambda txn, t: txn.put(encode_u64(99), b"x", db=t["jobs"]),
        "key 'key 0' in queue q is missing": lambda txn, t: txn.delete(key, db=t["keys"]),
        "counters of queue q": lambda txn, t: txn.put(b"\1q", bytes(64), db=t["counts"]),
        "owner 1 is missing": lambda txn, t: txn.delete(encode_u64(1), db=t["owners"]),
        "lease of job 7": lambda txn, t: txn.put(
            encode_u64(1) + encode_u64(7), b"", db=t["leases"]
        ),
    }
    for text, change in changes.items():
        damage_rows(directory, change)
        findings = check(directory)
        assert [fault.kind for fault in findings.faults] == ["index"] * len(findings.faults)
        assert any(text in fault.text for fault in findings.faults), (text, findings.faults)
        assert repair(directory, NOW_MS).lost == ()
        assert check(directory).faults == ()


def test_a_damaged_checkpoint_is_named_and_made_again(directory: Directory) -> None:
    store = opened(directory)
    fill(store)
    upkeep_of(directory, store).run()
    fill_more(store)
    expected = waiting_args(store)
    store.close()
    for offset in (0, 40, 4090, 5000, -1):
        (path,) = directory.log_path(directory.read_state().log).glob("*.checkpoint")
        flip(path, offset)
        assert ("checkpoint", path.name) == only(check(directory))[:2]
        expected += [b"after", b"more"]
        mended(directory)
        store = opened(directory)
        assert waiting_args(store) == expected
        store.close()


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_page_is_found_or_does_no_harm(directory: Directory, seed: int) -> None:
    use(directory, fill)
    expected: list[list[bytes]] = []
    use(directory, lambda store: expected.append(waiting_args(store)))
    rng = random.Random(seed)
    path = directory.index_path(directory.read_state().index) / "data.mdb"
    data = bytearray(path.read_bytes())
    for _ in range(30):
        at = rng.randrange(8192, len(data))  # the first two pages say which of them is in force
        data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    if check(directory).faults:
        assert repair(directory, NOW_MS).lost == ()
    assert check(directory).faults == ()
    use(directory, lambda store: _same(waiting_args(store), expected[0]))


# ---------------------------------------------------------------- kills


@pytest.mark.parametrize("index_is_good", [True, False])
def test_a_repair_killed_at_any_point_can_be_done_again(
    directory: Directory, *, index_is_good: bool
) -> None:
    use(directory, fill)
    flip(segments(directory)[1], SEGMENT_HEAD_SIZE + HEAD_SIZE + 5)
    if not index_is_good:
        forget_boot(directory.path)

    def work(disk: Disk) -> None:
        repair(made(directory.path, disk=disk), NOW_MS)

    at = 0
    while killed_at(at, work):
        at += 1
    assert at > 10
    repair(directory, NOW_MS)
    assert check(directory).faults == ()
    counts: list[int] = []
    use(directory, lambda store: counts.append(len(waiting_args(store))))
    assert counts == [48 if index_is_good else 47]


# ---------------------------------------------------------------- the state


@pytest.mark.parametrize("data", [None, b"", b"{", b'{"index": 1}'])
def test_a_lost_state_is_named_and_made_again(directory: Directory, data: bytes | None) -> None:
    use(directory, fill)
    path = directory.path / "state.json"
    path.unlink() if data is None else path.write_bytes(data)
    with pytest.raises(NotAStore, match="bide check --repair"):
        directory.open_parts()
    findings = check(directory)
    assert only(findings) == ("state", "state.json", None)
    assert findings.record_count == 72
    assert not findings.needs_recovery
    mended(directory, lost=True)


def test_a_follower_whose_state_was_lost_does_not_lead(directory: Directory) -> None:
    use(directory, fill)
    target = directory.path.with_name("follower")
    follower = Follower(directory.path, target)
    while step(follower).size:
        pass
    follower.close()
    (target / "state.json").unlink()
    repair(Directory(target, directory.identity, directory.disk), NOW_MS)
    with pytest.raises(StoreReadOnly, match="bide promote"):
        made(target).open_parts()


def test_which_of_two_logs_was_in_force_is_not_guessed(directory: Directory) -> None:
    use(directory, fill)
    store = opened(directory)
    data = backup_of(directory, store)
    store.close()
    state = directory.read_state()
    shutil.copytree(directory.log_path(state.log), directory.log_path(state.log + 1))
    (directory.path / "state.json").unlink()
    with pytest.raises(NotAStore, match="restore a backup"):
        repair(directory, NOW_MS)
    restored(data, directory.path)
    assert check(directory).faults == ()
