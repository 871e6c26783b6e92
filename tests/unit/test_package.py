"""The package as it is imported: its names, its version, and what it does not pull in."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata, resources
from pathlib import Path

import bide

ROOT = Path(__file__).parents[2]


def printed_by(*statements: str) -> list[str]:
    """The words that a new interpreter prints for these statements."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(statements)],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_all_names_are_there_and_sorted() -> None:
    assert bide.__all__ == sorted(set(bide.__all__))
    assert all(getattr(bide, name, None) is not None for name in bide.__all__)


def test_a_star_import_brings_exactly_these() -> None:
    names = printed_by("from bide import *", "print(*[n for n in dir() if n[:2] != '__'])")
    assert sorted(names) == sorted(bide.__all__)


def test_nothing_else_looks_public() -> None:
    """What is no submodule and has no underscore is promised by `__all__`, or bound for App."""
    submodules = {name for name in vars(bide) if f"bide.{name}" in sys.modules}
    public = {name for name in vars(bide) if not name.startswith("_")} - submodules
    assert public - set(bide.__all__) == {"Sync", "annotations"}  # App's signature; the future


def test_the_import_needs_neither_the_command_line_nor_its_libraries() -> None:
    modules = set(printed_by("import sys, bide", "print(*sys.modules)"))
    assert {"bide", "lmdb", "msgspec"} <= modules
    assert not {"rich", "click", "bide.cli", "bide.worker"} & modules


def test_the_import_starts_no_thread_and_opens_no_file() -> None:
    count_files = "files = lambda: len(os.listdir('/proc/self/fd'))"
    before, after, threads = printed_by(
        "import os, threading",
        count_files if Path("/proc/self/fd").exists() else "files = int",
        "before = files()",
        "import bide",
        "print(before, files(), threading.active_count())",
    )
    assert (before, threads) == (after, "1")


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata.version("bide") == project["version"]
    (script,) = metadata.entry_points(group="console_scripts", name="bide")
    assert f"{script.value}" == project["scripts"]["bide"]
    assert callable(script.load())


def test_it_says_that_it_is_typed() -> None:
    assert (resources.files("bide") / "py.typed").is_file()
