"""A task's arguments <-> bytes, checked against its signature both ways.

A struct type is made from the signature, with a field for each parameter.
Arguments are encoded from it as a MessagePack map from parameter to value,
and decoded into it by the annotations' types; encoding decodes at once, so
what is put is what can be run. Parameters that are not given are not
stored: the function's own defaults apply when it runs.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any

import msgspec

from bide.errors import InvalidArguments
from bide.format.unreadable import UNREADABLE
from bide.jobs.context import Context
from bide.model.limits import check_body

_encode = msgspec.msgpack.Encoder().encode

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_MANY = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Arguments:
    """The arguments of one task.

    Args:
        function: Its annotations are resolved now.
        task: The task's name, for errors.

    Raises:
        InvalidArguments: An annotation can't be resolved, or names a type
            that can't be stored.
    """

    def __init__(self, function: Callable[..., Any], task: str) -> None:
        self._task = task
        signature = inspect.signature(function)
        annotations = self._resolve(function)
        every = list(signature.parameters.values())
        parameters = [p for p in every if not _is_context(annotations.get(p.name))]
        contexts = [p for p in every if _is_context(annotations.get(p.name))]
        if any(p.kind in _MANY for p in contexts):
            raise self._invalid("a Context can't be * or **: there is one")
        self._context_names = {p.name for p in contexts if p.kind is not Parameter.POSITIONAL_ONLY}
        self._signature = signature.replace(parameters=parameters)
        # Required ones first, as a struct wants it; an order of positions is kept by that.
        parameters.sort(key=_is_optional)
        self._parameters = parameters
        self._fields = {p.name: f"field_{index}" for index, p in enumerate(parameters)}
        self._struct = self._make_struct(parameters, annotations)
        self._decode = msgspec.msgpack.Decoder(self._struct).decode
        positional = [p for p in parameters if p.kind in _POSITIONAL]
        required = [p for p in parameters if not _is_optional(p)]
        self._positional_min = len(required)
        self._positional_max = len(positional)
        self._is_plain = positional == parameters  # position in a call is position in the struct
        self._calls = tuple((self._fields.get(p.name), p) for p in every)

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """The bytes for a call with these arguments.

        Raises:
            InvalidArguments: They do not fit the signature.
            BodyTooLarge: They take too many bytes.
        """
        if (
            self._is_plain
            and not kwargs
            and self._positional_min <= len(args) <= self._positional_max
        ):
            values = self._struct(*args)
        else:
            values = self._struct(**self._bind(args, kwargs))
        try:
            data = _encode(values)
            self._decode(data)
        except msgspec.ValidationError as error:
            raise self._invalid(str(error)) from None
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise self._invalid(f"cannot be stored: {error}") from error
        return check_body(data, self._task)

    def decode(self, data: bytes, context: Context) -> tuple[list[Any], dict[str, Any]]:
        """The (positional, keyword) arguments of the call stored in *data*.

        Raises:
            InvalidArguments: They do not fit the signature as it is now.
        """
        try:
            values = self._decode(data)
        except UNREADABLE as error:
            raise self._invalid(f"stored arguments: {error}") from None
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        defaults: list[Any] = []  # of parameters not given, wanted if one behind them is
        for field, parameter in self._calls:
            kind = parameter.kind
            value: Any = context if field is None else getattr(values, field)
            if value is msgspec.UNSET:
                if kind in _POSITIONAL:
                    defaults.append(parameter.default)
            elif kind is Parameter.VAR_KEYWORD:
                kwargs |= value
            elif kind is Parameter.KEYWORD_ONLY:
                kwargs[parameter.name] = value
            else:
                args += defaults
                args += value if kind is Parameter.VAR_POSITIONAL else (value,)
                defaults.clear()
        return args, kwargs

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise self._invalid(str(error)) from None
        for name in self._context_names & kwargs.keys():  # one of **others, but for the worker's
            raise self._invalid(f"{name!r} is given by the worker")
        return {self._fields[name]: value for name, value in bound.arguments.items()}

    def _resolve(self, function: Callable[..., Any]) -> dict[str, Any]:
        try:
            return typing.get_type_hints(function, include_extras=True)
        except Exception as error:
            raise self._invalid(
                f"its annotations can't be resolved: {error}; define the types before the task"
            ) from error

    def _make_struct(
        self, parameters: Sequence[Parameter], annotations: Mapping[str, Any]
    ) -> type[msgspec.Struct]:
        fields: list[Any] = []
        for parameter in parameters:
            kind = annotations.get(parameter.name, Any)
            if parameter.kind is Parameter.VAR_POSITIONAL:
                kind = list[kind]  # type: ignore[valid-type]
            elif parameter.kind is Parameter.VAR_KEYWORD:
                kind = dict[str, kind]  # type: ignore[valid-type]
            field = self._fields[parameter.name]
            if _is_optional(parameter):
                fields.append((field, kind | msgspec.UnsetType, msgspec.UNSET))
            else:
                fields.append((field, kind))
        rename = {field: name for name, field in self._fields.items()}
        try:
            struct = msgspec.defstruct("Arguments", fields, rename=rename)
            msgspec.msgpack.Decoder(struct)
        except (TypeError, NameError) as error:
            raise self._invalid(f"its parameters can't be stored: {error}") from error
        return struct

    def _invalid(self, reason: str) -> InvalidArguments:
        return InvalidArguments(
            f"task {self._task!r}: {reason}; its signature is {self._task}{self._signature_text()}",
            task=self._task,
        )

    def _signature_text(self) -> str:
        return str(getattr(self, "_signature", "(...)"))


def _is_context(annotation: Any) -> bool:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return set(typing.get_args(annotation)) == {Context, types.NoneType}
    return annotation is Context


def _is_optional(parameter: Parameter) -> bool:
    return parameter.default is not Parameter.empty or parameter.kind in _MANY
