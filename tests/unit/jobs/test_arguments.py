"""A task's arguments: every kind of parameter there and back, and what is refused."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pytest

from bide import Context
from bide.errors import BodyTooLarge, InvalidArguments
from bide.jobs.arguments import Arguments
from bide.model.job import Job, JobId, Lease, OwnerId
from bide.model.limits import BODY_SIZE_MAX

if TYPE_CHECKING:
    from collections import OrderedDict

JOB = Job(
    id=JobId(1),
    queue="q",
    task="t",
    args=b"",
    due_ms=0,
    priority=0,
    key=None,
    attempt=0,
    max_retries=0,
    timeout_ms=0,
    put_ms=0,
)
CONTEXT = Context(Lease(OwnerId(1), JOB, 1), lambda: False, lambda: False)


class Colour(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclass
class Place:
    name: str


class Names(TypedDict):
    first: str


def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call *function* by way of bytes, as a worker does."""
    arguments = Arguments(function, "shop.task")
    args_again, kwargs_again = arguments.decode(arguments.encode(args, kwargs), CONTEXT)
    return function(*args_again, **kwargs_again)


# ---------------------------------------------------------------- every kind of parameter


def plain(a: int, b: str = "x") -> Any:
    return a, b


def positional(a: int, b: int = 2, /, c: int = 3) -> Any:
    return a, b, c


def keyword(a: int, *, b: int, c: int = 3) -> Any:
    return a, b, c


def late(a: int = 1, *, b: int) -> Any:
    return a, b


def many(a: int, *rest: int) -> Any:
    return a, rest


def named(a: int = 1, **others: int) -> Any:
    return a, others


def everything(a: int, /, b: int = 2, *rest: int, c: int, d: int = 4, **others: int) -> Any:
    return a, b, rest, c, d, others


def bare(a, b=None):  # type: ignore[no-untyped-def]
    return a, b


def nothing() -> Any:
    return "ran"


@pytest.mark.parametrize(
    "function, args, kwargs",
    [
        (plain, (1,), {}),
        (plain, (1, "y"), {}),
        (plain, (1,), {"b": "y"}),
        (plain, (), {"b": "y", "a": 1}),
        (positional, (1,), {}),
        (positional, (1, 5), {"c": 6}),
        (positional, (1, 5, 6), {}),
        (keyword, (1,), {"b": 5}),
        (keyword, (), {"c": 6, "b": 5, "a": 4}),
        (late, (), {"b": 5}),
        (late, (7,), {"b": 5}),
        (many, (1,), {}),
        (many, (1, 2, 3), {}),
        (many, (), {"a": 1}),
        (named, (), {}),
        (named, (), {"z": 1, "y": 2}),
        (named, (5,), {"b": 1}),
        (everything, (1,), {"c": 3}),
        (everything, (1, 5, 6, 7), {"c": 3, "d": 9, "e": 10, "f": 11}),
        (everything, (1,), {"c": 3, "a": 12}),  # a name of **others that a / parameter has too
        (bare, ([1, "a", None, 1.5, b"b", {"k": [True]}],), {}),
        (nothing, (), {}),
    ],
)
def test_a_call_comes_out_as_it_went_in(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    assert run(function, *args, **kwargs) == function(*args, **kwargs)


def test_types_come_out_as_they_went_in() -> None:
    def typed(  # noqa: PLR0917  one of each type
        at: datetime,
        day: date,
        wait: timedelta,
        price: Decimal,
        name: UUID,
        colour: Colour,
        point: Point,
        place: Place,
        names: Names,
        numbers: set[int],
        pair: tuple[int, str],
        word: Literal["a", "b"],
        few: Annotated[int, msgspec.Meta(le=3)],
        maybe: int | None = None,
    ) -> Any:
        return at, day, wait, price, name, colour, point, place, names, numbers, pair, word, few

    values = (
        datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC),
        date(2026, 1, 2),
        timedelta(days=1, microseconds=1),
        Decimal("1.10"),
        UUID(int=5),
        Colour.RED,
        Point(1, 2),
        Place("here"),
        Names(first="Ada"),
        {1, 2},
        (1, "x"),
        "b",
        3,
    )
    assert run(typed, *values) == values


def test_defaults_are_not_stored() -> None:
    def old(a: int, b: int = 2, *, c: int = 3) -> Any:
        return a, b, c

    def new(a: int, b: int = 20, *, c: int = 30, d: int = 40) -> Any:
        return a, b, c, d

    data = Arguments(old, "t").encode((1,), {})
    assert msgspec.msgpack.decode(data) == {"a": 1}
    args, kwargs = Arguments(new, "t").decode(data, CONTEXT)
    assert new(*args, **kwargs) == (1, 20, 30, 40)


def test_stored_arguments_are_bound_by_name() -> None:
    def old(a: int, b: int = 2) -> Any:
        return a, b

    def new(b: int, a: int) -> Any:
        return a, b

    args, kwargs = Arguments(new, "t").decode(Arguments(old, "t").encode((1, 5), {}), CONTEXT)
    assert new(*args, **kwargs) == (1, 5)


# ---------------------------------------------------------------- what is refused when put


@pytest.mark.parametrize(
    "args, kwargs",
    [
        ((), {}),
        ((1, "x", 3), {}),
        ((1,), {"c": 1}),
        ((1,), {"a": 1}),
        (("1",), {}),
        ((True,), {}),
        ((1.0,), {}),
        ((1.5,), {}),
        ((None,), {}),
        ((1, None), {}),
        ((1, b"x"), {}),
    ],
)
def test_a_call_that_does_not_fit_is_refused(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(InvalidArguments) as caught:
        Arguments(plain, "shop.task").encode(args, kwargs)
    assert caught.value.task == "shop.task"
    assert "shop.task(a: 'int', b: 'str' = 'x')" in str(caught.value), "the signature is shown"


@pytest.mark.parametrize(
    "value",
    [object(), lambda: None, 1 << 64, -(1 << 63) - 1, "\ud800", 1j, {1: object()}, [print]],
)
def test_what_cannot_be_stored_is_refused(value: object) -> None:
    with pytest.raises(InvalidArguments, match="cannot be stored"):
        Arguments(bare, "shop.task").encode((value,), {})


def test_what_has_no_end_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidArguments):
        Arguments(bare, "shop.task").encode((endless,), {})


@pytest.mark.parametrize(
    "function, args",
    [(many, (1, 2, "3")), (many, ("1",)), (positional, (1, "2"))],
)
def test_each_argument_is_checked(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidArguments, match="Expected `int"):
        Arguments(function, "t").encode(args, {})


def test_bodies_up_to_the_limit_exactly() -> None:
    def take(body: bytes) -> Any:
        return body

    arguments = Arguments(take, "shop.take")
    overhead = len(arguments.encode((bytes(70_000),), {})) - 70_000
    assert len(arguments.encode((bytes(BODY_SIZE_MAX - overhead),), {})) == BODY_SIZE_MAX
    with pytest.raises(BodyTooLarge, match=r"shop\.take"):
        arguments.encode((bytes(BODY_SIZE_MAX - overhead + 1),), {})


# ---------------------------------------------------------------- what is refused when run


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"junk",
        msgspec.msgpack.encode([1]),
        msgspec.msgpack.encode({}),
        msgspec.msgpack.encode({"a": "1"}),
        msgspec.msgpack.encode({"a": None}),
    ],
)
def test_stored_bytes_that_do_not_fit_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidArguments, match="stored arguments"):
        Arguments(plain, "t").decode(data, CONTEXT)


# ---------------------------------------------------------------- what is refused when registered


def test_a_type_that_is_not_there_is_refused() -> None:
    def task(a: OrderedDict[str, int]) -> None: ...

    with pytest.raises(InvalidArguments, match="define the types before the task"):
        Arguments(task, "t")


def test_a_type_defined_later_is_refused_with_its_name() -> None:
    def task(a: Later) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(InvalidArguments, match="Later"):
        Arguments(task, "t")


def test_a_forward_reference_to_what_is_there_is_followed() -> None:
    def task(a: Point, b: list[Point] | None = None) -> Any:
        return a, b

    assert run(task, Point(1), [Point(2, 3)]) == (Point(1), [Point(2, 3)])


def test_a_union_that_cannot_be_told_apart_is_refused() -> None:
    def task(a: list[int] | set[int]) -> None: ...

    with pytest.raises(InvalidArguments, match="can't be stored"):
        Arguments(task, "t")


# ---------------------------------------------------------------- Context, anywhere


def context_first(ctx: Context, a: int) -> Any:
    return ctx, a


def context_last(a: int, b: int = 2, ctx: Context = CONTEXT) -> Any:
    return ctx, a, b


def context_between(a: int, ctx: Context, b: int) -> Any:
    return ctx, a, b


def context_keyword(a: int = 1, *, ctx: Context, b: int = 2) -> Any:
    return ctx, a, b


def context_alone(where: Context) -> Any:
    return (where,)


def context_positional(ctx: Context, /, a: int) -> Any:
    return ctx, a


def context_behind_positional(a: int, ctx: Context, /, b: int = 2) -> Any:
    return ctx, a, b


def context_behind_defaults(a: int = 1, ctx: Context = CONTEXT, /, *items: int) -> Any:
    return ctx, a, items


def context_before_many(ctx: Context, *items: int) -> Any:
    return ctx, items


def context_behind_many(a: int, *items: int, ctx: Context) -> Any:
    return ctx, a, items


def context_with_all(a: int, /, b: int, ctx: Context, *items: int, c: int, **others: int) -> Any:
    return ctx, a, b, items, c, others


@pytest.mark.parametrize(
    "function, args, kwargs, expected",
    [
        (context_first, (1,), {}, (1,)),
        (context_first, (), {"a": 1}, (1,)),
        (context_last, (1,), {}, (1, 2)),
        (context_last, (1, 5), {}, (1, 5)),
        (context_between, (1, 5), {}, (1, 5)),
        (context_keyword, (), {}, (1, 2)),
        (context_keyword, (3,), {"b": 4}, (3, 4)),
        (context_alone, (), {}, ()),
        (context_positional, (1,), {}, (1,)),
        (context_behind_positional, (1, 5), {}, (1, 5)),
        (context_behind_defaults, (), {}, (1, ())),
        (context_behind_defaults, (5, 6), {}, (5, (6,))),
        (context_before_many, (), {}, ((),)),
        (context_before_many, (1, 2), {}, ((1, 2),)),
        (context_behind_many, (1,), {}, (1, ())),
        (context_behind_many, (1, 2, 3), {}, (1, (2, 3))),
        (context_with_all, (1, 2), {"c": 3}, (1, 2, (), 3, {})),
        (context_with_all, (1, 2, 7, 8), {"c": 3, "d": 4}, (1, 2, (7, 8), 3, {"d": 4})),
    ],
)
def test_context_is_given_wherever_it_stands(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    expected: tuple[Any, ...],
) -> None:
    assert run(function, *args, **kwargs) == (CONTEXT, *expected)


def test_context_is_not_the_callers_to_give() -> None:
    with pytest.raises(InvalidArguments):
        Arguments(context_first, "t").encode((1,), {"ctx": 2})


def test_context_is_no_name_for_others() -> None:
    def task(ctx: Context, **others: int) -> Any:
        return others

    with pytest.raises(InvalidArguments):
        Arguments(task, "t").encode((), {"ctx": 2})


def test_two_contexts_are_both_given() -> None:
    def task(one: Context, other: Context) -> Any:
        return one, other

    assert run(task) == (CONTEXT, CONTEXT)


def test_a_context_that_may_be_none_is_given() -> None:
    def task(a: int, ctx: Context | None = None) -> Any:
        return ctx

    assert run(task, 1) is CONTEXT


def test_many_contexts_are_refused() -> None:
    def starred(*ctx: Context) -> None: ...

    def named(**ctx: Context) -> None: ...

    for function in (starred, named):
        with pytest.raises(InvalidArguments, match="Context"):
            Arguments(function, "t")
