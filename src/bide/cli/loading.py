"""``module:attribute`` to the App that it leads to."""

from __future__ import annotations

import importlib
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType

from bide.errors import AppNotFound
from bide.jobs.app import App

_PACKAGE = str(Path(__file__).parents[1])


def load_app(name: str) -> App:
    """The App that *name*, such as ``shop:app``, leads to, from the working directory.

    Raises:
        AppNotFound: The module does not import, or there is no App under the attribute.
    """
    module_name, colon, attribute = name.partition(":")
    _check_form(name, module_name, attribute, has_colon=bool(colon))
    module = _import(module_name)
    found: object = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise AppNotFound(
                f"{name}: module {module_name!r} has no {attribute!r}; {_suggestion(module)}"
            ) from None
    if not isinstance(found, App):
        raise AppNotFound(
            f"{name} is of type {type(found).__name__}, not an App; {_suggestion(module)}"
        )
    return found


def _check_form(name: str, module: str, attribute: str, *, has_colon: bool) -> None:
    is_path = module.endswith(".py")
    if is_path or not all(part.isidentifier() for part in module.split(".")):
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        hint = f"; did you mean {dotted}:{attribute or 'app'}?" if dotted else ""
        raise AppNotFound(f"{name!r}: name the App as module:attribute, such as shop:app{hint}")
    if not has_colon or not attribute:
        raise AppNotFound(
            f"{name!r}: which App of it? Write module:attribute, such as {module}:app"
        )


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if sys.path[:1] != [here]:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  any; SystemExit is a script that ran
        missing = getattr(error, "name", None)
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{missing}."):
            raise AppNotFound(
                f"no module {missing!r} in {here}, or elsewhere on sys.path"
            ) from None
        raise AppNotFound(f"module {name!r} does not import: {_explain(error)}") from None


def _explain(error: BaseException) -> str:
    """The error, and the place in the user's code that led to it, in one line."""
    text = f"{type(error).__name__}: {error}".removesuffix(": ")
    if isinstance(error, SyntaxError):
        return text  # it says the place itself
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<frozen ", _PACKAGE))
    ]
    libraries = tuple({sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")})
    own = [frame for frame in frames if not frame.filename.startswith(libraries)] or frames
    if not own:
        return text
    last = own[-1]
    return f"{text} ({last.filename}, line {last.lineno}, in {last.name}: {last.line})"


def _suggestion(module: ModuleType) -> str:
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    if apps:
        return "there is " + ", ".join(f"{module.__name__}:{name}" for name in sorted(apps))
    return "there is no App in that module at all"
