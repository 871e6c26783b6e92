"""`bide.errors`: the tree, what each error carries, and that it survives a pickle."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from typing import Any

import pytest

import bide
from bide import errors
from bide.errors import BideError

KINDS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, BideError)
}

BRANCHES = {
    "UsageError": {
        "InvalidName",
        "InvalidDelay",
        "InvalidOption",
        "InvalidArguments",
        "InvalidUrl",
        "BodyTooLarge",
        "BatchTooLarge",
        "UnknownTask",
        "UnknownQueue",
        "DuplicateTask",
        "AppNotFound",
    },
    "JobError": {"JobNotFound", "KeyTaken", "LeaseLost", "WrongState"},
    "StoreError": {
        "NotAStore",
        "UnsupportedFormat",
        "StoreFull",
        "StoreReadOnly",
        "StoreFailed",
        "StoreClosed",
        "StoreLocked",
        "RecoveryNeeded",
        "CorruptRecord",
        "CorruptCheckpoint",
        "CorruptIndex",
    },
}

FIELDS: dict[str, dict[str, Any]] = {
    "InvalidName": {"name": "no spaces"},
    "InvalidArguments": {"task": "shop.remind"},
    "BodyTooLarge": {"size": 9, "size_max": 8},
    "BatchTooLarge": {"count": 9, "count_max": 8},
    "UnknownTask": {"task": "shop.remind"},
    "UnknownQueue": {"queue": "mial"},
    "DuplicateTask": {"task": "shop.remind"},
    **{name: {"job_id": 7, "key": "k"} for name in ("JobError", *BRANCHES["JobError"])},
    **{name: {"path": "/var/jobs"} for name in ("StoreError", *BRANCHES["StoreError"])},
    "CorruptRecord": {"path": "/var/jobs/log/0", "offset": 64},
}

OPTIONAL = {"job_id": None, "key": None, "path": "", "offset": 0}
"""Fields that need not be given, and what they are then."""

WITH_REQUIRED = set(FIELDS) & BRANCHES["UsageError"]

EACH_KIND = pytest.mark.parametrize("name", sorted(KINDS))


def make(name: str) -> BideError:
    return KINDS[name]("what, where, what to do", **FIELDS.get(name, {}))


def test_the_tree_is_the_documented_one() -> None:
    assert set(KINDS) == {"BideError", *BRANCHES, *set().union(*BRANCHES.values())}
    for branch, leaves in BRANCHES.items():
        assert KINDS[branch].__mro__[1] is BideError
        for leaf in leaves:
            assert KINDS[leaf].__bases__ == (KINDS[branch],)
    drawn = re.findall(r"[├└]── (\w+)", str(errors.__doc__))
    assert sorted(drawn) == sorted(set(KINDS) - {"BideError"})


def test_a_wrong_call_is_a_value_error_and_nothing_else_is() -> None:
    of_value = {name for name, kind in KINDS.items() if issubclass(kind, ValueError)}
    assert of_value == {"UsageError", *BRANCHES["UsageError"]}
    assert not any(issubclass(kind, (OSError, AssertionError)) for kind in KINDS.values())


def test_the_module_offers_its_errors_and_bide_the_root() -> None:
    offered = {name for name in vars(errors) if not name.startswith("_")} - {"annotations"}
    assert offered == set(KINDS)
    assert bide.BideError is BideError
    assert bide.errors is errors


@EACH_KIND
def test_it_says_and_carries_what_it_was_given(name: str) -> None:
    error = make(name)
    assert str(error) == "what, where, what to do"
    assert vars(error) == FIELDS.get(name, {})


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_fields_are_given_by_name_alone(name: str) -> None:
    parameters = inspect.signature(KINDS[name]).parameters.values()
    named = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert set(named) == set(FIELDS[name])
    for field, default in named.items():
        assert default == OPTIONAL.get(field, inspect.Parameter.empty)


@pytest.mark.parametrize("name", sorted(set(KINDS) - WITH_REQUIRED))
def test_it_survives_a_pickle_and_a_copy(name: str) -> None:
    check_copies(make(name))


@pytest.mark.parametrize("name", sorted(WITH_REQUIRED))
def test_one_with_required_fields_survives_a_pickle_and_a_copy(name: str) -> None:
    check_copies(make(name))


def check_copies(error: BideError) -> None:
    """As it comes out of a pool's other process, and out of `copy`."""
    error.add_note("seen by a test")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        check_same(pickle.loads(pickle.dumps(error, protocol)), error)
    check_same(copy.copy(error), error)
    check_same(copy.deepcopy(error), error)


def check_same(again: BideError, error: BideError) -> None:
    assert type(again) is type(error)
    assert again.args == error.args
    assert vars(again) == vars(error)
