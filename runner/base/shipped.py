"""The files that come with the program: beside the package in a checkout, inside it once it is installed."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_INSTALLED = _PACKAGE / "shipped"


def shipped(folder: str) -> Path:
    """Return the path of `templates`, `matrix`, `vagrant` or `docs`."""
    return (_INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent) / folder
