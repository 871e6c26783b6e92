"""`bide.storage.environment`: LMDB as bide opens it, and what its errors mean."""

from __future__ import annotations

from pathlib import Path

import lmdb
import pytest

from bide.errors import CorruptIndex, StoreError, StoreFailed, StoreFull, StoreReadOnly
from bide.storage import environment
from bide.storage.environment import LmdbTables, index_error
from tests.unit.storage.children import in_child
from tests.unit.storage.histories import dump

MEANINGS: list[tuple[lmdb.Error, type[StoreError]]] = [
    (lmdb.MapFullError("full"), StoreFull),
    (lmdb.DiskError("full"), StoreFull),
    (lmdb.ReadonlyError("no"), StoreReadOnly),
    (lmdb.CorruptedError("torn"), CorruptIndex),
    (lmdb.PageNotFoundError("torn"), CorruptIndex),
    (lmdb.InvalidError("rubbish"), CorruptIndex),
    (lmdb.Error("odd"), StoreFailed),
]


@pytest.mark.parametrize("error, meaning", MEANINGS, ids=lambda one: type(one).__name__)
def test_an_error_of_lmdb_says_what_it_means(error: lmdb.Error, meaning: type[StoreError]) -> None:
    mapped = index_error(error, "/a/store")
    assert type(mapped) is meaning
    assert mapped.path == "/a/store"
    assert "/a/store" in str(mapped)


def test_a_damaged_file_is_a_corrupt_index(tmp_path: Path) -> None:
    LmdbTables(tmp_path).close()
    (tmp_path / "data.mdb").write_bytes(b"?" * 8192)
    with pytest.raises(CorruptIndex, match=str(tmp_path)):
        LmdbTables(tmp_path)


def test_a_file_in_the_place_of_the_directory_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file"):
        LmdbTables(tmp_path / "file")


def test_a_full_map_aborts_and_the_tables_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "MAP_SIZE", 1 << 17)
    tables = LmdbTables(tmp_path)
    jobs = tables.tables["jobs"]
    with tables.begin(write=True) as txn:
        txn.put(b"kept", b"row", db=jobs)
    before = dump(tables)

    def fill() -> None:
        with tables.begin(write=True) as txn:
            for number in range(1_000):
                txn.put(b"%d" % number, bytes(1_000), db=jobs)

    with pytest.raises(lmdb.MapFullError):
        fill()
    assert dump(tables) == before
    with tables.begin(write=True) as txn:
        assert txn.put(b"another", b"row", db=jobs)
    tables.close()


def test_the_files_take_only_the_space_that_is_used(tmp_path: Path) -> None:
    LmdbTables(tmp_path).close()
    assert sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir()) < 1 << 20


def test_a_writer_that_was_killed_does_not_lock_out_the_next(tmp_path: Path) -> None:
    def write_and_die() -> None:
        tables = LmdbTables(tmp_path)
        with tables.begin(write=True) as txn:
            txn.put(b"committed", b"", db=tables.tables["jobs"])
        tables.begin(write=True).put(b"not committed", b"", db=tables.tables["jobs"])

    in_child(write_and_die)  # which ends it with the transaction open
    tables = LmdbTables(tmp_path)
    assert dump(tables)["jobs"] == {b"committed": b""}
    with tables.begin(write=True) as txn:
        assert txn.put(b"next", b"", db=tables.tables["jobs"])
    tables.sync()
    tables.close()


def test_one_that_could_not_be_opened_is_not_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: LmdbTables) -> None:
        raise StoreFailed("not now", path="")

    with monkeypatch.context() as patch:
        patch.setattr(LmdbTables, "forget_dead_readers", fail)
        with pytest.raises(StoreFailed, match="not now") as caught:
            LmdbTables(tmp_path)
    LmdbTables(tmp_path).close()  # while the error, and all that its frames hold, is there
    assert "not now" in str(caught.value)
