"""`matrix results`, whose tables are in pages/results.py, and `matrix explore`, whose page is in pages/explore.py."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.base.findings import few
from matrix_runner.cli.options import FILE, Words, only, open_page, opens, rows, run_argument
from matrix_runner.cli.screen import echo
from matrix_runner.cli.store_options import Output, Source, open_store, output, select_runs, source, write_grid
from matrix_runner.records.record import Outcome
from matrix_runner.work.metrics import RATES, SIDES, TOTAL, split_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix_runner.answers.stored_samples import Samples
    from matrix_runner.pages.table import Grid
    from matrix_runner.records.store import RunRow, SharedStore


_MOST_JOBS = 100  # SQLite has at most 2,000 columns
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
Names of runs:
  sweep-qemu-20260304-050607    a folder below results/, or the beginning of a run id
  ../theirs/sweep-qemu-2026…    the path of any run folder, such as a colleague's
  'nightly-*'                   all runs that match
  latest, MATRIX                the last run with results; a synthetic one only if there is no measured one
  latest~1, MATRIX~1            the run before that one
  latest~good                   the last run before `latest` that ended with exit code 0, with the same matrix, cells, \
machine and host
  A,B                           both

\b
Cells in a row of a pivot have equal values on all other shared axes; a tunable that a stack lacks counts as
`default` if `default` was measured. `stripe_unit` is md.chunk or lvm.stripe_size, `width` is md.devices or lvm.stripes.
"""


@dataclass(frozen=True, slots=True)
class ResultsRequest:
    runs: tuple[str, ...]
    only: tuple[str, ...]
    outcome: str | None
    pivot: str | None
    scale: bool
    metrics: tuple[str, ...]
    familiar: str | None
    by_trial: bool
    rows: int


@click.command("results", epilog=_EPILOG)
@run_argument("runs", nargs=-1)
@only
@click.option("--outcome", type=click.Choice([one.value for one in Outcome]), help="Only trials with this outcome.")
@click.option(
    "--pivot", metavar="AXIS", help="A column for each value of this axis, a row for each combination of the others."
)
@click.option(
    "--scale",
    is_flag=True,
    help="With --pivot: multiples of the first value in each row, and the growth exponent (1: proportional to the "
    "axis).",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="A figure, e.g. read_bw, write_lat_p99, total_iops, iowait; JOB.read_bw for one job. Repeat the option for "
    "more.",
)
@click.option(
    "--as",
    "familiar",
    type=click.Choice(["dd", "iozone", "iozone-ops", "bonnie"]),
    help="In the columns and units of this program (iozone-ops: of iozone -O).",
)
@click.option("--trials", "by_trial", is_flag=True, help="A row for every trial instead of one for every cell.")
@rows(50)
@output
@source
def command(output: Output, source: Source, **options: Any) -> None:
    """Show the results of RUNS, or of all runs."""
    from matrix_runner.answers.stored_samples import USUAL_RATES
    from matrix_runner.pages.legacy_columns import FAMILIAR
    from matrix_runner.pages.results import describe_unfinished
    from matrix_runner.pages.stored import Reader

    asked = ResultsRequest(**options)
    _check_options(asked)
    metrics = FAMILIAR[asked.familiar].metrics if asked.familiar else parse_metrics(asked.metrics) or USUAL_RATES
    adds_jobs = metrics is USUAL_RATES and not output.is_text and not asked.pivot
    unread = 0, 0
    with open_store(source) as shared:
        among = select_runs(shared, asked.runs)
        check_jobs(metrics, shared, among)
        metrics = (*metrics, *_rates_of_jobs(shared, among)) if adds_jobs else metrics
        reader = Reader(shared, tuple(metrics), source.results, only=asked.only)
        if output.is_table and not (asked.pivot or asked.outcome or asked.by_trial or asked.familiar):
            found, unread = reader.read_first(among, asked.rows)
        else:
            found = reader.read(among)
            if asked.outcome:
                found = [left for one in found if (left := one.of_outcome(asked.outcome)).rows]
        shown = [one.run for one in found]
        notes = describe_unfinished(shown, shared.trial_counts([run for run in shown if not run.finished]))
    if not found and reader.is_of_searches:
        raise BadInput(
            f"no result of a search: {few(run.name for run in among)}",
            resolution="`find:` in a workload makes one; this command reads it from the folders of the runs",
        )
    if not found and not (asked.only or asked.outcome):
        raise BadInput(
            f"no results yet: {few(run.name for run in among)}",
            resolution="`matrix run` with the same matrix continues the run; `matrix results` alone shows all runs",
        )
    if not found:
        raise BadInput(
            "no trial in the store matches", resolution="`matrix results` without --only and --outcome shows all trials"
        )
    write_grid(_grid(asked, found, metrics, output, unread).with_notes(*notes), output)


def _grid(
    asked: ResultsRequest, found: list[Samples], metrics: Sequence[str], output: Output, unread: tuple[int, int]
) -> Grid:
    """Return the table. `unread`: cells and runs that are not in `found`."""
    from matrix_runner.answers.selectors import full_name
    from matrix_runner.pages.legacy_columns import legacy_table
    from matrix_runner.pages.results import (
        cells_grid,
        data_scaling,
        display_scaling,
        display_table,
        display_trials,
        pivot,
        plain_pivot,
        trials_grid,
    )
    from matrix_runner.pages.table import more_lines

    if asked.by_trial:
        return display_trials(found, metrics, most=asked.rows) if output.is_table else trials_grid(found, metrics)
    if asked.familiar:
        grid = legacy_table(asked.familiar, found, people=output.is_text)
    elif asked.pivot:
        text, data = (display_scaling, data_scaling) if asked.scale else (pivot, plain_pivot)
        metric = metrics[0] if asked.metrics else None
        grid = (text if output.is_text else data)(found, full_name(asked.pivot, found), metric)
    elif output.is_text:
        return display_table(found, metrics, most=asked.rows if output.is_table else None, unread=unread)
    else:
        return cells_grid(
            found, [one for one in metrics if asked.metrics or not split_column(one)[0] or _has(found, one)]
        )
    left = len(grid.rows) - asked.rows
    if not output.is_table or left <= 0:
        return grid
    return replace(grid, rows=grid.rows[: asked.rows]).with_notes(more_lines(left))


def _has(found: Sequence[Samples], metric: str) -> bool:
    return any(one.rounds(metric) for one in found)


def _rates_of_jobs(shared: SharedStore, runs: Sequence[RunRow]) -> list[str]:
    names = shared.job_names(runs)
    if len(names) > _MOST_JOBS:
        others = "name those of others with --metric JOB.read_bw"
        echo(f"note: figures of the first {_MOST_JOBS} of {len(names):,} jobs; {others}", err=True)
        names = names[:_MOST_JOBS]
    return [f"{name}.{side}_{rate}" for name in names for side in (TOTAL, *SIDES) for rate in RATES]


def _check_options(asked: ResultsRequest) -> None:
    if asked.pivot and (asked.by_trial or len(asked.metrics) > 1):
        raise BadInput(
            "--pivot cannot show single trials or several figures",
            resolution="leave --trials out, and name one figure: --metric read_bw",
        )
    if asked.scale and not asked.pivot:
        raise BadInput("--scale needs an axis", resolution="name the axis: `--pivot AXIS --scale`")
    if asked.familiar and (asked.pivot or asked.by_trial or asked.metrics):
        raise BadInput(
            "--as shows its own figures and columns, so it cannot be combined with --pivot, --trials or --metric",
            resolution="leave these out, or leave --as out",
        )


def parse_metrics(metrics: Sequence[str]) -> tuple[str, ...]:
    from matrix_runner.answers.stored_samples import METRICS, figure_name, is_figure
    from matrix_runner.language.suggestions import hint

    names = [figure_name(metric) for metric in metrics]
    for metric, name in zip(metrics, names, strict=True):
        if not is_figure(name):
            raise BadInput(
                f"there is no figure '{metric}'{hint(metric, [*METRICS])}",
                resolution=f"use one of {', '.join(METRICS)}; for one job, write its name and a dot before it",
            )
    return tuple(dict.fromkeys(names))


def check_jobs(metrics: Sequence[str], shared: SharedStore, runs: Sequence[RunRow]) -> None:
    """Refuse a figure of a job that no trial of these runs has."""
    if not (wanted := {job for metric in metrics if (job := split_column(metric)[0])}):
        return
    there = shared.job_names(runs)
    if unknown := sorted(wanted.difference(there)):
        jobs = f"their jobs are {few(there, 20)}" if there else "no trial of these runs has several jobs"
        raise BadInput(f"these runs have no job '{unknown[0]}'", resolution=jobs)


_EXPLORE_EPILOG = """\b
Examples:
  matrix explore                            the latest run, in its folder
  matrix explore latest~1,latest            two runs in one page, results/explore.html
  matrix explore 'nightly-*' -o nights.html
  matrix explore --no-open latest           only write the page
  matrix explore --single latest            a page to send: it needs no other file

\b
Names of runs: see `matrix results --help`.
"""


@click.command("explore", epilog=_EXPLORE_EPILOG)
@run_argument("runs", nargs=-1)
@click.option("-o", "--to", type=FILE, help="Write the page to this file.")
@click.option(
    "--single",
    is_flag=True,
    help="Put the chart library (1.1 MB), which all pages below results/ share, into the page.",
)
@opens
@source
def explore_command(runs: Words, to: Path | None, single: bool, opens: bool | None, source: Source) -> None:
    """Write explore.html, a page with all trials of RUNS in charts that filter each other, and open it."""
    from matrix_runner.base.files import write_atomically, write_output
    from matrix_runner.pages.explore import page, read_explored, shared_library, title_of

    with open_store(source) as shared:
        among = select_runs(shared, runs or ("latest",))
        own = (source.results / among[0].name).resolve() if source.home else source.results / among[0].name
        several = source.home or source.results
        target = to or (own if len(among) == 1 and own.is_dir() else several) / "explore.html"
        found = read_explored(shared, among, source.results, target.parent)
    if not found:
        raise BadInput(
            f"no results yet: {few(run.name for run in among)}",
            resolution="`matrix run` with the same matrix continues it",
        )
    library = "" if single else shared_library(target, several)
    report = (target.parent / "report.html").is_file()
    (write_output if to else write_atomically)(target, page(found, title_of(among), report=report, library=library))
    echo(f"written to {target}", err=True)
    open_page(target, opens)
