"""Shipped files, and the schema that each of them names."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def schema_named_in(path: Path) -> str:
    """The schema that a shipped file says it is of, for editors; one that is there."""
    mark, _, named = path.read_text().partition("\n")[0].partition("=")
    assert mark == "# yaml-language-server: $schema", path
    assert (path.parent / named).resolve().parent == ROOT / "matrix", path
    return (path.parent / named).resolve(strict=True).name
