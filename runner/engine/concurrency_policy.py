"""How many rigs may be at work at a time: the policy alone, values in, values out.

Modelled disks mostly wait, and rigs that wait do not hinder each other. How many that holds for depends on the host,
the disks and the workloads, so it is found by measuring: whoever was strained in company is a sign of too many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.layers.base import Layer
    from runner.machines.base import Machine, RigSpec
    from runner.space.space import Array

#: With so many it begins, while nothing is known yet.
A_FEW = 2
#: After several levels that did not hold, one more is tried so seldom, and no more seldom.
MOST_PATIENCE = 32


class Level(Protocol):
    """How many may be at work; what a trial came to gives the next level. `beside`: how many others were at work."""

    @property
    def now(self) -> int:
        """So many, itself counted."""

    @property
    def most(self) -> int:
        """More than so many it will never be."""

    def kept_up(self, beside: int) -> Level:
        """A trial in such company was not strained."""

    def strained(self, beside: int) -> Level:
        """A trial in such company was strained."""


@dataclass(frozen=True, slots=True)
class Told:
    """As many as the user said."""

    now: int = 1

    @property
    def most(self) -> int:
        """The same from the beginning to the end."""
        return self.now

    def kept_up(self, beside: int) -> Told:  # noqa: ARG002
        """Nothing is learnt."""
        return self

    def strained(self, beside: int) -> Told:  # noqa: ARG002
        """Whoever is strained is measured again alone; the user wanted it so."""
        return self


@dataclass(frozen=True, slots=True)
class Found:
    """One more after a row of trials in full company that kept up; at once fewer after one that did not."""

    most: int
    now: int
    #: Trials in full company since the last change or strain.
    row: int = 0
    #: Rows are so many times as long as there are rigs. It grows with every level that did not hold.
    patience: int = 1

    @classmethod
    def up_to(cls, most: int) -> Found:
        """At the beginning; `most`: what the host has room for."""
        return cls(max(1, most), max(1, min(A_FEW, most)))

    def kept_up(self, beside: int) -> Found:
        """In less company than there may be it says nothing of that."""
        if beside + 1 < self.now or self.now == self.most:
            return self
        if self.row + 1 < self.now * self.patience:
            return replace(self, row=self.row + 1)
        return replace(self, now=self.now + 1, row=0)

    def strained(self, beside: int) -> Found:
        """One fewer than there were. Of several that were strained together the second changes nothing more."""
        if not 0 < beside < self.now:
            return replace(self, row=0)
        return replace(self, now=beside, row=0, patience=min(MOST_PATIENCE, 2 * self.patience))


def one_at_a_time_because(machine: Machine, specs: Iterable[RigSpec], arrays: Iterable[Array]) -> str:
    """Why no two rigs of a run may be at work at the same time, however many the host could hold; empty if they may."""
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
    """Whether it has something to do when nobody asks anything of it."""
    return getattr(layer, "sync", "") == "background" or getattr(layer, "state", "") == "rebuilding"
