"""What past runs teach: the pace of trials and set-ups, the rate of writes, the factors of slow motion of this host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from matrix_runner.base.errors import MatrixError
from matrix_runner.base.files import read_input, write_atomically
from matrix_runner.decide.costs import Factors
from matrix_runner.decide.estimate import QUIET, Load, Pace, costs_of, machine_pace
from matrix_runner.hosts.disk_ledger import state_dir
from matrix_runner.machines.rig_specs import simulated_disk_facts
from matrix_runner.records.run_folder import Manifest, RunFolder, runs

if TYPE_CHECKING:
    from matrix_runner.language.matrix import Matrix
    from matrix_runner.machines.base import Machine, RigSpec
    from matrix_runner.records.journal_reader import MeanTimes

_MOST = 10_000  # kinds of cells
_KNOWN = TypeAdapter(dict[str, int])


def factors_of(matrix: Matrix, here: Machine) -> Factors | None:
    """Return what chooses the factors of trials; None if the matrix declares one, or if no disks are simulated."""
    if not (matrix.chooses_slow and here.brings_disks):
        return None
    costs = costs_of(here)
    path = state_dir() / "slow-motion" / f"{here.name}.json"

    def keep(kind: str, factor: int) -> None:
        known = {**_read(path), kind: factor}
        latest = dict(list(known.items())[-_MOST:])
        with suppress(OSError, MatrixError):  # a full disk, or a folder of another user: a later run learns it again
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, _KNOWN.dump_json(latest))

    return Factors(matrix, costs, _read(path), keep)


def _read(path: Path) -> dict[str, int]:
    try:
        return _KNOWN.validate_json(read_input(path))
    except (OSError, MatrixError, ValidationError):
        return {}


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
    """Refine a guess by past runs of this matrix on this machine. Other work may scatter ten times as much."""
    found = [run for run in runs(results) if (run.manifest.machine, run.manifest.matrix) == (machine, matrix)]
    found = sorted((run for run in found if alike(run.manifest)), key=lambda run: run.manifest.started)
    times = list(_mean_times(found[-_LATEST:]))
    if not times:
        return guess
    synthetic = any(run.manifest.synthetic for run in found)
    scatter = [] if synthetic else [one for run in times for one in run.scatter]
    set_ups = [run.setup for run in times if run.setup is not None]
    rates = [] if synthetic else [run.write_rate for run in times if run.write_rate]
    return replace(
        guess,
        scatter=median(scatter) if scatter else None,
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
