"""How many rigs may be at work at a time. Pure.

Simulated disks mostly wait, and rigs that wait do not disturb each other. The possible number depends on the host, the
disks and the workloads. A trial that is host-limited beside others shows that the number is too high.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.layers.base import Layer
    from runner.machines.base import Machine, RigSpec
    from runner.space.space import Array

#: The first level.
FIRST_LEVEL = 2
#: The upper limit of `AdaptiveLevel.patience`.
MOST_PATIENCE = 32


class Level(Protocol):
    """The number of rigs that may work at once; the result of a trial gives the next level. `beside`: other rigs."""

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
        """Keep the level, because the user set it. The trial is repeated alone."""
        return self


@dataclass(frozen=True, slots=True)
class AdaptiveLevel:
    """A level that rises after several trials at the level, and falls after one host-limited trial."""

    most: int
    now: int
    #: Trials at the full level since the last change or host-limited trial.
    row: int = 0
    #: Trials needed for a rise, in multiples of the level. It doubles after each fall.
    patience: int = 1

    @classmethod
    def up_to(cls, most: int) -> AdaptiveLevel:
        return cls(max(1, most), max(1, min(FIRST_LEVEL, most)))

    def kept_up(self, beside: int) -> AdaptiveLevel:
        """Count the trial, unless fewer rigs than the level were at work."""
        if beside + 1 < self.now or self.now == self.most:
            return self
        if self.row + 1 < self.now * self.patience:
            return replace(self, row=self.row + 1)
        return replace(self, now=self.now + 1, row=0)

    def host_limited(self, beside: int) -> AdaptiveLevel:
        """Lower the level by one. A second trial that was limited at the same time changes no more."""
        if not 0 < beside < self.now:
            return replace(self, row=0)
        return replace(self, now=beside, row=0, patience=min(MOST_PATIENCE, 2 * self.patience))


def why_one_at_a_time(machine: Machine, specs: Iterable[RigSpec], arrays: Iterable[Array]) -> str:
    """Return why the rigs of a run must work one at a time; empty if they may work side by side."""
    if not machine.brings_disks:
        return f"{machine.name} runs one rig at a time: it has one set of disks"
    if machine.synthetic:
        return ""
    if not all(disk.physics for spec in specs for disk in spec.disks):
        return "disks without a model share the speed of the host, so rigs side by side would slow each other down"
    arrays = list(arrays)
    if any(array.faults for array in arrays):
        return "a stack whose disks fail may rebuild itself while another rig is measured alone"
    busy_layers = [layer.title for array in arrays for layer in array.stack.value if _has_background_work(layer)]
    return f"{busy_layers[0]} resyncs in the background while another rig is measured alone" if busy_layers else ""


def _has_background_work(layer: Layer) -> bool:
    """Return whether the kernel works on a layer in the background."""
    return getattr(layer, "sync", "") == "background" or getattr(layer, "state", "") == "rebuilding"
