"""`bide.storage.tables`: tables in memory answer as a plain dict would, and as LMDB does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from bide.storage.environment import LmdbTables
from bide.storage.tables import TABLE_NAMES, Environment, MemoryTables, TableName, Transaction
from tests.unit.storage.histories import Dump, dump

KEYS = [bytes([first, second]) for first in range(5) for second in (0, 1, 127, 255)]


@pytest.fixture(params=["memory", "lmdb"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Environment]:
    tables = MemoryTables() if request.param == "memory" else LmdbTables(tmp_path)
    yield tables
    tables.close()


class Interrupted(Exception):
    """Ends a transaction."""


class DictTables:
    """What the tables should hold, said as plainly as can be."""

    def __init__(self) -> None:
        self.rows: Dump = {name: {} for name in TABLE_NAMES}

    def answer(self, step: tuple[str, TableName, bytes, bytes]) -> object:
        kind, name, key, value = step
        rows = self.rows[name]
        if kind == "get":
            return rows.get(key)
        if kind == "delete":
            return rows.pop(key, None) is not None
        if kind == "walk":
            return [(at, rows[at]) for at in sorted(rows) if at >= key]
        if kind == "append" and rows and key <= max(rows):
            return False
        rows[key] = value
        return True


def answer(
    txn: Transaction, environment: Environment, step: tuple[str, TableName, bytes, bytes]
) -> object:
    kind, name, key, value = step
    table = environment.tables[name]
    match kind:
        case "get":
            return txn.get(key, db=table)
        case "put":
            return txn.put(key, value, db=table)
        case "append":
            return txn.put(key, value, append=True, db=table)
        case "delete":
            return txn.delete(key, db=table)
    found = (cursor := txn.cursor(db=table)).set_range(key)
    rows = []
    while found:
        rows.append((cursor.key(), cursor.value()))
        found = cursor.next()
    return rows


def random_step(dice: random.Random) -> tuple[str, TableName, bytes, bytes]:
    kind = dice.choice(["get", "put", "put", "put", "append", "delete", "delete", "walk"])
    name = dice.choice(TABLE_NAMES[:3])
    return kind, name, dice.choice(KEYS), dice.randbytes(dice.randrange(4))


@pytest.mark.parametrize("seed", range(5))
def test_every_answer_is_that_of_a_dict(environment: Environment, seed: int) -> None:
    dice = random.Random(seed)
    model = DictTables()
    for _ in range(40):
        before = {name: dict(rows) for name, rows in model.rows.items()}
        aborts = dice.random() < 0.4
        try:
            with environment.begin(write=True) as txn:
                for _ in range(dice.randrange(15)):
                    step = random_step(dice)
                    assert answer(txn, environment, step) == model.answer(step), step
                if aborts:
                    raise Interrupted
        except Interrupted:
            model.rows = before
        assert dump(environment) == model.rows


@pytest.mark.parametrize("error", [Interrupted, KeyboardInterrupt])
def test_an_abort_undoes_every_kind_of_change(
    environment: Environment, error: type[BaseException]
) -> None:
    jobs = environment.tables["jobs"]
    with environment.begin(write=True) as txn:
        for key in (b"a", b"b", b"c"):
            txn.put(key, b"old", db=jobs)
    before = dump(environment)

    def change() -> None:
        with environment.begin(write=True) as txn:
            txn.put(b"a", b"new", db=jobs)
            txn.put(b"a", b"newer", db=jobs)
            txn.delete(b"b", db=jobs)
            txn.put(b"b", b"again", db=jobs)
            txn.delete(b"b", db=jobs)
            txn.put(b"z", b"added", append=True, db=jobs)
            txn.delete(b"c", db=jobs)
            raise error

    with pytest.raises(error):
        change()
    assert dump(environment) == before


def test_tables_are_apart(environment: Environment) -> None:
    with environment.begin(write=True) as txn:
        for name in TABLE_NAMES:
            txn.put(b"key", name.encode(), db=environment.tables[name])
    assert dump(environment) == {name: {b"key": name.encode()} for name in TABLE_NAMES}


def test_empty_values_are_rows(environment: Environment) -> None:
    due = environment.tables["due"]
    with environment.begin(write=True) as txn:
        txn.put(b"key", b"", db=due)
        assert txn.get(b"key", db=due) == b""
        assert txn.delete(b"key", db=due)
        assert txn.get(b"key", db=due) is None


def test_a_row_outlives_the_transaction_that_read_it(environment: Environment) -> None:
    jobs = environment.tables["jobs"]
    with environment.begin(write=True) as txn:
        txn.put(b"key", b"value", db=jobs)
    with environment.begin(write=False) as txn:
        value = txn.get(b"key", db=jobs)
        cursor = txn.cursor(db=jobs)
        assert cursor.set_range(b"k")
        row = cursor.key(), cursor.value()
    with environment.begin(write=True) as txn:
        txn.put(b"key", b"other", db=jobs)
    assert value == b"value"
    assert row == (b"key", b"value")
