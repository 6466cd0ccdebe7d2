"""Errors, processes, caches, atomic files and quantities."""

import os


def add_sbin() -> None:
    """Find root's programs, too: on Debian the PATH of an ordinary user lacks their folders."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys([*folders, "/usr/sbin", "/sbin"]))
