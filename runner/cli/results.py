"""`matrix results`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.options import only, results, store
from runner.cli.store_options import TEXT_FORMATS, form, open_store, select_runs, to, write_grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.analysis.samples import Samples
    from runner.reports.table import Grid

_EPILOG = """\b
Examples:
  matrix results latest                                        the latest run
  matrix results 'nightly-*' --only 'layout=raid5,bs=4KiB'     some cells of many runs
  matrix results latest --pivot md.chunk                       a column for each chunk size
  matrix results latest --pivot layout                         a column for each layout: the best for each workload
  matrix results latest --pivot lvm.stripes --scale            the gain of the second, third … stripe
  matrix results latest --as iozone                            in the columns of IOzone, dd or bonnie++
  matrix results --outcome broken                              broken trials with their reasons
  matrix results --trials --metric read_lat_p99 --format csv   every trial, for a program

\b
RUNS are folders below results/ or their names, patterns of names, prefixes of run ids, `latest` for the last run with
results, or the name of a matrix for its last run (synthetic runs only without measured ones). `latest~1` and
`MATRIX~1` are the runs before; `latest~good` is the last run before on the same machine and host that ended with
exit code 0; `A,B` are both. Without RUNS: all runs in the store. `matrix runs` lists them.

\b
A row of a pivot holds cells that agree on all axes that both have. A tunable that a stack lacks counts as `default`
if that value was measured. `stripe_unit` is md.chunk or lvm.stripe_size, `width` is md.devices or lvm.stripes.
"""


@click.command("results", epilog=_EPILOG)
@click.argument("runs", nargs=-1)
@only
@click.option("--outcome", type=click.Choice(["measured", "broken", "skipped"]), help="Only trials with this outcome.")
@click.option(
    "--pivot", metavar="AXIS", help="A column for each value of this axis, a row for each combination of the others."
)
@click.option("--scale", is_flag=True, help="With --pivot: multiples of the first value in each row, and the slope.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Figures, e.g. read_bw, write_lat_p99, total_iops, iowait; may be given repeatedly.",
)
@click.option(
    "--as",
    "familiar",
    type=click.Choice(["dd", "iozone", "iozone-ops", "bonnie"]),
    help="In the columns and units of this program (iozone-ops: of iozone -O).",
)
@click.option("--trials", "by_trial", is_flag=True, help="A row for every trial instead of one for every cell.")
@click.option("--rows", type=click.IntRange(min=1), default=50, show_default=True, help="At most, in a table.")
@form
@to
@results
@store
def command(
    runs: tuple[str, ...],
    only: tuple[str, ...],
    outcome: str | None,
    pivot: str | None,
    scale: bool,
    metrics: tuple[str, ...],
    familiar: str | None,
    by_trial: bool,
    rows: int,
    form: str,
    to: Path | None,
    results: Path,
    store: str | None,
) -> None:
    """Show the results of RUNS, or of all runs."""
    from runner.analysis.metrics import USUAL_RATES
    from runner.analysis.samples import read_few_runs, read_samples
    from runner.analysis.selectors import select_cells
    from runner.analysis.tables import cells_grid, describe_unfinished, display_table, display_trials, trials_grid
    from runner.base.errors import BadInput

    _check_options(pivot, familiar, metrics, scale=scale, by_trial=by_trial)
    asked = legacy_metrics(familiar) if familiar else parse_metrics(metrics) or USUAL_RATES
    some = form == "table" and not (pivot or outcome or by_trial or familiar)
    unread = 0
    with open_store(store, results) as shared:
        among = select_runs(shared, runs)
        cells = select_cells(None, only, shared.different_cells() if only else ())
        if some:
            found, unread = read_few_runs(shared, among, asked, cells, rows)
        else:
            found = filter_outcome(read_samples(shared, among, asked, cells), outcome)
        runs_shown = [one.run for one in found]
        notes = describe_unfinished(runs_shown, shared.trial_counts({run.id for run in runs_shown if not run.finished}))
    if not found and not (only or outcome):
        from runner.space.notes import few

        raise BadInput(
            f"no results yet: {few(run.name for run in among)}",
            resolution="`matrix run` with the same matrix continues the run; `matrix results` alone shows all runs",
        )
    if not found:
        raise BadInput(
            "no trial in the store matches",
            resolution="`matrix results` without --only and --outcome shows all trials",
        )
    if familiar:
        grid = _legacy_grid(familiar, found, form, rows)
    elif pivot:
        along = _scale_grid if scale else _pivot_grid
        grid = along(found, pivot, asked if metrics else (), form)
        grid = _limit_rows(grid, rows) if form == "table" else grid
    elif by_trial:
        grid = display_trials(found, asked, most=rows) if form == "table" else trials_grid(found, asked)
    elif form in TEXT_FORMATS:
        grid = display_table(found, asked, most=rows if form == "table" else None, unread=unread)
    else:
        grid = cells_grid(found, asked)
    write_grid(grid.with_notes(*notes), form, to)


def _check_options(
    pivot: str | None, familiar: str | None, metrics: tuple[str, ...], *, scale: bool, by_trial: bool
) -> None:
    from runner.base.errors import BadInput

    if pivot and (by_trial or len(metrics) > 1):
        raise BadInput(
            "--pivot shows one figure of cells", resolution="leave --trials out, and name one --metric: e.g. read_bw"
        )
    if scale and not pivot:
        raise BadInput("--scale is along an axis", resolution="name it: `--pivot AXIS --scale`")
    if familiar and (pivot or by_trial or metrics):
        raise BadInput(
            "--as fixes the figures and their columns",
            resolution="leave --pivot, --trials and --metric out",
        )


def parse_metrics(metrics: Sequence[str]) -> tuple[str, ...]:
    """Return metrics, written as in guidelines (`read.bw`) or tables, by their names in tables."""
    from difflib import get_close_matches

    from runner.analysis.metrics import METRICS, figure_name
    from runner.base.errors import BadInput

    names = [figure_name(metric) for metric in metrics]
    for metric, name in zip(metrics, names, strict=True):
        if name not in METRICS:
            near = get_close_matches(metric, METRICS, n=2)
            raise BadInput(
                f"there is no figure '{metric}'" + (f"; did you mean {' or '.join(near)}?" if near else ""),
                resolution=f"use one of {', '.join(METRICS)}",
            )
    return tuple(dict.fromkeys(names))


def filter_outcome(found: list[Samples], outcome: str | None) -> list[Samples]:
    if outcome is None:
        return found
    return [left for one in found if (left := one.of_outcome(outcome)).rows]


def legacy_metrics(familiar: str) -> tuple[str, ...]:
    from runner.analysis.legacy_columns import FAMILIAR

    return FAMILIAR[familiar].metrics


def _limit_rows(grid: Grid, most: int) -> Grid:
    from runner.reports.table import HINT

    left = len(grid.rows) - most
    if left <= 0:
        return grid
    return replace(grid, rows=grid.rows[:most]).with_notes(f"{left:,} more lines; {HINT}")


def _pivot_grid(found: list[Samples], axis: str, metrics: tuple[str, ...], form: str) -> Grid:
    from runner.analysis.pivot import pivot, plain_pivot
    from runner.analysis.tables import full_name

    tabulate = pivot if form in TEXT_FORMATS else plain_pivot
    return tabulate(found, full_name(axis, found), metrics[0] if metrics else None)


def _scale_grid(found: list[Samples], axis: str, metrics: tuple[str, ...], form: str) -> Grid:
    from runner.analysis.pivot import data_scaling, display_scaling
    from runner.analysis.tables import full_name

    tabulate = display_scaling if form in TEXT_FORMATS else data_scaling
    return tabulate(found, full_name(axis, found), metrics[0] if metrics else None)


def _legacy_grid(program: str, found: list[Samples], form: str, most: int) -> Grid:
    from runner.analysis.legacy_columns import legacy_table

    grid = legacy_table(program, found, people=form in TEXT_FORMATS)
    return _limit_rows(grid, most) if form == "table" else grid
