"""What is written on devices before anything is built on them or measured: a new SSD is no used one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from runner.base.quantities import format_size, format_time
from runner.base.units import Percent, Size, Time
from runner.layers.base import Ground, Layer, Problem, View

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.layers.geometry import Below, Shape


KIB = 1024
#: What is written at once where nothing is said.
BLOCKS = {"fill": 1024 * KIB, "random-fill": 4 * KIB, "until-steady": 4 * KIB}


class Precondition(Layer):
    """Every device below, written over once a set-up; the devices are passed on as they are."""

    kind: ClassVar[str] = "precondition"
    noun: ClassVar[str] = "devices"
    #: One that does nothing is no layer at all (see `absent`).
    keeps_zeros: ClassVar[bool] = False
    how: Annotated[
        Literal["none", "fill", "random-fill", "until-steady"],
        Field(
            description="all of it in order, all of it once in random order, or filled and then written at random "
            "until that is steady"
        ),
    ] = "none"
    discard: Annotated[bool, Field(description="discard the whole device before")] = False
    block_size: Annotated[Size | None, Field(ge=512, description="written at once; 1MiB for fill, else 4KiB")] = None
    iodepth: Annotated[int, Field(ge=1, le=65536, description="requests under way on each device")] = 32
    criterion: Annotated[
        Literal["iops_slope", "iops", "bw_slope", "bw"],
        Field(description="steady: the slope over the window, or the largest deviation from its mean"),
    ] = "iops_slope"
    within: Annotated[Percent, Field(gt=0, description="steady: how large slope or deviation may be, of the mean")] = (
        0.05
    )
    window: Annotated[Time, Field(ge=2, description="steady: for so long")] = 60.0
    limit: Annotated[Time, Field(ge=2, description="after so long it is given up, which is recorded")] = 1800.0

    @classmethod
    def idle(cls, values: Mapping[str, Any]) -> dict[str, str]:
        """Fields that mean nothing for these values, and why."""
        idle: dict[str, str] = {}
        if values["how"] != "until-steady":
            idle |= dict.fromkeys(("criterion", "within", "window", "limit"), f"how: {values['how']} waits for nothing")
        if values["how"] == "none":
            idle |= dict.fromkeys(("block_size", "iodepth"), "how: none writes nothing")
        return idle

    @property
    def absent(self) -> bool:
        """Whether it does nothing."""
        return self.how == "none" and not self.discard

    @property
    def waits(self) -> float:
        """The steady state is waited for so long at most."""
        return self.limit if self.how == "until-steady" else 0.0

    def settled(self, below: Below) -> Self:  # noqa: ARG002
        """The block size filled in."""
        return self.model_copy(update={"block_size": self.block_size or BLOCKS.get(self.how)})

    def problems(self, below: Below) -> Iterator[Problem]:
        """What fio would refuse."""
        if self.block_size is not None and self.block_size % 512:
            yield Problem("block_size", "direct I/O goes in whole sectors of 512 bytes")
        elif self.block_size is not None and self.block_size > below.smallest:
            yield Problem("block_size", f"more than the smallest of them has ({format_size(below.smallest)})")
        if self.how == "until-steady" and self.window > self.limit:
            yield Problem("window", "it would be given up before one window is over: raise `limit`")

    def writes(self, below: Below) -> int:
        """All of it once; what is written until it is steady nobody knows beforehand."""
        return 0 if self.how == "none" else sum(device.size for device in below.devices)

    def called(self, below: Below) -> str:
        """What they are called below."""
        return below.noun

    def above(self, below: Below) -> tuple[Shape, ...]:
        """The same devices."""
        return below.devices

    def views(self, ground: Ground) -> tuple[View, ...]:
        """Return what is built of it on `ground`, from its first device to its last."""
        return _views(self, ground)


@dataclass(frozen=True, slots=True)
class Pass:
    """One time that fio goes over all of the devices."""

    #: What is done, for the record.
    words: str
    options: tuple[str, ...]
    #: It goes on until it is steady, which fio then has to say.
    steady: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreconditionView(View):
    """What is done to devices before they are used."""

    discard: bool
    passes: tuple[Pass, ...]
    #: A job for each device, all at the same time.
    jobs: tuple[str, ...]


def _views(layer: Precondition, ground: Ground) -> tuple[View, ...]:
    """All devices at once."""
    escaped = [path.replace(":", "\\:") for path in ground.devices]
    return (
        PreconditionView(
            kind="precondition",
            members=ground.devices,
            tops=ground.devices,
            holds=False,
            discard=layer.discard,
            passes=_passes(layer),
            jobs=tuple(
                option for at, path in enumerate(escaped) for option in (f"--name=device{at}", f"--filename={path}")
            ),
        ),
    )


def _passes(layer: Precondition) -> tuple[Pass, ...]:
    depth = f"--iodepth={layer.iodepth}"
    if layer.how == "none" or layer.block_size is None:
        return ()
    if layer.how == "until-steady":
        # Where nothing was written yet, the first writes are the fast ones and say nothing of a steady state.
        return (Pass("fill, blocks of 1MiB", ("--rw=write", "--bs=1048576", depth)), _until_steady(layer, depth))
    rw = "write" if layer.how == "fill" else "randwrite"
    words = f"{layer.how}, blocks of {format_size(layer.block_size)}"
    return (Pass(words, (f"--rw={rw}", f"--bs={layer.block_size}", depth)),)


def _until_steady(layer: Precondition, depth: str) -> Pass:
    size = layer.block_size or 0
    within = f"{layer.within * 100:g}%"
    words = (
        f"random writes of {format_size(size)} until {layer.criterion} is within {within} over "
        f"{format_time(layer.window)}, at most {format_time(layer.limit)}"
    )
    steady = (
        f"--steadystate={layer.criterion}:{within}",
        f"--steadystate_duration={layer.window:g}s",
        "--time_based",
        f"--runtime={layer.limit:g}s",
    )
    return Pass(words, ("--rw=randwrite", f"--bs={size}", depth, *steady), steady=True)
