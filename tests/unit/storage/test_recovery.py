"""`bide.storage.recovery`: the index made from the log is the index that was."""

from __future__ import annotations

from pathlib import Path

import pytest

from bide.errors import CorruptRecord
from bide.format.commit import encode_commit, encode_rows
from bide.model.facts import JobsPut
from bide.model.job import Job, JobId
from bide.storage import recovery
from bide.storage.environment import LmdbTables
from bide.storage.log import MemoryLog
from bide.storage.log_files import START, Position
from bide.storage.recovery import rebuild
from bide.storage.tables import MemoryTables
from tests.unit.storage.histories import (
    Dump,
    check_tables,
    disk_store,
    do,
    dump,
    dump_store,
    open_segments,
    put,
    run_history,
)


def rebuilt(path: Path, until: Position | None = None) -> Dump:
    tables = MemoryTables()
    rebuild(open_segments(path / "log"), tables, until)
    return dump(tables)


@pytest.mark.parametrize("seed", range(4))
def test_the_rebuilt_index_equals_the_index(tmp_path: Path, seed: int) -> None:
    store = disk_store(tmp_path, segment_size=4096 << seed)
    history = run_history(store, seed)
    expected = dump_store(store)
    store.close()
    kinds = ["Put", "Register", "Reserve", "Settle", "Cancel", "Move", "Kick", "Expire"]
    kinds += ["Pause", "Purge", "MakeChannels", "DropChannel", "Decide"]
    outcomes = ["Completed", "Retried", "Snoozed", "Returned", "Exhausted", "Dropped"]
    assert set(history.kinds) == {*kinds, *outcomes}  # else the history is too tame
    check_tables(expected)
    assert rebuilt(tmp_path) == expected
    assert seed > 1 or len(list((tmp_path / "log").iterdir())) > 1


def test_the_index_at_every_record_is_rebuilt(tmp_path: Path) -> None:
    store = disk_store(tmp_path)
    moments: dict[Position, Dump] = {}
    for seed in range(30):
        run_history(store, seed, 2)
        with store.view() as view:
            position = view.position()
        moments[position] = dump_store(store)
    store.close()
    assert len(moments) > 20
    for position, expected in moments.items():
        assert rebuilt(tmp_path, position) == expected


@pytest.mark.parametrize("per_transaction", [1, 2, 3, 7])
def test_the_log_is_applied_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_transaction: int
) -> None:
    store = disk_store(tmp_path)
    run_history(store, 7, 40)
    expected = dump_store(store)
    store.close()
    monkeypatch.setattr(recovery, "RECORDS_PER_TRANSACTION", per_transaction)
    assert rebuilt(tmp_path) == expected


def test_rebuilding_in_lmdb_gives_the_same_bytes(tmp_path: Path) -> None:
    store = disk_store(tmp_path)
    run_history(store, 3, 60)
    expected = dump_store(store)
    store.close()
    (tmp_path / "again").mkdir()
    tables = LmdbTables(tmp_path / "again")
    rebuild(open_segments(tmp_path / "log"), tables)
    assert dump(tables) == expected
    tables.close()


def test_a_torn_tail_is_where_it_stops(tmp_path: Path) -> None:
    store = disk_store(tmp_path, segment_size=1 << 20)
    do(store, put(b"whole"))
    with store.view() as view:
        whole = view.position()
    expected = dump_store(store)
    do(store, put(b"torn"))
    with store.view() as view:
        end = view.position().end
    store.close()
    [path] = (tmp_path / "log").iterdir()
    data = path.read_bytes()
    for cut in range(whole.end, end):
        for tail in (b"", bytes(len(data) - cut)):
            torn = data[:cut] + tail
            if torn == data:
                continue  # the record itself ends with zeros: nothing is missing
            path.write_bytes(torn)
            tables = MemoryTables()
            assert rebuild(open_segments(tmp_path / "log"), tables) == whole
            assert dump(tables) == expected


def test_a_store_goes_on_behind_a_torn_tail(tmp_path: Path) -> None:
    store = disk_store(tmp_path, segment_size=1 << 20)
    do(store, put(b"whole"))
    with store.view() as view:
        whole = view.position()
    do(store, put(b"torn" * 50))
    store.close()
    [path] = (tmp_path / "log").iterdir()
    data = bytearray(path.read_bytes())
    data[whole.end : whole.end + 64] = bytes(64)  # the power cut took a page, and not the next
    path.write_bytes(data)
    tables = MemoryTables()
    log = open_segments(tmp_path / "log", segment_size=1 << 20)
    assert rebuild(log, tables) == whole
    end = log.append(encode_commit([]), whole, 0)
    assert [record.body for record, _ in log.read(end)][-1] == encode_commit([])
    assert rebuild(log, MemoryTables()) == end  # nothing of the old tail is in the way


def test_an_empty_log_makes_empty_tables(tmp_path: Path) -> None:
    tables = MemoryTables()
    assert rebuild(MemoryLog(), tables) == START
    assert rebuild(open_segments(tmp_path), tables) == START
    assert not any(dump(tables).values())


def test_damage_is_named_with_file_and_offset(tmp_path: Path) -> None:
    store = disk_store(tmp_path)
    run_history(store, 5)
    store.close()
    path = sorted((tmp_path / "log").iterdir())[1]
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecord) as caught:
        rebuilt(tmp_path)
    assert caught.value.path == str(path)
    assert caught.value.offset == int(path.stem) + 48
    assert str(path) in str(caught.value)


def some_job() -> Job:
    return Job(
        id=JobId(1),
        queue="q",
        task="task",
        args=b"",
        due_ms=0,
        priority=0,
        key=None,
        attempt=0,
        max_retries=0,
        timeout_ms=0,
        put_ms=0,
    )


def body_with_a_damaged_row() -> bytes:
    fact = JobsPut((some_job(),))
    [row] = encode_rows(fact)
    return encode_commit([(fact, (row[:-1] + bytes([row[-1] ^ 1]),))])


@pytest.mark.parametrize(
    "body",
    [b"", b"no MessagePack", b"\x91\x01", body_with_a_damaged_row()],
    ids=["empty", "rubbish", "no facts", "row"],
)
def test_a_whole_record_without_facts_is_named_too(tmp_path: Path, body: bytes) -> None:
    log = open_segments(tmp_path)
    first = log.append(encode_commit([]), START, 0)
    log.append(body, first, 0)
    [path] = tmp_path.iterdir()
    with pytest.raises(CorruptRecord) as caught:
        rebuild(log, MemoryTables())
    assert caught.value.offset == first.end
    assert caught.value.path == str(path)
