"""When work is to count as steady: fio's own `steadystate`, with a name for each of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from runner.base.model import Model
from runner.base.quantities import format_time
from runner.base.units import Percent, Time
from runner.layers import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: What of fio's own options says the same.
_OPTIONS = ("steadystate", "ss", "steadystate_duration", "ss_dur")


class Steady(Model):
    """When a rate counts as steady: work then ends. A trial in which it never does is told from the others."""

    within: Annotated[Percent, Field(gt=0, description="how large slope or deviation may be, of the mean")]
    of: Annotated[Literal["iops", "bw"], Field(description="what is to be steady")] = "iops"
    over: Annotated[Time, Field(ge=2, description="for so long, once `ramp` is over")] = 10.0
    slope: Annotated[
        bool, Field(description="the slope over that time; false: the largest deviation from its mean")
    ] = True

    @property
    def option(self) -> str:
        """As fio takes it."""
        return f"{self.of}{'_slope' if self.slope else ''}:{self.within * 100:g}%"

    def problems(self, runtime: float | None, profile: str | None, options: Collection[str]) -> Iterator[Problem]:
        """What of a workload leaves no room for it, or asks for it twice."""
        if runtime is not None and self.over >= runtime:
            told = f"{format_time(self.over)} are not over within a runtime of {format_time(runtime)}"
            yield Problem("steady.over", f"{told}; write a longer `runtime`, which is the limit")
        if profile == "position":
            yield Problem("steady", "a profile over positions ends when it has gone over all of them")
        if twice := [option for option in _OPTIONS if option in options]:
            yield Problem("fio", f"`{twice[0]}` and `steady:` say the same; write one of them")
