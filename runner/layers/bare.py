"""Disks as they are, and choosing among devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from runner.layers.base import Ground, Layer, Problem, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.layers.geometry import Below, Shape


def _not_at_the_bottom(layer: Layer, below: Below) -> Problem:
    """It would do nothing above others, or not what somebody expects who reads it."""
    return Problem(
        "",
        f"`{layer.kind}` stands at the bottom: it is about disks, and below it are {below.noun}; "
        "take it out for all of them, or `pick: {number: 1}` for one",
    )


class OneDisk(Layer):
    """One disk as it is."""

    kind: ClassVar[str] = "disk"
    noun: ClassVar[str] = "disks"
    number: Annotated[int, Field(ge=0, description="which of the declared disks, counted from 0")] = 0

    def problems(self, below: Below) -> Iterator[Problem]:
        """A disk that is not there."""
        if below.noun != self.noun:
            yield _not_at_the_bottom(self, below)
        elif self.number >= below.count:
            yield Problem("number", f"there is no disk {self.number}: {below.count} are declared, counted from 0")

    def above(self, below: Below) -> tuple[Shape, ...]:
        """That disk."""
        return (below.devices[self.number],)

    def views(self, ground: Ground) -> tuple[View, ...]:
        """Return what is built of it on `ground`, from its first device to its last."""
        disk = ground.devices[self.number]
        return (View(kind="disk", members=(disk,), tops=(disk,), holds=False),)


class SomeDisks(Layer):
    """The first so many disks as they are."""

    kind: ClassVar[str] = "disks"
    noun: ClassVar[str] = "disks"
    tunable: ClassVar[bool] = False
    count: Annotated[int | None, Field(ge=1, description="the first so many of the disks; all if not given")] = None

    def problems(self, below: Below) -> Iterator[Problem]:
        """More than there are."""
        if below.noun != self.noun:
            yield _not_at_the_bottom(self, below)
        elif self.count is not None and self.count > below.count:
            yield Problem("count", f"{self.count} disks are more than there are: {below.told}")

    def settled(self, below: Below) -> Self:
        """All, as a number."""
        return self.model_copy(update={"count": self.count or below.count})

    def above(self, below: Below) -> tuple[Shape, ...]:
        """The first of them."""
        return below.devices[: self.count]

    def views(self, ground: Ground) -> tuple[View, ...]:
        """Return what is built of it on `ground`, from its first device to its last."""
        disks = ground.devices[: self.count]
        return (View(kind="disk", members=disks, tops=disks, holds=False),)


class Pick(Layer):
    """One of the devices below."""

    kind: ClassVar[str] = "pick"
    noun: ClassVar[str] = "devices"
    tunable: ClassVar[bool] = False
    number: Annotated[int, Field(ge=1, description="which of the devices below, counted from 1")]

    def problems(self, below: Below) -> Iterator[Problem]:
        """A device that is not there."""
        if self.number > below.count:
            yield Problem("number", f"there is no number {self.number}: {below.told}")

    def called(self, below: Below) -> str:
        """What they are called below."""
        return below.noun

    def above(self, below: Below) -> tuple[Shape, ...]:
        """That device."""
        return (below.devices[self.number - 1],)

    def views(self, ground: Ground) -> tuple[View, ...]:
        """Return what is built of it on `ground`, from its first device to its last."""
        chosen = ground.devices[self.number - 1]
        return (View(kind="pick", members=(chosen,), tops=(chosen,), holds=False),)
