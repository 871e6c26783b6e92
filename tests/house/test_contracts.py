"""Each import contract of pyproject.toml can trip, and none has tripped.

A contract that names a module wrongly, or lists too little, passes for ever. So each is shown a
copy of the package with one deliberate violation in it, and has to report that one.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "pyproject.toml"

FLOORS = "Floors: each imports only from floors below it"
SIBLINGS = "No cycles between siblings"
PURE = "Pure floors: no I/O, no clock, no threads, no randomness"
SEAM = "Upper floors see the seam, never a backend"
BACKENDS = "Backends do not know one another"
CONTRACTS = frozenset({FLOORS, SIBLINGS, PURE, SEAM, BACKENDS})

VERDICT = re.compile(r"^(?P<name>.+?) (?P<verdict>KEPT|BROKEN)\b")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the linter said of one copy of the package."""

    kept: frozenset[str]
    broken: frozenset[str]
    text: str


def lint(tree: Path) -> Verdict:
    """Run import-linter over the copy of the package in *tree*."""
    command = "from importlinter.cli import lint_imports_command as run; run()"
    done = subprocess.run(
        [sys.executable, "-c", command, "--no-cache", "--no-logo"],
        cwd=tree,
        # The copy comes first on the path, so it is what the linter reads. A line is a contract's
        # name and verdict only while neither width nor colour is in the way.
        env={**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "1000", "NO_COLOR": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    text = done.stdout + done.stderr
    found = [match for line in done.stdout.splitlines() if (match := VERDICT.match(line.strip()))]
    kept = frozenset(match["name"] for match in found if match["verdict"] == "KEPT")
    broken = frozenset(match["name"] for match in found if match["verdict"] == "BROKEN")
    assert kept | broken == CONTRACTS, f"not every contract was judged:\n{text}"
    assert done.returncode == (1 if broken else 0), text
    return Verdict(kept, broken, text)


def plant(tree: Path, modules: Mapping[str, str]) -> None:
    """Add to each module, named by its dotted path, a line of source; make it if there is none."""
    for name, line in modules.items():
        stem = tree.joinpath(*name.split("."))
        path = stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")
        with path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with a copy of the package and of the linter's configuration."""
    shutil.copytree(
        ROOT / "src" / "bide", tmp_path / "bide", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(CONFIG, tmp_path / "pyproject.toml")
    return tmp_path


def test_the_contracts_here_are_those_of_the_project() -> None:
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    declared = [contract["name"] for contract in config["tool"]["importlinter"]["contracts"]]
    assert sorted(declared) == sorted(CONTRACTS)


def test_the_package_keeps_every_contract(tree: Path) -> None:
    verdict = lint(tree)
    assert verdict.kept == CONTRACTS, verdict.text


# Each violation is chosen so that it offends one contract and no other.
@pytest.mark.parametrize(
    "contract,modules",
    [
        (FLOORS, {"bide.testing.planted": "import bide.worker"}),
        (
            SIBLINGS,
            {
                "bide.model.planted_a": "import bide.model.planted_b",
                "bide.model.planted_b": "import bide.model.planted_a",
            },
        ),
        (PURE, {"bide.model.planted": "import threading"}),
        (SEAM, {"bide.jobs.planted": "import bide.backends.memory"}),
        (BACKENDS, {"bide.backends.memory": "import bide.backends.local"}),
    ],
    ids=["floors", "siblings", "pure", "seam", "backends"],
)
def test_a_violation_breaks_its_contract(
    tree: Path, contract: str, modules: dict[str, str]
) -> None:
    plant(tree, modules)
    verdict = lint(tree)
    assert verdict.broken == {contract}, verdict.text


# The other half of each contract with more than one module to watch.
@pytest.mark.parametrize(
    "contract,module,line",
    [
        (FLOORS, "bide.errors", "import bide.cli.main"),
        (FLOORS, "bide.format.planted", "import bide.storage"),
        (FLOORS, "bide.jobs.planted", "import bide.connect"),
        (PURE, "bide.format.planted", "from time import time"),
        (PURE, "bide.model.planted", "import bide.clock"),
        (SEAM, "bide.worker.planted", "import bide.backends.local"),
        (BACKENDS, "bide.backends.local", "import bide.backends.memory"),
    ],
)
def test_more_violations_of_the_contract(tree: Path, contract: str, module: str, line: str) -> None:
    plant(tree, {module: line})
    verdict = lint(tree)
    # An import upwards usually closes a cycle as well, so others may be broken too.
    assert contract in verdict.broken, verdict.text


def test_a_module_that_fits_no_floor_is_refused(tree: Path) -> None:
    plant(tree, {"bide.planted": "import bide.errors"})
    verdict = lint(tree)
    assert verdict.broken == {FLOORS}, verdict.text
    assert "bide.planted" in verdict.text
