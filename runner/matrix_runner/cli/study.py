"""`matrix study`: the comparison with published figures is in studies/."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from matrix_runner.answers.axes import grouped, unrelated_runs
from matrix_runner.answers.published import ComparedFigure, columns_of, compare_published
from matrix_runner.answers.stored_samples import Samples, read_samples
from matrix_runner.answers.verdicts import Judgement
from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.base.files import write_atomically
from matrix_runner.cli.options import MatrixPath, run_option
from matrix_runner.cli.screen import echo
from matrix_runner.cli.store_options import Output, Source, open_store, output, select_runs, source, write_grid
from matrix_runner.language.matrix import Matrix
from matrix_runner.pages import stored as advice
from matrix_runner.pages.study import (
    check_table,
    data_table,
    describe_run,
    display_table,
    new_page,
    page,
    replace_generated,
    replace_state,
    state_line,
    summary_line,
)
from matrix_runner.pages.table import Grid
from matrix_runner.records.store import RunRow, SharedStore
from matrix_runner.space.basis import MEASURED, Basis, MeasuredPage, MeasuredRun, basis_of, measured_page
from matrix_runner.space.declared_files import MATRIX, PUBLISHED, Study, study_beside
from matrix_runner.space.load import load, text_of
from matrix_runner.space.select import refuse_many, select
from matrix_runner.space.space import Space

_EPILOG = """\b
Examples:
  matrix study matrix/studies/lvm-striping                compare its latest finished run with the published figures
  matrix study matrix/studies/*/ matrix/studies/raid-wiki/*/ --page
                                                          write the comparison into the README.md of each study
  matrix study matrix/studies/mdadm-lvm --run 'mdadm-lvm-qemu-*' --format csv

  matrix study --check matrix/studies/*/                list the studies that have to be measured again

\b
A published ratio is met if the interval of the measured one lies within 15 % of it.

\b
Names of runs: see `matrix results --help`.
"""


@click.command("study", epilog=_EPILOG)
@click.argument("studies", nargs=-1, required=True, type=MatrixPath(path_type=Path))
@run_option(
    "--run",
    "runs",
    multiple=True,
    help="Use these runs of its matrix together, instead of the latest finished one with measured trials.",
)
@click.option("--page", is_flag=True, help="Also write the comparison into the README.md of the study.")
@click.option(
    "--check",
    is_flag=True,
    help="Only list the studies whose page was measured with other physics, disk models or another matrix. Ends with 1 "
    "if there are any. With --page, their pages say so.",
)
@click.option("--oldest", is_flag=True, help="With --check: only print the folder of the one that was measured first.")
@output
@source
def command(
    studies: tuple[Path, ...],
    runs: tuple[str, ...],
    page: bool,
    check: bool,
    oldest: bool,
    output: Output,
    source: Source,
) -> None:
    """Compare the published figures of STUDIES (folders with matrix.yaml and published.yaml) with results."""
    if oldest and not check:
        raise BadInput("--oldest needs --check", resolution="add --check, or leave --oldest out")
    if check and runs:
        raise BadInput("--check reads the pages of studies, and --run names results", resolution="use one of the two")
    declared = [_load_study(path) for path in studies]
    if check:
        _check_pages([(path, space) for path, space, _ in declared], output, page=page, oldest=oldest)
        return
    with open_store(source) as shared:
        selected = select_runs(shared, runs)
        names = {space.matrix.name for _, space, _ in declared}
        for run in selected if runs else ():
            if run.matrix not in names:
                echo(f"note: {run.name} left out: its matrix {run.matrix} belongs to no given study", err=True)
        found = []
        for one in declared:
            among = [run for run in selected if run.matrix == one[1].matrix.name]
            # Unnamed: the latest run that is finished and measured.
            latest = [run for run in among if run.finished and not run.synthetic][:1]
            found.append((one, among if runs else latest))
        _check_runs(
            [path for (path, _, _), among in found if not among], runs, refuse=not any(among for _, among in found)
        )
        done = [_compare(*one, shared, among) for one, among in found if among]
    write_grid(_join_grids(done, people=output.is_text), output)
    if page:
        for result in done:
            _write(result)


def _check_pages(declared: Sequence[tuple[Path, Space]], output: Output, *, page: bool, oldest: bool) -> None:
    found = [(str(path.parent), measured_page(path.parent), basis_of(space.matrix)) for path, space in declared]
    if page:
        for folder, shown, now in found:
            _write_page(Path(folder, "README.md"), partial(replace_state, state=state_line(shown, now)))
    outdated = [(folder, shown, shown.changes(now)) for folder, shown, now in found if shown.changes(now)]
    if oldest:
        first = min(outdated, key=lambda one: one[1].age, default=None)
        if first:
            echo(first[0])
    else:
        write_grid(check_table(outdated, len(found)), output)
    if outdated:
        raise click.exceptions.Exit(Exit.CLAIM_FAILED)


def _write_page(readme: Path, change: Callable[[str], str], new: str = "") -> None:
    """Change a page, if there is one or `new` has its other parts."""
    before = text_of(readme) if readme.exists() else ""
    made = change(before or new) if before or new else ""
    if made != before:
        write_atomically(readme, made.encode())
        echo(f"written to {readme}", err=True)


@dataclass(frozen=True)
class StudyResult:
    path: Path
    matrix: Matrix
    study: Study
    runs: Sequence[RunRow]
    samples: Sequence[Samples]
    comparisons: list[ComparedFigure]
    judgements: list[Judgement]


def _load_study(path: Path) -> tuple[Path, Space, Study]:
    space = load(path).space
    study = study_beside(path, space)
    if study is None:
        raise BadInput(
            f"{path} is no study: there is no {PUBLISHED} beside it",
            resolution=f"name a folder with a {MATRIX} and a {PUBLISHED}; see `matrix help reproduce-a-study`",
        )
    return path, space, study


def _compare(path: Path, space: Space, study: Study, shared: SharedStore, among: list[RunRow]) -> StudyResult:
    matrix = space.matrix
    columns = dict.fromkeys([*columns_of(study.published), *advice.columns_of(matrix.guidelines)])
    samples = read_samples(shared, among, list(columns), histograms=False)
    _check_same_matrix(path, space, samples)
    judgements = advice.judged_in_store(matrix.guidelines, samples)
    synthetic = any(run.synthetic for run in among)
    share = advice.share_of(samples)
    comparisons = compare_published(study.published, map(advice.as_measured, samples), synthetic=synthetic, share=share)
    return StudyResult(path, matrix, study, among, samples, comparisons, judgements)


def _check_same_matrix(path: Path, space: Space, samples: Sequence[Samples]) -> None:
    """Refuse runs of an older matrix with the same name but no cell in common: runs count together cell by cell."""
    refuse_many(select(space), "compare")
    cells = {run: {*ids} for run, ids in grouped((one.run.name, one.cell.id) for one in samples).items()}
    others = unrelated_runs(cells, {cell.id for cell in space.cells()})
    if others:
        raise BadInput(
            f"{path}: some of these runs share no cell with the current matrix, so they cannot count together",
            details="\n".join(f"- {name} has no cell of it" for name in others),
            resolution="leave those out of --run, or name only one: its cells are then matched by axes",
        )


def _check_runs(without: Sequence[Path], words: Sequence[str], *, refuse: bool) -> None:
    names = ", ".join(str(path.parent) for path in without)
    reason = f"no named run belongs to {names}" if words else f"no finished, measured run of {names}"
    if refuse:
        raise BadInput(
            reason,
            resolution=f"`matrix run {without[0].parent}` measures it; --run also takes interrupted or synthetic runs",
        )
    if without:
        echo(f"note: {reason}; left out", err=True)


def _join_grids(done: Sequence[StudyResult], *, people: bool) -> Grid:
    if not people:
        grids = [data_table(one.study.published.source, one.comparisons) for one in done]
        return replace(grids[0], rows=[row for grid in grids for row in grid.rows])
    grids = [display_table(one.comparisons) for one in done]
    if len(done) == 1:
        return grids[0]
    notes = [f"{one.path.parent.name}: {note}" for one, grid in zip(done, grids, strict=True) for note in grid.notes]
    rows = [(one.path.parent.name, *row) for one, grid in zip(done, grids, strict=True) for row in grid.rows]
    total = f"all of them: {summary_line([row for one in done for row in one.comparisons])}"
    return replace(grids[0], columns=("study", *grids[0].columns), rows=rows, notes=(*notes, total))


def _write(done: StudyResult) -> None:
    if any(run.synthetic for run in done.runs):
        raise BadInput(
            f"{done.runs[0].name}: --page needs measured figures, and these are synthetic",
            resolution="name a measured run with --run, or leave --page out",
        )
    sentences = []
    for run in done.runs:
        found = [one for one in done.samples if one.run.id == run.id]
        kernels = sorted({kernel for one in found for kernel in one.kernels})
        trials, host_limited = sum(len(one.rows) for one in found), sum(one.host_limited for one in found)
        place = run.name, run.started[:10], run.machine, kernels
        sentences.append(describe_run(*place, trials, len(found), host_limited))
    about = " ".join(sentences)
    shown = MeasuredPage(runs=tuple(map(_measured_run, done.runs)))
    state = state_line(shown, basis_of(done.matrix))
    made = page(done.study.published.source, done.comparisons, done.judgements, about)
    readme = done.path.with_name("README.md")
    # The page first: with an old record it only counts as out of date.
    _write_page(
        readme,
        lambda text: replace_state(replace_generated(text, made, str(readme)), state),
        new=new_page(done.matrix.name, done.matrix.description),
    )
    write_atomically(done.path.with_name(MEASURED), shown.model_dump_json(indent=2).encode() + b"\n")


def _measured_run(run: RunRow) -> MeasuredRun:
    basis = Basis.model_validate({name: run.environment.get(f"digest.{name}", "") for name in Basis.model_fields})
    return MeasuredRun(name=run.name, started=run.started, basis=basis)
