"""What runs that are already recorded say about how long things take here."""

from __future__ import annotations

from math import inf
from statistics import fmean, median
from typing import TYPE_CHECKING

from runner.base.errors import MatrixError
from runner.engine.estimate import Pace
from runner.results.journal import Journal
from runner.results.run_folder import runs

if TYPE_CHECKING:
    from pathlib import Path

#: Older runs say little about today.
_LATEST = 5


def recorded_pace(results: Path, machine: str, matrix: str) -> Pace:
    """The pace of the latest runs on this machine, of this matrix if there are any; guesses where nothing is recorded.

    How fast disks are written is another matter on other disks, so runs of other matrices say nothing about it.
    """
    made_up = machine == "dry"
    found = sorted(
        (run for run in runs(results) if run.manifest.machine == machine), key=lambda run: run.manifest.started
    )
    alike = [run for run in found if run.manifest.matrix == matrix]
    taken = []
    for run in (alike or found)[-_LATEST:]:
        try:
            with Journal.existing(run.journal) as journal:
                taken.append(journal.took())
        except MatrixError:
            continue  # a run that cannot be read cannot be learnt from, and planning needs none
    overheads = [took.overhead for took in taken if took.overhead is not None]
    if not overheads:
        return Pace()
    set_ups = [took.setup for took in taken if took.setup is not None]
    # What a dry run says that it wrote is made up.
    rates = [took.write_rate for took in taken if took.write_rate and alike and not made_up]
    scatter = [one for took in taken for one in took.scatter]
    guess = Pace()
    return Pace(
        overhead=max(0.0, fmean(overheads)),
        set_up=fmean(set_ups) if set_ups else guess.set_up,
        write_rate=fmean(rates) if rates else guess.write_rate,
        lay_rate=inf if alike else guess.lay_rate,
        runs=len(overheads),
        rated=len(rates),
        scatter=median(scatter) if scatter and not made_up else None,
    )
