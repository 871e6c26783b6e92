"""Which start of the machine this is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_BOOT_ID_COMMAND = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Names the time since the machine was started; "" where the system does not say."""
    if sys.platform == "darwin":
        said = subprocess.run(_BOOT_ID_COMMAND, capture_output=True, check=False)  # noqa: S603
        return said.stdout.decode(errors="replace").strip()
    return _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else ""
