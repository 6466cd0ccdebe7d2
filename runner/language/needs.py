"""What a matrix needs that only some hosts have."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from runner.base.model import Model
from runner.base.units import Size
from runner.language.axes import as_tuple
from runner.language.hosts import DiskKind, Name


class DiskNeeds(Model):
    """So many disks that are like this; what is left out does not matter."""

    count: Annotated[int, Field(ge=1, le=26)]
    kind: DiskKind | None = None
    tag: Annotated[
        tuple[Name, ...],
        BeforeValidator(as_tuple),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        Field(description="each of them has all of these"),
    ] = ()
    size: Annotated[Size | None, Field(gt=0, description="at least")] = None


class Needs(Model):
    """What a host has to have: disks that exist, of those that hosts.yaml allows."""

    disks: DiskNeeds
