"""A search for the version at which a figure changed: a run whose rounds measure the most informative versions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log1p
from typing import TYPE_CHECKING

from matrix_runner.answers.samples import Measured
from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.decide.bisect import Rule, State
from matrix_runner.decide.bisect_cells import USUAL, Bisection, BisectSteering, versions_along
from matrix_runner.language.matrix import Repeat
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.records.record import CellRow
from matrix_runner.session.versions import NO_VERSIONS, NOT_WANTED, Versions, WantedVersions
from matrix_runner.work.metrics import KNOWN, Metric, metric_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matrix_runner.records.journal import Journal
    from matrix_runner.session.selected_matrix import SelectedMatrix


@dataclass(frozen=True)
class BisectOptions:
    along: str
    good: str
    bad: str
    metric: str | None
    confidence: float
    smallest: float
    versions: WantedVersions = NOT_WANTED


EXITS = {
    State.FOUND: Exit.ALL_MEASURED,
    State.EQUAL: Exit.CLAIM_FAILED,
    State.REVERSED: Exit.CLAIM_FAILED,
    State.NO_FIGURES: Exit.BROKEN,
}


def narrowed(
    selected: SelectedMatrix, wanted: BisectOptions, versions: Versions = NO_VERSIONS
) -> tuple[SelectedMatrix, Bisection]:
    """Return the search, and the selection of its cells without a minimum of trials."""
    for option, share, most in (("--confidence", wanted.confidence, 1.0), ("--smallest", wanted.smallest, 0.5)):
        if not 0 < share < most:
            usual = "95%" if most == 1 else "1%"
            raise BadInput(f"{option} {share:.4g}: must lie between 0% and {most:.0%}", resolution=f"write {usual}")
    cells = {cell.id: cell for cell in selected.selection.cells()}
    if versions.names:
        wanted = replace(wanted, good=versions.names[0], bad=versions.names[-1])
    bisection = bisection_of([CellRow(cell.id, cell.name, cell.axes) for cell in cells.values()], wanted)
    likely = frozenset(at for at, name in enumerate(bisection.names) if name in versions.likely)
    about = wanted.versions.as_written()
    bisection = replace(bisection, titles=versions.titles, likely=likely, about=about, cost=versions.cost)
    chosen = [row for several in bisection.cells for row in several]
    for row in chosen:
        jobs = cells[row.id].workload.value.directions
        if bisection.metric and not Measured("", row, jobs=jobs).has(bisection.metric):
            raise BadInput(
                f"--metric {bisection.figure}: {row.name} has no such figure",
                resolution="name a figure of all selected cells, or select other cells with --only",
            )
    selection = replace(selected.selection, ids=frozenset(row.id for row in chosen))
    repeat = Repeat.model_construct(min=0, max=0, until=None, confidence=wanted.confidence)
    return replace(
        selected, selection=selection, plan=replace(selected.plan, selection=selection, repeat=repeat)
    ), bisection


def bisection_of(rows: Sequence[CellRow], wanted: BisectOptions) -> Bisection:
    versions = versions_along(rows, wanted.along, wanted.good, wanted.bad)
    metric = _metric(wanted.metric) if wanted.metric else None
    worse = 1 if metric and not metric.more_is_better else -1
    rule = Rule(confidence=wanted.confidence, smallest=log1p(wanted.smallest), worse=worse)
    return Bisection(wanted.along, tuple(versions), tuple(map(tuple, versions.values())), metric, rule)


def recorded_search(written: Mapping[str, str], titles: Mapping[str, str], journal: Journal) -> BisectSteering:
    """Return the search of a run by its manifest and its journal."""
    metric = None if written["metric"] == USUAL else written["metric"]
    confidence, smallest = float(written["confidence"]), float(written["smallest"])
    wanted = BisectOptions(written["along"], written["good"], written["bad"], metric, confidence, smallest)
    return read_search(replace(bisection_of(journal.cells(), wanted), titles=titles), journal)


def _metric(word: str) -> Metric:
    try:
        return metric_named(word)
    except KeyError:
        raise BadInput(f"--metric {word} is not a figure", resolution=did_you_mean(word, KNOWN)) from None


def read_search(bisection: Bisection, journal: Journal) -> BisectSteering:
    """Return the search as the recorded trials leave it."""
    found = BisectSteering(bisection)
    for trial in journal.trials():
        found.add(trial)
    return found


def exit_of(search: BisectSteering) -> Exit:
    return EXITS.get(search.standing.state, Exit.CANNOT_TELL)
