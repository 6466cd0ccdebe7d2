"""`matrix study`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.options import MatrixPath, results, store
from runner.cli.screen import echo
from runner.cli.store_options import SHOWN, answer, chosen_runs, form, opened, to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.analysis.samples import Samples
    from runner.guidelines.verdicts import Judgement
    from runner.language.matrix import Matrix
    from runner.reports.table import Grid
    from runner.results.store import RunRow, SharedStore
    from runner.space.space import Space
    from runner.space.studies import Study
    from runner.studies.compare import ComparedFigure

_EPILOG = """\b
Examples:
  matrix study matrix/studies/lvm-striping                its latest finished run beside what was published
  matrix study matrix/studies/*/ --page                   writes that into the README.md of each of them
  matrix study matrix/studies/mdadm-lvm --run 'mdadm-lvm-qemu-*' --format csv

\b
A published ratio is met if the interval of the measured one lies within 15 % of it. How runs are named:
`matrix results --help`.
"""


@click.command("study", epilog=_EPILOG)
@click.argument("studies", nargs=-1, required=True, type=MatrixPath(path_type=Path))
@click.option(
    "--run",
    "runs",
    multiple=True,
    help="These runs of its matrix instead of the latest finished one that was measured; several count together.",
)
@click.option("--page", is_flag=True, help="Also write it into the README.md beside what was published.")
@form
@to
@results
@store
def command(
    studies: tuple[Path, ...],
    runs: tuple[str, ...],
    page: bool,
    form: str,
    to: Path | None,
    results: Path,
    store: str | None,
) -> None:
    """Put what STUDIES, folders with a matrix and what was published, say beside what was measured here."""
    declared = [_declared(path) for path in studies]
    with opened(store, results) as shared:
        _tell_of_others({space.matrix.name for _, space, _ in declared}, shared, runs)
        found = [(one, _runs_of(one[1].matrix.name, shared, runs)) for one in declared]
        _check([path for (path, _, _), among in found if not among], runs, nothing=not any(among for _, among in found))
        done = [_beside(*one, shared, among) for one, among in found if among]
    answer(_together(done, people=form in SHOWN), form, to)
    if page:
        for one in done:
            _write(one)


@dataclass(frozen=True)
class Done:
    """A study, and what was measured of it."""

    path: Path
    matrix: Matrix
    study: Study
    runs: Sequence[RunRow]
    samples: Sequence[Samples]
    held: list[ComparedFigure]
    judgements: list[Judgement]


def _declared(path: Path) -> tuple[Path, Space, Study]:
    from runner.base.errors import BadInput
    from runner.space.load import load
    from runner.space.studies import MATRIX, PUBLISHED, study_beside

    space = load(path).space
    study = study_beside(path, space)
    if study is None:
        raise BadInput(
            f"{path}: is no study: there is no {PUBLISHED} beside it",
            resolution=f"name a folder with a {MATRIX} and a {PUBLISHED}; docs/guidelines.md says what is in one",
        )
    return path, space, study


def _beside(path: Path, space: Space, study: Study, shared: SharedStore, among: list[RunRow]) -> Done:
    from runner.analysis import stored_guidelines as advice
    from runner.analysis.samples import read_samples
    from runner.studies.compare import columns_of, compare_published

    matrix = space.matrix
    columns = dict.fromkeys([*columns_of(study.published), *advice.columns_of(matrix.guidelines)])
    samples = read_samples(shared, among, list(columns), histograms=False)
    _check_alike(path, space, samples)
    judgements = advice.judged_in_store(matrix.guidelines, samples)
    synthetic = any(run.synthetic for run in among)
    share = advice.share_of(samples)
    held = compare_published(study.published, map(advice.as_measured, samples), synthetic=synthetic, share=share)
    return Done(path, matrix, study, among, samples, held, judgements)


def _check_alike(path: Path, space: Space, samples: Sequence[Samples]) -> None:
    """Several runs count together cell by cell: refuse those of a matrix that had the name, and none of the cells."""
    from runner.analysis.no_overlap import unrelated_runs
    from runner.base.errors import BadInput

    cells: dict[str, set[str]] = {}
    for one in samples:
        cells.setdefault(one.run.name, set()).add(one.cell.id)
    others = unrelated_runs(cells, {cell.id for cell in space.cells()})
    if others:
        raise BadInput(
            f"{path}: not all of these runs are of this matrix as it is now, so they cannot count together",
            details="\n".join(f"- {name} has none of its cells" for name in others),
            resolution="leave those out of --run, or name one alone: then its cells are known by their axes",
        )


def _tell_of_others(names: set[str], shared: SharedStore, words: Sequence[str]) -> None:
    """Runs that somebody named and that no study here is of."""
    left = [run for run in chosen_runs(shared, words) if run.matrix not in names] if words else []
    for run in left:
        echo(f"note: {run.name} is of the matrix {run.matrix}, which is none of these studies; left out", err=True)


def _runs_of(name: str, shared: SharedStore, words: Sequence[str]) -> list[RunRow]:
    """Those that were named and are of this matrix; else the latest finished one that was measured."""
    there = [run for run in chosen_runs(shared, words) if run.matrix == name]
    return there if words else [run for run in there if run.finished and not run.synthetic][:1]


def _check(without: Sequence[Path], words: Sequence[str], *, nothing: bool) -> None:
    """Of several studies those without a run are left out, and that is said; without any run there is no answer."""
    from runner.base.errors import BadInput

    names = ", ".join(str(path.parent) for path in without)
    told = f"none of the runs that were named is of {names}" if words else f"no run of {names} was measured to its end"
    if nothing:
        raise BadInput(
            told,
            resolution=f"`matrix run {without[0].parent}` measures it; --run names one that is unfinished or synthetic",
        )
    if without:
        echo(f"note: {told}; left out", err=True)


def _together(done: Sequence[Done], *, people: bool) -> Grid:
    """All of them as one table."""
    from dataclasses import replace

    from runner.studies.page import data_table, display_table, summary_line

    if not people:
        grids = [data_table(one.study.published.source, one.held) for one in done]
        return replace(grids[0], rows=[row for grid in grids for row in grid.rows])
    grids = [display_table(one.held) for one in done]
    if len(done) == 1:
        return grids[0]
    notes = [f"{one.path.parent.name}: {note}" for one, grid in zip(done, grids, strict=True) for note in grid.notes]
    rows = [(one.path.parent.name, *row) for one, grid in zip(done, grids, strict=True) for row in grid.rows]
    total = f"all of them: {summary_line([row for one in done for row in one.held])}"
    return replace(grids[0], columns=("study", *grids[0].columns), rows=rows, notes=(*notes, total))


def _write(done: Done) -> None:
    from runner.base.atomic_files import write_atomically
    from runner.base.errors import BadInput
    from runner.space.load import text_of
    from runner.studies.page import new_page, page, replace_generated

    if any(run.synthetic for run in done.runs):
        raise BadInput(
            f"{done.runs[0].name}: its figures are synthetic, and a page is for measured ones",
            resolution="name a run that was measured with --run, or leave that out",
        )
    readme = done.path.with_name("README.md")
    about = " ".join(_about(run, done.samples) for run in done.runs)
    made = page(done.study.published.source, done.held, done.judgements, about)
    before = text_of(readme) if readme.exists() else new_page(done.matrix.name, done.matrix.description)
    write_atomically(readme, replace_generated(before, made, str(readme)).encode())
    echo(f"written to {readme}", err=True)


def _about(run: RunRow, samples: Sequence[Samples]) -> str:
    from runner.studies.page import About

    found = [one for one in samples if one.run.id == run.id]
    kernels = sorted({kernel for one in found for kernel in one.kernels})
    return str(
        About(
            run=run.name,
            started=run.started[:10],
            machine=run.machine,
            kernels=tuple(kernels),
            trials=sum(len(one.rows) for one in found),
            cells=len(found),
            host_limited=sum(one.host_limited for one in found),
        )
    )
