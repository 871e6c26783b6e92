"""A URL to a backend: the only chooser of one."""

from __future__ import annotations

from pathlib import Path
from typing import cast, get_args
from urllib.parse import parse_qsl, unquote, urlsplit

from bide.backends.local import open_local
from bide.backends.memory import open_memory
from bide.backends.port import Backend, Sync
from bide.clock import Clock
from bide.errors import InvalidUrl

_FORMS = "use file:///path/to/directory, file:relative/directory or memory:"


def connect(
    url: str,
    clock: Clock,
    *,
    sync: Sync | None = None,
    create: bool = True,
    read_only: bool = False,
) -> Backend:
    """The backend that *url* names.

    Args:
        url: ``file:///absolute/directory``, ``file:relative/directory``
            (seen from the working directory), either with ``?sync=always``,
            ``interval`` or ``never``; or ``memory:``, a new store that goes
            with this process.
        sync: As in the URL, which it overrides.
        read_only: Change nothing, to look on while others work.
        create: Make a store where there is none; False: `NotAStore` then.

    Raises:
        InvalidUrl: It names no backend.
        StoreError: The store can't be opened.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:  # a bracket that is not closed, say
        raise InvalidUrl(f"{url!r} names no store ({error}): {_FORMS}") from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    mode = options.pop("sync", "always")
    if mode not in get_args(Sync):
        raise InvalidUrl(f"{url}: sync={mode} is not one of {', '.join(get_args(Sync))}")
    mode = sync or mode
    if options or parts.fragment:
        raise InvalidUrl(f"{url}: unknown option {', '.join(options) or parts.fragment!r}")
    path = unquote(parts.path)
    match parts.scheme:
        case "memory" if not parts.netloc and not parts.path:
            return open_memory(clock)
        case "file" if path and "\0" not in path and parts.netloc in {"", "localhost"}:
            return open_local(
                Path(path), clock, sync=cast("Sync", mode), create=create, read_only=read_only
            )
        case _:
            raise InvalidUrl(f"{url!r} names no store: {_FORMS}")


def directory_of(url: str) -> Path:
    """The directory of the store that *url*, or a plain path, names.

    Raises:
        InvalidUrl: It names no directory.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidUrl(f"{url!r} names no store ({error}): {_FORMS}") from None
    if parts.scheme == "file" and parts.path and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path)).absolute()
    if url and not parts.scheme:
        return Path(url).absolute()
    raise InvalidUrl(f"{url!r} names no directory: {_FORMS.removesuffix(' or memory:')}")
