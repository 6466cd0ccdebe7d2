"""The one base of everything that is declared: strict, frozen, no key that we do not know."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Parsed once, never changed after."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
