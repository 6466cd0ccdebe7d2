"""The top of this repository."""

from __future__ import annotations

from pathlib import Path

TOP = Path(__file__).parents[2]
