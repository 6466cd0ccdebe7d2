"""`matrix history`: the work is in answers/history.py and statistics/changes.py, the tables in pages/timeline.py."""

from pathlib import Path

import click

from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.cli.options import Words, only, rows
from matrix_runner.cli.store_options import (
    Output,
    Source,
    accepted,
    change_files,
    open_store,
    output,
    select_runs,
    source,
    write_change_files,
    write_grid,
)

_EPILOG = """\b
Examples:
  matrix history raid5/chunk=64KiB/seqread/bs=1MiB             one cell, run by run
  matrix history 1132118f --metric read_lat_p99                by a prefix of its id
  matrix history --only 'layout=raid5' --runs 'nightly-*'      a line for each of several cells
  matrix history --only 'bs=4KiB' --format csv --to nights.csv
  matrix history --fail-on-change --only layout=raid5      for scripts: 1 if a figure became slower

\b
Each host and each machine has its own history; a `|` in the line of bars marks a change of level. A history begins
with the runs of baselines.yaml; changes in known-changes.yaml are no alarms.

\b
Exit codes: 0, 2 bad input; with --fail-on-change: 1 if a figure became slower by a step or a drift, and still is.

\b
Names of runs: see `matrix results --help`.
"""


@click.command("history", epilog=_EPILOG)
@click.argument("cell", required=False)
@only
@click.option("--runs", multiple=True, help="Only these runs. Repeat the option for more.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="A figure to follow, JOB.read_bw for one job; repeat the option for more.  [default: bandwidth of requests of "
    "64 KiB and more, IOPS of smaller ones]",
)
@click.option(
    "--fail-on-change",
    is_flag=True,
    help="Exit with 1 if a figure became and still is slower, and that is not accepted.",
)
@accepted
@change_files
@rows(50)
@output
@source
def command(
    cell: str | None,
    only: Words,
    runs: Words,
    metrics: Words,
    fail_on_change: bool,
    accepted: Path,
    files: tuple[Path | None, Path | None],
    rows: int,
    output: Output,
    source: Source,
) -> None:
    """Follow CELL, by its name or id, through all runs: figures, intervals and changes of level."""
    from matrix_runner.answers.history import Level, find_history_alarms, timelines
    from matrix_runner.answers.selectors import default_runs, with_hint
    from matrix_runner.answers.stored_samples import USUAL_RATES
    from matrix_runner.cli.results import check_jobs, parse_metrics
    from matrix_runner.pages.stored import Reader
    from matrix_runner.pages.timeline import data_table, describe_alarms, describe_known, display_table
    from matrix_runner.space.declared_files import load_accepted

    if not cell and not only and not fail_on_change:
        raise BadInput("no cell is given", resolution="name a CELL, or select cells with --only 'AXIS=VALUE'")
    asked = parse_metrics(metrics)
    with open_store(source) as shared:
        among = select_runs(shared, runs)
        among, left_out = (among, "") if runs else default_runs(among)
        check_jobs(asked, shared, among)
        found = Reader(shared, asked or USUAL_RATES, source.results, cell, only).read(among)
    known = load_accepted(accepted)
    series = timelines(found, asked, Level(known.baselines.entries, known.changes))
    if not series:
        with with_hint(left_out):
            raise BadInput("the selected cells have no such figures", resolution="`matrix results` lists all cells")
    grid = display_table(series, most=rows) if output.is_text else data_table(series)
    alarms = find_history_alarms(series)
    write_grid(grid.with_notes(left_out, *describe_known(series), *describe_alarms(alarms)), output)
    if any(files):
        from matrix_runner.pages.change_files import checks_of_history

        write_change_files(files, "history", checks_of_history(series, alarms))
    if fail_on_change and alarms:
        raise click.exceptions.Exit(Exit.CLAIM_FAILED)
