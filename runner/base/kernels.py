"""The kernels that are known by name: what may be declared as one, and where machines take it from."""

from __future__ import annotations

from difflib import get_close_matches

#: Each is that of a suite of Debian.
SUITES = {"debian-12": "bookworm", "debian-13": "trixie"}


def is_path(kernel: str) -> bool:
    """Whether it can only be meant as the path of an image."""
    return "/" in kernel or kernel.startswith(".")


def misnamed(kernel: str) -> str:
    """Why it is neither a known name nor a path; empty if it is one of them."""
    if kernel in SUITES or is_path(kernel):
        return ""
    near = sorted(get_close_matches(kernel.lower(), SUITES))
    meant = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(SUITES)}."
    return f"no such kernel; {meant} The path of a bzImage has a slash, like ./{kernel}"
