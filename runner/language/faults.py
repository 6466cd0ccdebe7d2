"""What is to go wrong with disks while they are measured, as it is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from pydantic_core import core_schema

from runner.base.model import Model
from runner.base.quantities import resolve_share
from runner.base.units import Extent, Size, Time
from runner.simdisks.faults import Fault

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

#: What a disk knows to be bad, it keeps a list of.
LARGEST_SPOT = 2**30
#: What the board of a rig has room for.
MOST_FAULTS = 64


class _Fault(Model):
    disk: Annotated[int, Field(ge=0, description="its number, from 0")]
    at: Annotated[Time, Field(ge=0, description="after so long of fio's work, ramp included")] = 0.0


class Dies(_Fault):
    """Every command ends with an error."""

    kind: Literal["dies"]
    lasts: Annotated[Time | None, Field(gt=0, description="it returns after that, as it was; never if not given")] = (
        None
    )

    def of(self, size: int) -> Fault:  # noqa: ARG002 - only a medium has places
        """As it will be for a disk of this size."""
        return Fault(self.disk, "dies", self.at, self.lasts)


class Slow(_Fault):
    """Everything takes longer."""

    kind: Literal["slow"]
    times: Annotated[float, Field(gt=1, le=10_000, strict=False, description="so many times longer")]
    lasts: Annotated[Time | None, Field(gt=0)] = None

    def of(self, size: int) -> Fault:  # noqa: ARG002 - only a medium has places
        """As it will be for a disk of this size."""
        return Fault(self.disk, "slow", self.at, self.lasts, self.times)


class Stalls(_Fault):
    """Nothing is answered for a while."""

    kind: Literal["stalls"]
    lasts: Annotated[Time, Field(gt=0)]

    def of(self, size: int) -> Fault:  # noqa: ARG002 - only a medium has places
        """As it will be for a disk of this size."""
        return Fault(self.disk, "stalls", self.at, self.lasts)


class Medium(_Fault):
    """A place cannot be read; what is written there is good again."""

    kind: Literal["medium"]
    start: Extent
    length: Annotated[Size, Field(gt=0, le=LARGEST_SPOT)]

    def of(self, size: int) -> Fault:
        """As it will be for a disk of this size."""
        start = resolve_share(self.start, size)
        return Fault(self.disk, "medium", self.at, where=(start, start + self.length))


FAULTS: dict[str, type[_Fault]] = {"dies": Dies, "slow": Slow, "stalls": Stalls, "medium": Medium}
AnyFault = Annotated[Dies | Slow | Stalls | Medium, Field(discriminator="kind")]


class _OneSetOrSeveral:
    """A list of faults, which every trial has; or several such lists by name, which are an axis."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._named, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        several = handler(core)
        (faults,) = several["patternProperties"].values()
        return {"anyOf": [faults, several]}

    def _named(self, value: object) -> object:
        if isinstance(value, list):
            return {UNNAMED: tuple(value)}
        if isinstance(value, dict):
            if UNNAMED in value:
                raise ValueError("of several sets of faults each needs a name")
            return {name: tuple(one) if isinstance(one, list) else one for name, one in value.items()}
        return value


#: The name of a set that needs none.
UNNAMED = ""
_Name = Annotated[str, Field(pattern=r"^([A-Za-z][A-Za-z0-9_.+-]*)?$", max_length=80)]
_Faults = Annotated[tuple[AnyFault, ...], Field(max_length=MOST_FAULTS)]
FaultSets = Annotated[dict[_Name, _Faults], _OneSetOrSeveral()]
