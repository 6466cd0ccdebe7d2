"""Flipped bytes in a file, as by a failing disk or memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def flip(path: Path, *positions: int) -> None:
    with path.open("rb+", buffering=0) as file:
        for position in positions:
            file.seek(position)
            (old,) = file.read(1)
            file.seek(position)
            file.write(bytes([old ^ 0xFF]))
