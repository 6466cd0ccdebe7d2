"""The speed of a machine, from recorded runs of a matrix, or from constants for its first run."""

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

#: The number of latest runs that count.
_LATEST = 5
#: Up to this load per processor, programs are not slower: one rig is two runnable programs.
_RUNNABLE_PER_CPU = 2.0


@dataclass(frozen=True, slots=True)
class Load:
    """The number of runnable programs on this host, and of its processors."""

    running: float
    cpus: int

    @classmethod
    def now(cls) -> Load:
        """Return the mean load of the last minute."""
        return cls(os.getloadavg()[0], os.cpu_count() or 1)

    @property
    def slowness(self) -> float:
        """Estimate the slowdown of programs. Measured: 4 times with 15 runnable programs on two processors."""
        return max(1.0, self.running / self.cpus / _RUNNABLE_PER_CPU)

    @property
    def note(self) -> str:
        """Return the assumption of the estimate; empty if that is no large slowdown."""
        if self.slowness < _NOTED:
            return ""
        load = f"a load of {self.running:.1f} on {self.cpus} processors"
        return f"this host is busy ({load}): the estimate assumes that programs take {self.slowness:.1f} times as long"


#: Less slowness than this is not worth a note.
_NOTED = 1.25
QUIET = Load(0.0, 1)


def pace_of(
    results: Path, here: Machine, name: str, matrix: Matrix, specs: Collection[RigSpec], load: Load = QUIET
) -> Pace:
    """Return the pace of a machine for a matrix. `name`: the machine in the manifests of recorded runs."""
    return refine_pace(results, name, matrix.name, machine_pace(here, matrix, specs, load))


def machine_pace(here: Machine, matrix: Matrix, specs: Collection[RigSpec], load: Load = QUIET) -> Pace:
    """Return the pace of a machine from constants. Starts no program."""
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


def refine_pace(results: Path, machine: str, matrix: str, guess: Pace) -> Pace:
    """Refine a guess by the latest runs of this matrix on this machine.

    Runs of other matrices only give the scatter of trials: their layers, disks and run times differ.
    """
    found = sorted(
        (run for run in runs(results) if run.manifest.machine == machine), key=lambda run: run.manifest.started
    )
    alike = [run for run in found if run.manifest.matrix == matrix]
    times = list(_mean_times((alike or found)[-_LATEST:]))
    synthetic = any(run.manifest.synthetic for run in found)
    scatter = [] if synthetic else [one for run in times for one in run.scatter]
    guess = replace(guess, scatter=median(scatter) if scatter else None, scattered=len(times))
    if not (alike and times):
        return guess
    set_ups = [run.setup for run in times if run.setup is not None]
    rates = [] if synthetic else [run.write_rate for run in times if run.write_rate]
    return replace(
        guess,
        overhead=max(0.0, fmean(run.overhead or 0.0 for run in times)),
        set_up=fmean(set_ups) if set_ups else None,
        write_rate=fmean(rates) if rates else None,
        cells={cell: seconds for run in times for cell, seconds in run.cells.items()},
        stacks={stack: seconds for run in times for stack, seconds in run.stacks.items()},
        runs=len(times),
        rated=len(rates),
    )


def _mean_times(past: Iterable[RunFolder]) -> Iterable[MeanTimes]:
    """Read the times of runs. Skips unreadable journals: an estimate can do without them."""
    for run in past:
        try:
            with Journal.existing(run.journal) as journal:
                times = journal.mean_times()
        except MatrixError:
            continue
        if times.overhead is not None:
            yield times
