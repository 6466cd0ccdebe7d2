"""Paths of files that come with the program: in the checkout, or inside of the installed package."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_INSTALLED = _PACKAGE / "shipped"


def shipped(folder: str) -> Path:
    """Return the path of `templates`, `matrix`, `vagrant` or `docs`."""
    return (_INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent) / folder
