"""What past runs teach an estimate: the pace of trials and set-ups, and the rate of writes."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from matrix_runner.base.errors import MatrixError
from matrix_runner.carry.known_factors import factors_of
from matrix_runner.carry.rigs import simulated_disk_facts
from matrix_runner.decide.estimate import QUIET, Load, Pace, machine_pace
from matrix_runner.records.run_folder import RunFolder, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from matrix_runner.language.matrix import Matrix
    from matrix_runner.machines.base import Machine, RigSpec
    from matrix_runner.records.journal_reader import MeanTimes
    from matrix_runner.records.run_folder import Manifest

_LATEST = 5  # the number of latest runs that count


def pace_of(
    results: Path, here: Machine, name: str, matrix: Matrix, specs: Collection[RigSpec], load: Load = QUIET
) -> Pace:
    guess = replace(machine_pace(here, matrix, specs, load), factors=factors_of(matrix, here))
    disks = tuple(map(simulated_disk_facts, matrix.every_disk()))

    def alike(past: Manifest) -> bool:
        """Return whether it had these disks. Physical disks are not compared."""
        return not here.brings_disks or (past.disks == disks and past.slow == guess.slow)

    return refine_pace(results, name, matrix.name, guess, alike)


def refine_pace(results: Path, machine: str, matrix: str, guess: Pace, alike: Callable[[Manifest], bool]) -> Pace:
    """Refine a guess by past runs of this machine. Runs of other matrices or disks only give the scatter of trials."""
    found = [run for run in runs(results) if run.manifest.machine == machine]
    found.sort(key=lambda run: run.manifest.started)
    same = [run for run in found if run.manifest.matrix == matrix and alike(run.manifest)]
    times = list(_mean_times((same or found)[-_LATEST:]))
    synthetic = any(run.manifest.synthetic for run in found)
    scatter = [] if synthetic else [one for run in times for one in run.scatter]
    guess = replace(guess, scatter=median(scatter) if scatter else None, scattered=len(times))
    if not (same and times):
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


def _mean_times(past: Sequence[RunFolder]) -> Iterable[MeanTimes]:
    """Read the times of runs. Skips unreadable journals: an estimate can do without them."""
    if not past:
        return
    from matrix_runner.records.journal import Journal  # brings SQLAlchemy along

    for run in past:
        try:
            with Journal.existing(run.journal) as journal:
                times = journal.mean_times()
        except MatrixError:
            continue
        if times.overhead is not None:
            yield times
