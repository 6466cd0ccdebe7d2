"""What a matrix needs from a host."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from runner.base.model import Model
from runner.base.units import Size
from runner.language.axes import as_tuple
from runner.language.hosts import DiskKind, Name


class DiskNeeds(Model):
    """Number and properties of the disks. A property that is left out can have any value."""

    count: Annotated[int, Field(ge=1, le=26)]
    kind: DiskKind | None = None
    tag: Annotated[
        tuple[Name, ...],
        BeforeValidator(as_tuple),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        Field(description="each disk has all of these tags"),
    ] = ()
    size: Annotated[Size | None, Field(gt=0, description="the minimum")] = None


class Needs(Model):
    """Physical disks that hosts.yaml has to offer."""

    disks: DiskNeeds
