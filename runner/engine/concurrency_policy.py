"""How many rigs may be at work at a time: the policy alone, values in, values out.

Modelled disks mostly wait, and rigs that wait do not hinder each other. How many that holds for depends on the host,
the disks and the workloads, so it is found by measuring: a trial that is host-limited beside others is a sign of too
many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.layers.base import Layer
    from runner.machines.base import Machine, RigSpec
    from runner.space.space import Array

#: The first level, while no trial is recorded.
A_FEW = 2
#: After several levels that failed, higher ones are tried this seldom, and not more seldom.
MOST_PATIENCE = 32


class Level(Protocol):
    """How many rigs may work at once; the result of a trial gives the next level. `beside`: the other rigs at work."""

    @property
    def now(self) -> int:
        """Return the number, this rig included."""

    @property
    def most(self) -> int:
        """Return the highest number possible."""

    def kept_up(self, beside: int) -> Level: ...

    def host_limited(self, beside: int) -> Level: ...


@dataclass(frozen=True, slots=True)
class FixedLevel:
    now: int = 1

    @property
    def most(self) -> int:
        return self.now

    def kept_up(self, beside: int) -> FixedLevel:  # noqa: ARG002
        return self

    def host_limited(self, beside: int) -> FixedLevel:  # noqa: ARG002
        """A host-limited trial is repeated alone; the level is the user's."""
        return self


@dataclass(frozen=True, slots=True)
class AdaptiveLevel:
    """One rig more after a row of trials in full company that kept up; at once fewer after one that did not."""

    most: int
    now: int
    #: Trials in full company since the last change or host-limited trial.
    row: int = 0
    #: Length of a row, in multiples of the rigs. It grows with every level that failed.
    patience: int = 1

    @classmethod
    def up_to(cls, most: int) -> AdaptiveLevel:
        return cls(max(1, most), max(1, min(A_FEW, most)))

    def kept_up(self, beside: int) -> AdaptiveLevel:
        """A trial in smaller company shows nothing about the full one."""
        if beside + 1 < self.now or self.now == self.most:
            return self
        if self.row + 1 < self.now * self.patience:
            return replace(self, row=self.row + 1)
        return replace(self, now=self.now + 1, row=0)

    def host_limited(self, beside: int) -> AdaptiveLevel:
        """Lower the level by one. Of several trials limited together the second changes no more."""
        if not 0 < beside < self.now:
            return replace(self, row=0)
        return replace(self, now=beside, row=0, patience=min(MOST_PATIENCE, 2 * self.patience))


def why_one_at_a_time(machine: Machine, specs: Iterable[RigSpec], arrays: Iterable[Array]) -> str:
    """Return why the rigs of a run may not work side by side, whatever the host can hold; empty if they may."""
    if not machine.brings_disks:
        return f"{machine.name} has one machine at a time: its disks are there once, and what is built on them stays"
    if machine.synthetic:
        return ""
    if not all(disk.physics for spec in specs for disk in spec.disks):
        return (
            "disks without a model are as fast as the host lets them be, and rigs side by side would measure each other"
        )
    arrays = list(arrays)
    if any(array.faults for array in arrays):
        return "an array whose disks fail may rebuild itself, also while others are measured alone"
    restless = [layer.title for array in arrays for layer in array.stack.value if _works_on(layer)]
    return f"{restless[0]} resyncs in the background, also while others are measured alone" if restless else ""


def _works_on(layer: Layer) -> bool:
    """Return whether the kernel works on a layer without requests of the workload."""
    return getattr(layer, "sync", "") == "background" or getattr(layer, "state", "") == "rebuilding"
