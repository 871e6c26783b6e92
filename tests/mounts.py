"""Directories on small disks and on read-only ones, for a program that is run there.

A mount is made in a namespace of its own, so it goes with the program,
however that ends. This takes root on Linux; without, the test is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

_NOT_MOUNTED = 77
_GUARD_S = 60


def run_on_small_disk(path: Path, size: int, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Python with *args*; directory *path* is an empty disk of *size* bytes there."""
    return _run_mounted(f'mount -t tmpfs -o size={size} none "$0"', path, args)


def run_read_only(path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run Python with *args*; directory *path* is as it is, and can't be written to there."""
    return _run_mounted('mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"', path, args)


def _run_mounted(mount: str, path: Path, args: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    if not (sys.platform == "linux" and os.geteuid() == 0 and shutil.which("unshare")):
        pytest.skip("only root on Linux may mount")
    done = subprocess.run(
        [
            *("unshare", "--mount", "sh", "-c", f'{mount} || exit {_NOT_MOUNTED}; exec "$@"'),
            *(str(path), sys.executable, *args),
        ],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "BIDE_URL"},
        capture_output=True,
        encoding="utf-8",
        timeout=_GUARD_S,
        check=False,
    )
    if done.returncode == _NOT_MOUNTED or done.stderr.startswith("unshare:"):
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    return done
