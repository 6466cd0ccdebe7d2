"""`matrix recommend`: the choice is in answers/ranking.py, the script in scripts/recommended_commands.py."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import write_output
from matrix_runner.cli.options import FILE, rows, run_argument, templates
from matrix_runner.cli.screen import echo, echo_whole
from matrix_runner.cli.store_options import Output, Source, form, open_store, select_runs, source, write_grid
from matrix_runner.language.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix_runner.answers.knee import Knee
    from matrix_runner.answers.ranking import Recommendation, Setting
    from matrix_runner.answers.stored_samples import Samples
    from matrix_runner.records.run_folder import Manifest
    from matrix_runner.records.store import RunRow
    from matrix_runner.space.space import Cell
    from matrix_runner.work.metrics import Metric

_EPILOG = """\b
Examples:
  matrix recommend latest --for 'workload=oltp'                          the best stack for a workload
  matrix recommend chunk-sweep --for 'workload=random,rw=randwrite' --metric write.iops
  matrix recommend latest --for 'workload=oltp,layout=raid5' --script best.sh

\b
Without --for, the workloads in `for:` of the matrix count, by their weights.
If --for selects several workloads, or the matrix has no `for:`, they have
equal weight.

\b
Names of runs: see `matrix results --help`.
"""


#: The second line of commands from a dry run: people pass commands on without the table.
SYNTHETIC = "# SYNTHETIC, no recommendation: the figures come from the dry machine, which does not measure.\n"


@click.command("recommend", epilog=_EPILOG)
@run_argument("run")
@click.option(
    "--for",
    "wanted",
    multiple=True,
    metavar="AXIS=VALUE,…",
    help="The workload and other conditions, as for --only. If repeated: cells that match any of them.",
)
@click.option(
    "--metric",
    help="The figure to rank by, JOB.read_iops for one job; for latencies the lowest is best.  [default: total.bw for "
    "large requests, total.iops for small ones]",
)
@rows(20)
@click.option("--script", type=FILE, help="Write the commands to this file.")
@form
@templates
@source
def command(
    run: str,
    wanted: tuple[str, ...],
    metric: str | None,
    rows: int,
    script: Path | None,
    form: str,
    templates: Path | None,
    source: Source,
) -> None:
    """Show the best setting of RUN, settings that may be equally good, and the commands to build it."""
    from matrix_runner.pages.ranking import recommendation_rows, recommendation_table

    output = Output(form)
    row, manifest, samples, left, found = _recommend(run, wanted, metric, source)
    cells = {one.cell.id: one.cell for one in samples}
    best = _best_cell(manifest, found)
    grid = recommendation_table(found, cells, rows) if output.is_text else recommendation_rows(found, cells)
    notes = (
        "synthetic, from the dry machine: this recommends nothing" if row.synthetic else "",
        "" if row.finished else "this run is not finished",
        _survival(best) if best else "",
        f"left out: {left:,} cells of degraded arrays; select them with --for 'state=…'" if left else "",
    )
    write_grid(grid.with_notes(*notes), output)
    warning = SYNTHETIC if row.synthetic else ""
    _write_commands(best, templates, script, warning, with_table=output.is_text)


def _survival(best: Cell) -> str:
    losses = best.stack.losses
    if losses is None:
        return ""
    return f"data on {best.stack.label} survives {losses or 'no'} lost disk{'s' if losses > 1 else ''}"


def _recommend(
    run: str, wanted: Sequence[str], metric: str | None, source: Source
) -> tuple[RunRow, Manifest | None, list[Samples], int, Recommendation]:
    from matrix_runner.answers.ranking import COLUMNS, headline, possible_choices, recommend_settings
    from matrix_runner.answers.selectors import select_cells
    from matrix_runner.answers.stored_samples import read_samples
    from matrix_runner.cli.results import check_jobs
    from matrix_runner.pages.stored import as_measured, knees_of, measured_again, share_of

    ranked_by = _metric(metric) if metric else None
    with open_store(source) as shared:
        row, *others = select_runs(shared, [run])
        if others:
            raise BadInput(f"{run} matches {len(others) + 1} runs", resolution="name one: `latest` or its folder")
        recorded = [one.cell for one in shared.cells({row.id})]
        if not recorded:
            raise BadInput(
                f"{row.name} has no results yet", resolution="`matrix run` with the same matrix continues it"
            )
        columns = ranked_by.columns if ranked_by else COLUMNS
        check_jobs(columns, shared, [row])
        cells = select_cells(None, wanted, recorded, option="--for")
        samples = read_samples(shared, [row], columns, cells)
    knees = [one for one in knees_of(row, source.results / row.name) if one.recommended]
    measured = [one for each in samples if (one := measured_again(as_measured(each), knees))]
    among = possible_choices(measured)
    manifest = _manifest(row, source.results)
    weights = manifest.weights if manifest and not wanted else None
    figure = ranked_by or (knees[0].search.find.metric if knees else headline(among))
    found = recommend_settings(among, figure, row.confidence, share_of(samples), weights, row.practical)
    picked = [one.recommended.id for one in knees if one.recommended and _has(one, found.best)]
    return row, manifest, samples, len(measured) - len(among), replace(found, picked=picked[0] if picked else "")


def _has(knee: Knee, best: Setting) -> bool:
    return any(cell.id in best.cells for cell in knee.search.cells)


def _metric(word: str) -> Metric:
    from matrix_runner.work.metrics import KNOWN, metric_named, split_column

    job, own = split_column(word)
    for name in (word, f"{job}." * bool(job) + own.replace("_", ".", 1)):
        with suppress(KeyError):
            return metric_named(name)
    raise BadInput(f"--metric {word} is not a figure", resolution=did_you_mean(word, KNOWN))


def _manifest(row: RunRow, results: Path) -> Manifest | None:
    """Return what a run was asked; None if its folder is not here, or it was imported."""
    from matrix_runner.cli.import_fio import MACHINE as IMPORTED
    from matrix_runner.records.run_folder import load

    if not (results / row.name / "manifest.json").is_file():
        return None
    manifest = load(results / row.name).manifest
    return None if manifest.machine == IMPORTED else manifest


def _best_cell(manifest: Manifest | None, found: Recommendation) -> Cell | None:
    from matrix_runner.pages.stored import declared_by

    cells = declared_by(manifest).space.cells() if manifest else ()
    return next((cell for cell in cells if cell.id in found.chosen.cells), None)


def _write_commands(
    cell: Cell | None, templates: Path | None, script: Path | None, warning: str, *, with_table: bool
) -> None:
    from matrix_runner.scripts.recommended_commands import recommended_script

    if cell is None:
        why = "no commands: the matrix of this run is not below --results, or the run was imported"
        if script:
            raise BadInput(why)
        echo(f"note: {why}", err=True)
        return
    first, newline, rest = recommended_script(cell, templates).partition("\n")
    text = f"{first}{newline}{warning}{rest}"
    if script:
        write_output(script, text.encode())
        echo(f"written to {script}", err=True)
    elif with_table:
        echo_whole(f"\n{text}", newline=False)
