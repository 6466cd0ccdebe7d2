"""A matrix as it is written: one YAML file, parsed and frozen."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
    create_model,
    model_validator,
)

from runner.base.kernels import kernel_error
from runner.base.model import Model, Name
from runner.base.units import Percent, Size
from runner.language.axes import as_tuple, axes_of
from runner.language.disks import BusLimit, Disks, DiskSets
from runner.language.faults import UNNAMED, FaultSets
from runner.language.filter import Condition, conditions
from runner.language.guidelines import Guidelines
from runner.language.monitor import AUTO, Monitor
from runner.language.needs import Needs
from runner.language.presets import WorkloadAxes
from runner.language.tune import Tune
from runner.layers import LAYERS
from runner.simdisks.disk import Disk, Link

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

    from runner.language.yaml_source import Path
    from runner.simdisks.faults import Fault


def _kernel(name: str) -> str:
    if not (name.strip() and name.isprintable()):
        raise ValueError("neither the name of a kernel nor a path that can be written on one line")
    if why := kernel_error(name):
        raise ValueError(why)
    return name


class MachineWish(Model):
    """What the machine should be like, where a machine has the choice."""

    kernel: Annotated[
        tuple[Annotated[str, AfterValidator(_kernel)], ...] | None,
        BeforeValidator(as_tuple),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        Field(description="debian-12, debian-13, or the path of a bzImage; a list is an axis"),
    ] = None
    cpus: Annotated[int, Field(ge=1, le=64)] = 2
    memory: Annotated[Size, Field(ge=256 * 1024 * 1024)] = 512 * 1024 * 1024
    strain: Annotated[
        Percent, Field(gt=0, le=1, description="of its I/O time; a trial on modelled disks that lost more is strained")
    ] = 0.05


MOST_DISKS = 26
#: So often is a cell measured that never gets as sure as `until` wants, if no `max` is given.
PATIENCE = 20


def _with_room(repeat: dict[Any, Any]) -> dict[Any, Any]:
    """Bounds between which `until` can act; what was written may be anything yet."""
    least, most = repeat.get("min", 3), repeat.get("max", PATIENCE)
    if not (isinstance(least, int) and isinstance(most, int)):
        return repeat
    bounds = {"min": max(1, min(least, most - 1)), "max": max(least, most)}
    return {**bounds, **repeat}


def _meant_by(repeat: Any) -> str:
    """What would be right instead of something that is neither a number nor a map."""
    digits = re.match(r"\s*0*([1-9]\d{0,3})(?!\d)", repeat) if isinstance(repeat, str) else None
    near = f"; did you mean {digits[1]}?" if digits else ""
    return f"neither a whole number, like `repeat: 3`, nor a map, like `repeat: {{min: 3, max: 20, until: 5%}}`{near}"


class Repeat(Model):
    """How often each cell is measured, and when it is known well enough."""

    min: Annotated[int, Field(ge=1, le=10000)] = 3
    max: Annotated[int, Field(ge=1, le=10000, description=f"with `until`, {PATIENCE} if not given")] = 3
    until: Annotated[Percent | None, Field(description="half-width of the interval, relative to the mean")] = None
    confidence: Annotated[Percent, Field(gt=0.5, lt=1)] = 0.95

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "integer", "minimum": 1}, handler(core)]}

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, value: Any) -> Any:
        """`repeat: 5` is five times. One bound alone stands for both, unless `until` makes something of the other."""
        if isinstance(value, int) and not isinstance(value, bool):
            return {"min": value, "max": value}
        if not isinstance(value, dict):
            raise ValueError(_meant_by(value))  # noqa: TRY004 - pydantic takes no other for what was written
        if value.get("until") is not None:
            return _with_room(value)
        given = [value[bound] for bound in ("min", "max") if isinstance(value.get(bound), int)]
        return {"min": given[0], "max": given[0], **value} if len(given) == 1 else value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min ({self.min}) is more than max ({self.max})")
        if self.until is None and self.min < self.max:
            raise ValueError(
                f"nothing says when {self.min} are enough and when {self.max} are needed: "
                "add `until: 5%`, or write one number"
            )
        if self.until is not None and not 0 < self.until < 1:
            raise ValueError(f"`until` is a part of the mean between 0 and 1, like 5%: {self.until:.0%} tells nothing")
        if self.until is not None and self.max < 2:
            raise ValueError("`until` needs at least two repeats: one figure has no interval")
        if self.until is not None and self.min == self.max:
            raise ValueError(f"`until` never acts where min and max are both {self.max}: write a larger max")
        return self


class _Entry(Model):
    """One layer of a layout: `md: {…}`, or the bare name of a layer that needs no setting."""

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {value: {}}
        if isinstance(value, dict):
            return {kind: {} if settings is None else settings for kind, settings in value.items()}
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        use = {
            "type": "object",
            "properties": {"use": {"type": "string", "pattern": "^.+#.+$", "description": "a layout of another file"}},
            "required": ["use"],
            "additionalProperties": False,
        }
        return {"anyOf": [{"enum": list(LAYERS)}, {**handler(core), "minProperties": 1, "maxProperties": 1}, use]}

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"one layer a list item; known are {', '.join(LAYERS)}")
        return self

    @property
    def layer(self) -> tuple[str, Model]:
        """Its kind and its axes."""
        (kind,) = self.model_fields_set
        return kind, getattr(self, kind)


LAYER_AXES = {kind: axes_of(layer) for kind, layer in LAYERS.items()}

if TYPE_CHECKING:
    LayerEntry = _Entry
    TuneAxes = Model
else:
    TuneAxes = axes_of(Tune)
    LayerEntry = create_model(
        "Layer", __base__=_Entry, **{kind: (axes | None, None) for kind, axes in LAYER_AXES.items()}
    )


def _layers(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Stack = Annotated[tuple[LayerEntry, ...], BeforeValidator(_layers), Field(min_length=1)]


class Matrix(Model):
    """What is to be found out."""

    name: Name
    description: str = ""
    seed: int = 1
    machine: MachineWish = MachineWish()
    needs: Annotated[Needs | None, Field(description="disks that exist, on a host of hosts.yaml")] = None
    disks: DiskSets
    bus_limit: Annotated[
        dict[Name, BusLimit], Field(description="controllers, links, buses that modelled disks share")
    ] = Field(default_factory=dict)
    faults: Annotated[
        FaultSets, Field(description="what goes wrong with modelled disks in every trial; by name, an axis")
    ] = Field(default_factory=dict)
    layouts: Annotated[dict[Name, Stack], Field(min_length=1)]
    tune: TuneAxes = Field(default_factory=TuneAxes)
    workloads: Annotated[dict[Name, WorkloadAxes], Field(min_length=1)]
    repeat: Repeat = Repeat()
    monitor: Monitor = AUTO
    exclude: Annotated[tuple[Condition, ...], BeforeValidator(conditions)] = ()
    only: Annotated[tuple[Condition, ...], BeforeValidator(conditions)] = ()
    guidelines: Guidelines = ()

    def every_disk(self) -> tuple[Disk, ...]:
        """The disks that every rig has, one by one."""
        found: list[Disk] = []
        for several in self.disks:
            found += several.each(self.seed * 1000 + len(found))
        for name, limit in self.bus_limit.items():
            link = Link(name, float(limit.bandwidth))
            found = [replace(disk, link=link) if at in limit.disks else disk for at, disk in enumerate(found)]
        return tuple(found)

    def fault_sets(self) -> dict[str, tuple[Fault, ...]]:
        """What goes wrong, by name; a matrix that says nothing of it has one set with nothing in it."""
        sizes = [disk.size for disk in self.every_disk()]
        sets = self.faults or {UNNAMED: ()}
        return {
            name: tuple(fault.of(sizes[fault.disk]) for fault in faults if fault.disk < len(sizes))
            for name, faults in sets.items()
        }

    def misplaced_disks(self) -> Iterator[tuple[Path, str]]:
        """What cannot be about the disks as a whole, with its place."""
        disks = [several for several in self.disks for _ in range(several.count)]
        if len(disks) > MOST_DISKS:
            yield ("disks",), f"{len(disks)} disks; a rig has at most {MOST_DISKS}"
        seen: set[int] = set()
        for name, limit in self.bus_limit.items():
            for place, number in enumerate(limit.disks):
                path: Path = ("bus_limit", name, "disks", place)
                if number >= len(disks):
                    yield path, f"there is no disk {number}; they are numbered from 0 to {len(disks) - 1}"
                elif disks[number].model is None:
                    yield path, f"disk {number} has no model, so nothing could hold it back"
                elif number in seen:
                    yield path, f"disk {number} hangs on a link already"
                seen.add(number)
        yield from self._misplaced_faults(disks)

    def _misplaced_faults(self, disks: Sequence[Disks]) -> Iterator[tuple[Path, str]]:
        for name, faults in self.faults.items():
            for at, fault in enumerate(faults):
                path = ("faults", *((name,) if name else ()), at)
                if fault.disk >= len(disks):
                    last = len(disks) - 1
                    yield (*path, "disk"), f"there is no disk {fault.disk}; they are numbered from 0 to {last}"
                elif disks[fault.disk].model is None:
                    yield (*path, "disk"), f"disk {fault.disk} has no model, so nothing can go wrong with it"
                elif fault.of(disks[fault.disk].size).where[1] > disks[fault.disk].size:
                    yield (*path, "start"), "this place ends beyond the disk"
