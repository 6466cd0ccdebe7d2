"""Conditions as written: axes, and the value or values that match."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

Scalar = str | int | float | bool
Condition = dict[str, Scalar | tuple[Scalar, ...]]


def condition(value: Any) -> Any:
    """Freeze lists of values. Pydantic reports anything else."""
    if not isinstance(value, dict):
        return value
    return {key: tuple(one) if isinstance(one, list) else one for key, one in value.items()}


def conditions(value: Any) -> Any:
    return tuple(map(condition, value)) if isinstance(value, list) else value


#: Selects cells by their coordinates.
Where = Annotated[Condition, BeforeValidator(condition)]
#: The same, but it cannot be empty.
SomeCells = Annotated[Where, Field(min_length=1)]
