"""What is written on devices before anything is built on them or measured: a new SSD is no used one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from runner.base.quantities import format_size
from runner.language.layers.base import Layer, Problem
from runner.language.units import Percent, Size, Time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.language.geometry import Below, Shape

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
