"""The machine and the software that a run's figures hold for."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import lmdb
import msgspec

from bide.clock import SystemClock
from bide.jobs.when import datetime_of

_CPUS = Path("/proc/cpuinfo")
_MOUNTS = Path("/proc/self/mounts")
_UNKNOWN = "unknown"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a figure depends on, beside the code."""

    at: str
    """When the run began, in UTC."""
    core_count: int
    cpu: str
    kernel: str
    filesystem: str
    """Of the directory where the stores were."""
    load: tuple[float, float, float]
    """The load averages when the run began: what else the machine had to do."""
    python: str
    libraries: dict[str, str]


def describe_machine(path: Path) -> Machine:
    """This machine, its stores being in *path*."""
    return Machine(
        at=datetime_of(SystemClock().now_ms()).isoformat(timespec="seconds"),
        core_count=os.cpu_count() or 0,
        cpu=_cpu(),
        kernel=f"{platform.system()} {platform.release()}",
        filesystem=_filesystem(path),
        load=os.getloadavg(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        libraries={
            "lmdb": version("lmdb"),
            "liblmdb": ".".join(map(str, lmdb.version())),
            "msgspec": version("msgspec"),
        },
    )


def _cpu() -> str:
    if _CPUS.exists():
        for line in _CPUS.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine() or _UNKNOWN


def _filesystem(path: Path) -> str:
    """The type of the file system that *path* is on: of the longest mount point above it."""
    if not _MOUNTS.exists():
        return _UNKNOWN
    types: dict[Path, str] = {}
    for line in _MOUNTS.read_text().splitlines():
        _, mount, kind, *_ = line.split(" ")
        types[Path(mount)] = kind  # of two mounts on one point, the later hides the earlier
    return next((types[above] for above in (path, *path.parents) if above in types), _UNKNOWN)
