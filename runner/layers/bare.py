"""Plain disks, and the choice of one device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field

from runner.layers.base import BuildContext, Layer, Problem, View

if TYPE_CHECKING:
    from runner.layers.geometry import Below, Shape


def _refuse_above_others(layer: Layer, below: Below) -> Problem:
    return Problem(
        "",
        f"`{layer.kind}` is only possible as the lowest layer, on disks; below it are {below.noun}; "
        "remove it to use all of them, or write `pick: {number: 1}` for one",
    )


class OneDisk(Layer):
    """One disk, unchanged."""

    kind: ClassVar[str] = "disk"
    selects: ClassVar[bool] = True
    noun: ClassVar[str] = "disks"
    number: int = Field(0, ge=0, description="which of the declared disks, counted from 0")

    def problems(self, below: Below) -> Iterator[Problem]:
        if below.noun != self.noun:
            yield _refuse_above_others(self, below)
        elif self.number >= below.count:
            yield Problem("number", f"there is no disk {self.number}: {below.count} are declared, counted from 0")

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        return (below.devices[self.number],)

    def views(self, context: BuildContext) -> tuple[View, ...]:
        disk = context.devices[self.number]
        return (View(kind="disk", members=(disk,), tops=(disk,), holds=False),)


class SomeDisks(Layer):
    """The first `count` disks, unchanged."""

    kind: ClassVar[str] = "disks"
    selects: ClassVar[bool] = True
    noun: ClassVar[str] = "disks"
    tunable: ClassVar[bool] = False
    count: int | None = Field(None, ge=1, description="the number of disks, from the first; default all")

    def problems(self, below: Below) -> Iterator[Problem]:
        if below.noun != self.noun:
            yield _refuse_above_others(self, below)
        elif self.count is not None and self.count > below.count:
            yield Problem("count", f"{self.count} disks are too many: {below.description}")

    def resolve(self, below: Below) -> Self:
        return self.model_copy(update={"count": self.count or below.count})

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        return below.devices[: self.count]

    def views(self, context: BuildContext) -> tuple[View, ...]:
        disks = context.devices[: self.count]
        return (View(kind="disk", members=disks, tops=disks, holds=False),)


class Pick(Layer):
    """One of the devices below."""

    kind: ClassVar[str] = "pick"
    selects: ClassVar[bool] = True
    noun: ClassVar[str] = "devices"
    tunable: ClassVar[bool] = False
    number: int = Field(ge=1, description="which of the devices below, counted from 1")

    def problems(self, below: Below) -> Iterator[Problem]:
        if self.number > below.count:
            yield Problem("number", f"there is no number {self.number}: {below.description}")

    def noun_above(self, below: Below) -> str:
        return below.noun

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        return (below.devices[self.number - 1],)

    def views(self, context: BuildContext) -> tuple[View, ...]:
        chosen = context.devices[self.number - 1]
        return (View(kind="pick", members=(chosen,), tops=(chosen,), holds=False),)
