"""`matrix results`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.options import only, results, store
from runner.cli.store_options import SHOWN, answer, chosen_runs, form, opened, to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.analysis.samples import Samples
    from runner.reports.table import Grid

_EPILOG = """\b
Examples:
  matrix results latest                                        what the latest run came to
  matrix results 'nightly-*' --only 'layout=raid5,bs=4KiB'     some cells of many runs
  matrix results latest --pivot md.chunk                       chunk sizes beside each other
  matrix results latest --pivot layout                         layouts beside each other: which is best, for what
  matrix results latest --pivot lvm.stripes --scale            how much the second, third … stripe adds
  matrix results latest --as iozone                            in the columns of IOzone, dd or bonnie++
  matrix results --outcome broken                              what broke, and why
  matrix results --trials --metric read_lat_p99 --format csv   every trial, for a program

\b
RUNS are folders below results/ or their names, patterns of names, the beginning of a run's id, `latest` for the last
run with results, or the name of a matrix for its last one (synthetic only if nothing was measured); `latest~1` and
`MATRIX~1` are the ones before, `latest~good` is the last before it, in the same place, that ended with 0; `A,B` are
both. Without RUNS: all that the store holds. `matrix runs` lists them.

\b
A row of a pivot holds cells that agree on all axes that both have. A tunable that a stack lacks counts as `default`
where that was measured. `stripe_unit` is md.chunk or lvm.stripe_size, `width` is md.devices or lvm.stripes.
"""


@click.command("results", epilog=_EPILOG)
@click.argument("runs", nargs=-1)
@only
@click.option(
    "--outcome", type=click.Choice(["measured", "broken", "skipped"]), help="Only trials that this became of."
)
@click.option(
    "--pivot", metavar="AXIS", help="A column for each value of this axis, a row for what else they differ in."
)
@click.option(
    "--scale", is_flag=True, help="With --pivot: so many times the first of its row, and how steeply it goes."
)
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
    """Show what was measured: of some runs or all, some cells or all."""
    from runner.analysis.rates import RATES
    from runner.analysis.samples import read_few_runs, read_samples
    from runner.analysis.selectors import select_cells
    from runner.analysis.tables import cells_grid, describe_unfinished, display_table, display_trials, trials_grid
    from runner.base.errors import BadInput

    _check(pivot, familiar, metrics, scale=scale, by_trial=by_trial)
    asked = metrics_of(familiar) if familiar else checked(metrics) or RATES
    some = form == "table" and not (pivot or outcome or by_trial or familiar)
    unread = 0
    with opened(store, results) as shared:
        among = chosen_runs(shared, runs)
        cells = select_cells(None, only, shared.different_cells() if only else ())
        if some:
            found, unread = read_few_runs(shared, among, asked, cells, rows)
        else:
            found = of_outcome(read_samples(shared, among, asked, cells), outcome)
        runs_shown = [one.run for one in found]
        notes = describe_unfinished(runs_shown, shared.trial_counts({run.id for run in runs_shown if not run.finished}))
    if not found and not (only or outcome):
        from runner.space.notes import few

        raise BadInput(
            f"nothing was measured yet by {few(run.name for run in among)}",
            resolution="`matrix run` with the same matrix goes on with it; `matrix results` alone lists all runs",
        )
    if not found:
        raise BadInput(
            "no trial in the store is all that was asked for",
            resolution="`matrix results` without --only and --outcome shows what there is",
        )
    if familiar:
        grid = _familiar(familiar, found, form, rows)
    elif pivot:
        along = _scaled if scale else _pivoted
        grid = along(found, pivot, asked if metrics else (), form)
        grid = _at_most(grid, rows) if form == "table" else grid
    elif by_trial:
        grid = display_trials(found, asked, most=rows) if form == "table" else trials_grid(found, asked)
    elif form in SHOWN:
        grid = display_table(found, asked, most=rows if form == "table" else None, unread=unread)
    else:
        grid = cells_grid(found, asked)
    answer(grid.with_notes(*notes), form, to)


def _check(pivot: str | None, familiar: str | None, metrics: tuple[str, ...], *, scale: bool, by_trial: bool) -> None:
    """Refuse options that do not go together."""
    from runner.base.errors import BadInput

    if pivot and (by_trial or len(metrics) > 1):
        raise BadInput(
            "--pivot shows one figure of cells", resolution="leave --trials out, and name one --metric: e.g. read_bw"
        )
    if scale and not pivot:
        raise BadInput("--scale is along an axis", resolution="name it: `--pivot AXIS --scale`")
    if familiar and (pivot or by_trial or metrics):
        raise BadInput(
            "--as says which figures are shown, and how",
            resolution="leave --pivot, --trials and --metric out",
        )


def checked(metrics: Sequence[str]) -> tuple[str, ...]:
    """Figures that were asked for, as guidelines write them (`read.bw`) or the tables; refused if there is none."""
    from difflib import get_close_matches

    from runner.analysis.metrics import METRICS, figure_name
    from runner.base.errors import BadInput

    names = [figure_name(metric) for metric in metrics]
    for metric, name in zip(metrics, names, strict=True):
        if name not in METRICS:
            near = get_close_matches(metric, METRICS, n=2)
            raise BadInput(
                f"there is no figure '{metric}'" + (f"; did you mean {' or '.join(near)}?" if near else ""),
                resolution=f"there are {', '.join(METRICS)}",
            )
    return tuple(dict.fromkeys(names))


def of_outcome(found: list[Samples], outcome: str | None) -> list[Samples]:
    """What is left of them if only trials of one outcome count."""
    if outcome is None:
        return found
    return [left for one in found if (left := one.of_outcome(outcome)).rows]


def metrics_of(familiar: str) -> tuple[str, ...]:
    """The figures that a program shows."""
    from runner.analysis.legacy_columns import FAMILIAR

    return FAMILIAR[familiar].metrics


def _at_most(grid: Grid, most: int) -> Grid:
    from runner.reports.table import HINT

    left = len(grid.rows) - most
    if left <= 0:
        return grid
    told = f"{left:,} more lines; {HINT}"
    return replace(grid, rows=grid.rows[:most]).with_notes(told)


def _pivoted(found: list[Samples], axis: str, metrics: tuple[str, ...], form: str) -> Grid:
    from runner.analysis.pivot import pivot, plain_pivot
    from runner.analysis.tables import full_name

    told = pivot if form in SHOWN else plain_pivot
    return told(found, full_name(axis, found), metrics[0] if metrics else None)


def _scaled(found: list[Samples], axis: str, metrics: tuple[str, ...], form: str) -> Grid:
    from runner.analysis.scaling import data_scaling, display_scaling
    from runner.analysis.tables import full_name

    told = display_scaling if form in SHOWN else data_scaling
    return told(found, full_name(axis, found), metrics[0] if metrics else None)


def _familiar(program: str, found: list[Samples], form: str, most: int) -> Grid:
    from runner.analysis.legacy_columns import data_as, display_as

    if form not in SHOWN:
        return data_as(program, found)
    grid = display_as(program, found)
    return _at_most(grid, most) if form == "table" else grid
