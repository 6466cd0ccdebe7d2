"""Conditions as they are written: axes, and the value or values that match."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

Scalar = str | int | float | bool
Condition = dict[str, Scalar | tuple[Scalar, ...]]


def condition(value: Any) -> Any:
    """Lists of values are frozen; anything else is left to be told of."""
    if not isinstance(value, dict):
        return value
    return {key: tuple(one) if isinstance(one, list) else one for key, one in value.items()}


def conditions(value: Any) -> Any:
    """A list of conditions."""
    return tuple(map(condition, value)) if isinstance(value, list) else value


#: Cells, by where they stand.
Where = Annotated[Condition, BeforeValidator(condition)]
#: The same, where all of them would be no answer.
SomeCells = Annotated[Where, Field(min_length=1)]
