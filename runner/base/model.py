"""The one base of everything that is declared: strict, frozen, no key that we do not know."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

NAME = r"^[A-Za-z][A-Za-z0-9_.+-]*$"
#: What things in a matrix are called; it becomes a part of names and folders.
Name = Annotated[str, Field(pattern=NAME, max_length=80)]


class Model(BaseModel):
    """Parsed once, never changed after."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
