"""An environment of the peers' own, made when it is first needed."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
WANTED = ROOT / "requirements" / "peers.txt"
LOCK = ROOT / "requirements" / "peers.lock"
PLACE = ROOT / ".venv-peers"
_MADE = "made.json"
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
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


def make_environment(
    tell: Tell, *, place: Path = PLACE, wanted: Path = WANTED, lock: Path = LOCK
) -> Environment:
    """The environment, at once if it was made before for the same requirements.

    Args:
        lock: Versions of all that the peers need in their turn; need not exist.
    """
    text = wanted.read_text()
    pins = lock.read_text() if lock.exists() else ""
    mark = hashlib.sha256(f"{sys.version}\n{text}\n{pins}".encode()).hexdigest()
    made = place / _MADE
    python = place / "bin" / "python"
    if made.exists():
        known = json.loads(made.read_text())
        if known["mark"] == mark:
            return Environment(python=python, missing=known["missing"], versions=known["versions"])
    tell(f"installing the peers into {place.name} (once; some minutes)")
    requirements = read_wanted(text)
    reason = _run(Path(sys.executable), "-m", "venv", "--clear", str(place))
    if reason:
        tell(f"no peers: {reason}")
        missing = dict.fromkeys(requirements, reason)
        return Environment(python=Path(sys.executable), missing=missing, versions={})
    bounds = ("--constraint", str(lock)) if pins else ()
    missing = {}
    for name, packages in requirements.items():
        reason = _run(python, *_PIP, "install", "--quiet", *bounds, *packages)
        if reason:
            missing[name] = reason
            tell(f"{name}: not installed: {reason}")
    versions = dict(line.lower().split("==") for line in freeze(python))
    if len(missing) < len(requirements):  # else there may be no network today: try again
        made.write_text(json.dumps({"mark": mark, "missing": missing, "versions": versions}))
        if missing:
            tell("make clean forgets what could not be installed; then it is tried again")
    return Environment(python=python, missing=missing, versions=versions)


def freeze(python: Path) -> list[str]:
    """What is installed beside *python*: lines ``NAME==VERSION``."""
    done = subprocess.run(
        [str(python), *_PIP, "list", "--format", "freeze"],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def find_reason(stderr: str) -> str:
    """The line that says most of why an installation failed; "" if none does.

    pip's last words tell of the failed step alone. What a builder met stands further
    up, often as its first error; and a registry's address is nobody's business.
    """
    lines = [line.strip() for line in stderr.splitlines()]
    told = [line for line in lines if re.match(r"error: ", line, re.IGNORECASE)]
    told = [line for line in told if "subprocess-exited-with-error" not in line]
    last = [line for line in lines if "rror" in line][-1:]
    line = next(iter([*told, *last]), "")
    return re.sub(r"\w+://\S+| \(/\S+\)", "", line)[:_REASON_SIZE]


def _run(python: Path, *arguments: str) -> str:
    """Why it failed; "" if it did not."""
    try:
        done = subprocess.run(
            [str(python), *arguments],
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {_INSTALL_S:g} s"
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    return find_reason(done.stderr) or f"{arguments[1]} ended with {done.returncode}"
