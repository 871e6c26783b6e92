"""An environment of the peers' own, made when it is first needed."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
WANTED = ROOT / "requirements" / "peers.txt"
PLACE = ROOT / ".venv-peers"
_MADE = "made.json"
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")
_INSTALL_S = 300.0
_REASON_SIZE = 200

Tell = Callable[[str], None]


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The interpreter that the peers run in."""

    python: Path
    missing: dict[str, str]
    """What could not be installed, and why."""
    versions: dict[str, str]


def read_wanted(text: str) -> dict[str, list[str]]:
    """What to install for each name: lines ``NAME: REQUIREMENT ...``."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {name.strip(): rest.split() for name, _, rest in (one.partition(":") for one in lines)}


def make_environment(tell: Tell, *, place: Path = PLACE, wanted: Path = WANTED) -> Environment:
    """The environment, at once if it was made before for the same requirements."""
    text = wanted.read_text()
    mark = hashlib.sha256(f"{sys.version}\n{text}".encode()).hexdigest()
    made = place / _MADE
    python = place / "bin" / "python"
    if made.exists():
        known = json.loads(made.read_text())
        if known["mark"] == mark:
            return Environment(python=python, missing=known["missing"], versions=known["versions"])
    tell(f"installing the peers into {place.name} (once; some minutes)")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
    missing: dict[str, str] = {}
    for name, requirements in read_wanted(text).items():
        reason = _install(python, requirements)
        if reason:
            missing[name] = reason
            tell(f"{name}: not installed: {reason}")
    versions = _list_versions(python)
    made.write_text(json.dumps({"mark": mark, "missing": missing, "versions": versions}))
    return Environment(python=python, missing=missing, versions=versions)


def _install(python: Path, requirements: list[str]) -> str:
    """Why it failed; "" if it did not."""
    try:
        done = subprocess.run(
            [str(python), *_PIP, *requirements],
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {_INSTALL_S:g} s"
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stderr.splitlines() if "rror" in line]
    return (lines[-1] if lines else f"pip ended with {done.returncode}")[:_REASON_SIZE]


def _list_versions(python: Path) -> dict[str, str]:
    done = subprocess.run(
        [str(python), "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {one["name"].lower(): one["version"] for one in json.loads(done.stdout)}
