"""Kernels that are known by name, and how a declared one is checked."""

from __future__ import annotations

from difflib import get_close_matches

#: Kernel names and their Debian suites.
SUITES = {"debian-12": "bookworm", "debian-13": "trixie"}


def is_path(kernel: str) -> bool:
    """Return whether it can only be the path of an image."""
    return "/" in kernel or kernel.startswith(".")


def kernel_error(kernel: str) -> str:
    """Return why it is neither a known name nor a path; empty if it is one."""
    if kernel in SUITES or is_path(kernel):
        return ""
    near = sorted(get_close_matches(kernel.lower(), SUITES))
    meant = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(SUITES)}."
    return f"no such kernel; {meant} The path of a bzImage has a slash, like ./{kernel}"
