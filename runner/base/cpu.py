"""What the host's processor calls itself."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def processor() -> str:
    """The model name of the first one; `unknown` where the kernel tells none, as on ARM."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "unknown"
