"""When the rate of a workload counts as steady: fio's `steadystate`, with one key for each part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from runner.base.model import Model
from runner.base.quantities import format_time
from runner.base.units import Percent, Time
from runner.layers import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: fio's own options for this.
_OPTIONS = ("steadystate", "ss", "steadystate_duration", "ss_dur")


class Steady(Model):
    """Work ends once the rate is steady. Trials that never become steady are marked."""

    within: Annotated[Percent, Field(gt=0, description="largest slope or deviation, as a share of the mean")]
    of: Annotated[Literal["iops", "bw"], Field(description="the rate that has to be steady")] = "iops"
    over: Annotated[Time, Field(ge=2, description="for this time, after `ramp`")] = 10.0
    slope: Annotated[
        bool, Field(description="test the slope over that time; false: test the largest deviation from its mean")
    ] = True

    @property
    def option(self) -> str:
        """Return the value for fio."""
        return f"{self.of}{'_slope' if self.slope else ''}:{self.within * 100:g}%"

    def problems(self, runtime: float | None, profile: str | None, options: Collection[str]) -> Iterator[Problem]:
        if runtime is not None and self.over >= runtime:
            told = f"{format_time(self.over)} do not fit into a runtime of {format_time(runtime)}"
            yield Problem("steady.over", f"{told}; write a longer `runtime`, which is the limit")
        if profile == "position":
            yield Problem("steady", "a profile over positions ends after one pass over the device")
        if twice := [option for option in _OPTIONS if option in options]:
            yield Problem("fio", f"`{twice[0]}` and `steady:` set the same; write one of them")
