"""The name of the host's processor."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def processor_name() -> str:
    """Return the first model name; `unknown` if the kernel does not report it, as on ARM."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "unknown"
