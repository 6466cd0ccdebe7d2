"""How long things take here: by what runs of a matrix have recorded, and by constants for its first run."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from runner.base.errors import MatrixError
from runner.engine.costs import COSTS
from runner.engine.estimate import Pace
from runner.machines.base import ForecastsCost, Preparation
from runner.results.journal import Journal
from runner.results.run_folder import runs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from runner.language.matrix import Matrix
    from runner.machines.base import Machine, RigSpec
    from runner.results.journal import MeanTimes
    from runner.results.run_folder import RunFolder

#: Older runs say little about today.
_LATEST = 5
#: So many runnable programs for each processor make no difference: a rig is two of them.
_FAIR = 2.0


@dataclass(frozen=True, slots=True)
class Load:
    """How many programs want to run on this host, and on how many processors."""

    running: float
    cpus: int

    @classmethod
    def now(cls) -> Load:
        """Ask the kernel: the mean of the last minute."""
        return cls(os.getloadavg()[0], os.cpu_count() or 1)

    @property
    def slowness(self) -> float:
        """Estimate how many times longer programs take. Measured: 4 times with 15 at work on two processors."""
        return max(1.0, self.running / self.cpus / _FAIR)

    @property
    def note(self) -> str:
        """Say what the estimate assumes; empty on a quiet host."""
        if self.slowness < _NOTED:
            return ""
        told = f"a load of {self.running:.1f} on {self.cpus} processors"
        return f"this host is busy ({told}): the estimate assumes that programs take {self.slowness:.1f} times as long"


#: Less slowness than this is not worth a note.
_NOTED = 1.25
QUIET = Load(0.0, 1)


def pace_of(
    results: Path, here: Machine, name: str, matrix: Matrix, specs: Collection[RigSpec], load: Load = QUIET
) -> Pace:
    """Gather what is known of a machine, by the name that its runs carry, for one matrix."""
    return recorded_pace(results, name, matrix.name, constants(here, matrix, specs, load))


def constants(here: Machine, matrix: Matrix, specs: Collection[RigSpec], load: Load = QUIET) -> Pace:
    """Look up what a machine costs. Starts nothing."""
    ahead = here.preparation(specs) if isinstance(here, ForecastsCost) else Preparation()
    disks = matrix.every_disk()
    simulated = [disk.physics for disk in disks if disk.physics]
    return Pace(
        costs=COSTS[here.processor() if isinstance(here, ForecastsCost) else "native"].slowed(load.slowness),
        physics=min(simulated, key=lambda one: one.rate(2**20, random=False, write=True), default=None),
        memory=matrix.machine.memory,
        disks=len(disks),
        once=ahead.once * load.slowness,
        each=ahead.each * load.slowness,
    )


def recorded_pace(results: Path, machine: str, matrix: str, guess: Pace) -> Pace:
    """Refine a guess by the latest runs of this matrix on this machine.

    Other matrices have other layers, disks and run times. They only say how much trials scatter.
    """
    found = sorted(
        (run for run in runs(results) if run.manifest.machine == machine), key=lambda run: run.manifest.started
    )
    alike = [run for run in found if run.manifest.matrix == matrix]
    taken = list(_taken((alike or found)[-_LATEST:]))
    # What a dry run says that it wrote is synthetic.
    scatter = [] if machine == "dry" else [one for took in taken for one in took.scatter]
    guess = replace(guess, scatter=median(scatter) if scatter else None, scattered=len(taken))
    if not (alike and taken):
        return guess
    set_ups = [took.setup for took in taken if took.setup is not None]
    rates = [] if machine == "dry" else [took.write_rate for took in taken if took.write_rate]
    return replace(
        guess,
        overhead=max(0.0, fmean(took.overhead or 0.0 for took in taken)),
        set_up=fmean(set_ups) if set_ups else None,
        write_rate=fmean(rates) if rates else None,
        cells={cell: seconds for took in taken for cell, seconds in took.cells.items()},
        stacks={stack: seconds for took in taken for stack, seconds in took.stacks.items()},
        runs=len(taken),
        rated=len(rates),
    )


def _taken(past: Iterable[RunFolder]) -> Iterable[MeanTimes]:
    """Read what runs took; one that cannot be read is passed over, as planning needs none."""
    for run in past:
        try:
            with Journal.existing(run.journal) as journal:
                took = journal.mean_times()
        except MatrixError:
            continue
        if took.overhead is not None:
            yield took
