"""Proof that the sides of a comparison differ: after a rename, a program once compared itself with itself."""

from __future__ import annotations


def require_difference(what: str, *sides: object) -> None:
    """End the program if two sides are equal in what makes them sides, as observed in what ran."""
    if len(set(sides)) < len(sides):
        raise SystemExit(f"no comparison: sides have the same {what}: {', '.join(map(str, sides))}")
