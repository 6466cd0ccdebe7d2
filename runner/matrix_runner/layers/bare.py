"""Layers that make no devices: they select some of those below, name parts, or write them full before."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field

from matrix_runner.base.model import Percent, Size, Time
from matrix_runner.base.quantities import format_size, format_time
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
    number: int = Field(ge=1, description="which of the devices below, counted from 1")

    def problems(self, below: Below) -> Iterator[Problem]:
        if self.number > below.count:
            yield Problem("number", f"there is no number {self.number}: {below.description}")

    def noun_above(self, below: Below) -> str:
        return below.noun

    def select(self, devices: tuple[T, ...]) -> tuple[T, ...]:
        return (devices[self.number - 1],)


KIB = 1024
BLOCKS = {"fill": 1024 * KIB, "random-fill": 4 * KIB, "until-steady": 4 * KIB}  # default block sizes


class Precondition(Layer):
    """Writes over every device below in each set-up, as `how` says, and passes the devices on."""

    kind: ClassVar[str] = "precondition"
    noun: ClassVar[str] = "preconditioned devices"
    keeps_zeros: ClassVar[bool] = False  # a precondition without effect is no layer at all (see `is_absent`)
    how: Literal["none", "fill", "random-fill", "until-steady"] = Field(
        "none",
        description="fill: write all in order; random-fill: write all once in random order; until-steady: "
        "fill, then write at random until the rate is steady",
    )
    discard: bool = Field(False, description="discard the whole device first")
    block_size: Size | None = Field(None, ge=512, description="size of a write; if not given: 1MiB for fill, else 4KiB")
    iodepth: int = Field(32, ge=1, le=65536, description="requests in flight on each device")
    criterion: Literal["iops_slope", "iops", "bw_slope", "bw"] = Field(
        "iops_slope",
        description="until-steady: the rate that has to be steady, by its slope or its largest deviation from the mean",
    )
    within: Annotated[
        Percent, Field(gt=0, description="until-steady: limit of slope or deviation, relative to the mean")
    ] = 0.05
    window: Annotated[Time, Field(ge=2, description="until-steady: the time over which the rate has to be steady")] = (
        60.0
    )
    limit: Annotated[
        Time, Field(ge=2, description="until-steady: stop after this time, steady or not; the result records it")
    ] = 1800.0

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        idle: dict[str, str] = {}
        if values["how"] != "until-steady":
            why = f"how: {values['how']} does not wait for a steady state"
            idle |= dict.fromkeys(("criterion", "within", "window", "limit"), why)
        if values["how"] == "none":
            idle |= dict.fromkeys(("block_size", "iodepth"), "how: none does not write")
        return idle

    @property
    def is_absent(self) -> bool:
        return self.how == "none" and not self.discard

    @property
    def wait_seconds(self) -> float:
        return self.limit if self.how == "until-steady" else 0.0

    def resolve(self, below: Below) -> Self:  # noqa: ARG002
        return self.model_copy(update={"block_size": self.block_size or BLOCKS.get(self.how)})

    def problems(self, below: Below) -> Iterator[Problem]:
        if self.block_size is not None and self.block_size % 512:
            yield Problem("block_size", "direct I/O needs whole sectors of 512 bytes")
        elif self.block_size is not None and self.block_size > below.smallest:
            yield Problem("block_size", f"larger than the smallest device ({format_size(below.smallest)})")
        if self.how == "until-steady" and self.window > self.limit:
            yield Problem("window", "longer than `limit`: raise `limit`")

    def bytes_written(self, below: Below) -> int:
        return 0 if self.how == "none" else sum(device.size for device in below.devices)

    def noun_above(self, below: Below) -> str:
        return below.noun

    def devices_above(self, below: Below) -> tuple[Shape, ...]:
        return below.devices

    def views(self, context: BuildContext) -> tuple[View, ...]:
        escaped = [path.replace(":", "\\:") for path in context.devices]
        jobs = [(f"--name=device{at}", f"--filename={path}") for at, path in enumerate(escaped)]
        view = View(
            kind=self.kind,
            members=context.devices,
            tops=context.devices,
            holds=False,
            # One job for each device, all at the same time.
            values={"discard": self.discard, "passes": self._passes(), "jobs": [one for job in jobs for one in job]},
        )
        return (view,)

    def _passes(self) -> tuple[Pass, ...]:
        depth = f"--iodepth={self.iodepth}"
        if self.how == "none" or self.block_size is None:
            return ()
        size = format_size(self.block_size)
        if self.how != "until-steady":
            rw = "write" if self.how == "fill" else "randwrite"
            return (Pass(f"{self.how}, blocks of {size}", (f"--rw={rw}", f"--bs={self.block_size}", depth)),)
        within = f"{self.within * 100:g}%"
        words = (
            f"random writes of {size} until {self.criterion} is within {within} over {format_time(self.window)}, "
            f"at most {format_time(self.limit)}"
        )
        steady = (f"--steadystate={self.criterion}:{within}", f"--steadystate_duration={self.window:g}s")
        end = (*steady, "--time_based", f"--runtime={self.limit:g}s")
        return (
            # On an unwritten device, the first writes are fast and do not show a steady state.
            Pass("fill, blocks of 1MiB", ("--rw=write", "--bs=1048576", depth)),
            Pass(words, ("--rw=randwrite", f"--bs={self.block_size}", depth, *end), steady=True),
        )


@dataclass(frozen=True, slots=True)
class Pass:
    words: str  # a description for the record
    options: tuple[str, ...]
    steady: bool = False  # it ends at a steady state, and fio must report it
