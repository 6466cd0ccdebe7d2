"""The strict, frozen base of every declared model."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

NAME = r"^[A-Za-z][A-Za-z0-9_.+-]*$"
#: A name in a matrix; it becomes a part of file and folder names.
Name = Annotated[str, Field(pattern=NAME, max_length=80)]


class Model(BaseModel):
    """Immutable after parsing; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
