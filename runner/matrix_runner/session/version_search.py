"""The search for the version at which a figure changed: its cells and rule, from options, a run or two nights."""

from __future__ import annotations

from dataclasses import replace
from math import log1p
from typing import TYPE_CHECKING

from matrix_runner.answers.axes import names_of
from matrix_runner.answers.cell_figures import Measured
from matrix_runner.answers.comparison import Speed
from matrix_runner.answers.pairs import differences
from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.decide.bisect import OF_SHARED_BOOTS, Rule, State
from matrix_runner.decide.steering import USUAL, Bisection, BisectSteering, versions_along
from matrix_runner.language.matrix import Repeat
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.records.run_folder import MANIFEST, RunFolder, UnusableManifest
from matrix_runner.session.versions import NO_VERSIONS, BisectOptions, Versions, matching_names, only_one
from matrix_runner.space.rules import BadRule, axis_named
from matrix_runner.work.metrics import KNOWN, Metric, metric_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matrix_runner.answers.comparison import Comparison
    from matrix_runner.records.journal import Journal
    from matrix_runner.session.selected_matrix import SelectedMatrix

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
    about = wanted.versions.as_written() | ({"boots": "of the host"} if versions.running else {})
    if versions.running:
        bisection = replace(bisection, rule=replace(bisection.rule, variance=OF_SHARED_BOOTS))
    running = bisection.names.index(versions.running) if versions.running else None
    bisection = replace(bisection, titles=versions.titles, likely=likely, about=about, cost=versions.cost)
    skip = [word for word in wanted.skip if not wanted.versions.in_phases or matching_names(versions.names, word)]
    bisection = replace(bisection, running=running, skip=_skipped(skip, bisection.names))
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


def _skipped(words: Iterable[str], names: Sequence[str]) -> frozenset[int]:
    found = {names.index(only_one(f"--skip {word}", word, "the search", names)): word for word in words}
    for at in {0, len(names) - 1} & found.keys():
        raise BadInput(f"--skip {found[at]}: each round needs good and bad", resolution="begin between two others")
    return frozenset(found)


def record_skipped(bisection: Bisection, journal: Journal) -> None:
    """Record the versions that the user leaves out as skipped in the open round: they stay so."""
    search, done = read_search(bisection, journal), set(journal.recorded_identities())
    for cell in (cell for at in bisection.skip - search.standing.skipped for cell in bisection.cells[at]):
        if (cell.id, search.open_round) not in done:
            journal.record(Trial(cell.id, search.open_round, Outcome.SKIPPED, "left out by --skip"))


def begin_between(
    runs: tuple[str, str], done: Comparison, wanted: BisectOptions, *, is_chosen: bool
) -> tuple[BisectOptions, CellRow | None]:
    """Return a search between two runs, by their kernels, and the cell that became slower the most.

    `is_chosen`: the user has chosen cells.
    """
    kernels = next((ends for name, *ends in differences(done.a, done.b) if name == "guest.kernel"), ("", ""))
    found = replace(wanted, good=wanted.good or kernels[0], bad=wanted.bad or kernels[1])
    if not (found.good and found.bad):
        raise BadInput(
            f"{runs[0]} and {runs[1]} have the same kernel, so they name no versions",
            resolution="add --good and --bad: values of an axis (--along), or commits (--git) of what differs",
        )
    slower = [line for line in done.lines if line.speed is Speed.SLOWER]
    if not slower and not is_chosen:
        raise BadInput(
            f"no cell of {runs[1]} is known to be slower than in {runs[0]}",
            resolution=f"see `matrix compare {' '.join(runs)}`; --only chooses the cells to search with",
        )
    return found, None if is_chosen else min(slower, key=lambda line: line.log_speed).pair.right[0].cell


def bisection_of(rows: Sequence[CellRow], wanted: BisectOptions) -> Bisection:
    axes = names_of(row.axes for row in rows)
    if wanted.along == "kernel" and "kernel" not in axes:
        remedy = "name them by --fetch, --kernels or --git, or list them in `machine: {kernel: […]}`"
        raise BadInput("the matrix has no kernels to search", resolution=f"{remedy}; --along searches an axis")
    try:
        along = axis_named(wanted.along, axes)
    except BadRule as flaw:
        raise BadInput(f"--along: {flaw.brief}", resolution=flaw.remedy) from None
    versions = versions_along(rows, along, wanted.good, wanted.bad)
    metric = _metric(wanted.metric) if wanted.metric else None
    worse = 1 if metric and not metric.more_is_better else -1
    rule = Rule(confidence=wanted.confidence, smallest=log1p(wanted.smallest), worse=worse)
    return Bisection(along, tuple(versions), tuple(map(tuple, versions.values())), metric, rule)


def recorded_search(folder: RunFolder, journal: Journal) -> BisectSteering:
    """Return the search of a run by its manifest and its journal."""
    written = folder.manifest.search
    try:
        metric = None if written["metric"] == USUAL else written["metric"]
        confidence, smallest = float(written["confidence"]), float(written["smallest"])
        if not (0 < confidence < 1 and 0 < smallest < 0.5):
            raise ValueError(f"confidence {confidence}, smallest {smallest}")  # noqa: TRY301 - a message below says more
        wanted = BisectOptions(written["along"], written["good"], written["bad"], metric, confidence, smallest)
        found = bisection_of(journal.cells(), wanted)
        rule = replace(found.rule, variance=OF_SHARED_BOOTS) if "boots" in written else found.rule
        return read_search(replace(found, rule=rule, titles=folder.manifest.titles), journal)
    except (KeyError, ValueError, ArithmeticError) as problem:
        why = "someone edited its `search`: restore it from a backup"
        raise UnusableManifest(
            f"{folder.path / MANIFEST} has no search", details=repr(problem), resolution=why
        ) from problem


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
