"""Plain disks, the choice of one device, and the change to other parts."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, Self, TypeVar

from pydantic import Field

from matrix_runner.layers.base import BuildContext, Layer, Problem, View
from matrix_runner.layers.geometry import Below, Part, Shape, scrambled

T = TypeVar("T")


def _refuse_above_others(layer: Layer, below: Below) -> Problem:
    rule = f"`{layer.kind}` is only possible as the lowest layer, on disks; below it are {below.noun}"
    return Problem("", f"{rule}; remove it to use all of them, or write `pick: {{number: 1}}` for one")


class _Selection(Layer):
    """Some of the devices below, unchanged."""

    selects: ClassVar[bool] = True
    folder: ClassVar[str] = "disk"

    @abstractmethod
    def select(self, devices: tuple[T, ...]) -> tuple[T, ...]: ...

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        return self.select(below.devices)

    def views(self, context: BuildContext) -> tuple[View, ...]:
        selected = self.select(context.devices)
        return (View(kind=self.folder, members=selected, tops=selected, holds=False),)


class On(Layer):
    """The devices of some parts, instead of those below. Users write it as `on:` of a layout with parts."""

    kind: ClassVar[str] = "on"
    noun: ClassVar[str] = "devices"
    tunable: ClassVar[bool] = False
    selects: ClassVar[bool] = True
    names: tuple[str, ...]
    keep: str = ""  # the part that the devices below become

    @property
    def parts(self) -> Mapping[str, str]:
        return dict.fromkeys(self.names, "on")

    def ground(self, top: Below) -> Below:
        kept = (Part(self.keep, replace(top, parts=())),) if self.keep else ()
        return super().ground(replace(top, parts=(*top.parts, *kept)))

    def noun_above(self, below: Below) -> str:
        nouns = {part.top.noun for part in below.parts if part.name in self.names}
        return nouns.pop() if len(nouns) == 1 else self.noun

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        return below.devices[below.count - below.named :]

    def above(self, below: Below) -> Below:
        tops = [part.top for part in below.parts if part.name in self.names]
        return replace(super().above(below), scrambled_by=scrambled(tops))

    def views(self, context: BuildContext) -> tuple[View, ...]:
        selected = context.devices[len(context.devices) - context.below.named :]
        return (View(kind="pick", members=selected, tops=selected, holds=False),)


class OneDisk(_Selection):
    """One disk, unchanged."""

    kind: ClassVar[str] = "disk"
    noun: ClassVar[str] = "disks"
    number: int = Field(0, ge=0, description="which of the declared disks, counted from 0")

    def problems(self, below: Below) -> Iterator[Problem]:
        if below.noun != self.noun:
            yield _refuse_above_others(self, below)
        elif self.number >= below.count:
            yield Problem("number", f"there is no disk {self.number}: {below.count} are declared, counted from 0")

    def select(self, devices: tuple[T, ...]) -> tuple[T, ...]:
        return (devices[self.number],)


class SomeDisks(_Selection):
    """The first `count` disks, unchanged."""

    kind: ClassVar[str] = "disks"
    noun: ClassVar[str] = "disks"
    tunable: ClassVar[bool] = False
    count: int | None = Field(None, ge=1, description="number of disks, from the first; all if not given")

    def problems(self, below: Below) -> Iterator[Problem]:
        if below.noun != self.noun:
            yield _refuse_above_others(self, below)
        elif self.count is not None and self.count > below.count:
            yield Problem("count", f"{self.count} disks are too many: {below.description}")

    def resolve(self, below: Below) -> Self:
        return self.model_copy(update={"count": self.count or below.count})

    def select(self, devices: tuple[T, ...]) -> tuple[T, ...]:
        return devices[: self.count]


class Pick(_Selection):
    """One of the devices below."""

    kind: ClassVar[str] = "pick"
    folder: ClassVar[str] = "pick"
    noun: ClassVar[str] = "devices"
    tunable: ClassVar[bool] = False
    number: int = Field(ge=1, description="which of the devices below, counted from 1")

    def problems(self, below: Below) -> Iterator[Problem]:
        if self.number > below.count:
            yield Problem("number", f"there is no number {self.number}: {below.description}")

    def noun_above(self, below: Below) -> str:
        return below.noun

    def select(self, devices: tuple[T, ...]) -> tuple[T, ...]:
        return (devices[self.number - 1],)
