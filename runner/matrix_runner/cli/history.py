"""`matrix history`: the work is in pages/timeline.py and statistics/changes.py."""

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.options import Words, only, rows
from matrix_runner.cli.store_options import Output, Source, open_store, output, select_runs, source, write_grid

_EPILOG = """\b
Examples:
  matrix history raid5/chunk=64KiB/seqread/bs=1MiB             one cell, run by run
  matrix history 1132118f --metric read_lat_p99                by a prefix of its id
  matrix history --only 'layout=raid5' --runs 'nightly-*'      a line for each of several cells
  matrix history --only 'bs=4KiB' --format csv --to nights.csv

\b
Each host and each machine has its own history; a `|` in the line of bars marks a change of level.

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
@rows(50)
@output
@source
def command(
    cell: str | None, only: Words, runs: Words, metrics: Words, rows: int, output: Output, source: Source
) -> None:
    """Follow CELL, by its name or id, through all runs: figures, intervals and changes of level."""
    from matrix_runner.answers.selectors import default_runs, with_hint
    from matrix_runner.answers.stored_samples import USUAL_RATES
    from matrix_runner.cli.results import check_jobs, parse_metrics
    from matrix_runner.pages.stored import Reader
    from matrix_runner.pages.timeline import data_table, display_table, timelines

    if not cell and not only:
        raise BadInput("no cell is given", resolution="name a CELL, or select cells with --only 'AXIS=VALUE'")
    asked = parse_metrics(metrics)
    with open_store(source) as shared:
        among = select_runs(shared, runs)
        among, left_out = (among, "") if runs else default_runs(among)
        check_jobs(asked, shared, among)
        found = Reader(shared, asked or USUAL_RATES, source.results, cell, only).read(among)
    series = timelines(found, asked)
    if not series:
        with with_hint(left_out):
            raise BadInput("the selected cells have no such figures", resolution="`matrix results` lists all cells")
    grid = display_table(series, most=rows) if output.is_text else data_table(series)
    write_grid(grid.with_notes(left_out), output)
