"""`matrix explore`: pages/explore.py reads the trials and makes the page."""

from pathlib import Path

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.options import Words, open_page, opens
from matrix_runner.cli.screen import echo
from matrix_runner.cli.store_options import Source, open_store, select_runs, source

_EPILOG = """\b
Examples:
  matrix explore                            the latest run, in its folder
  matrix explore latest~1,latest            two runs in one page, results/explore.html
  matrix explore 'nightly-*' -o nights.html
  matrix explore --no-open latest           only write the page
  matrix explore --single latest            a page to send: it needs no other file

\b
Names of runs: see `matrix results --help`.
"""


@click.command("explore", epilog=_EPILOG)
@click.argument("runs", nargs=-1)
@click.option("-o", "--to", type=click.Path(path_type=Path, dir_okay=False), help="Write the page to this file.")
@click.option(
    "--single",
    is_flag=True,
    help="Put the chart library (1.1 MB), which all pages below results/ share, into the page.",
)
@opens
@source
def command(runs: Words, to: Path | None, single: bool, opens: bool | None, source: Source) -> None:
    """Write explore.html, a page with all trials of RUNS in charts that filter each other, and open it."""
    from matrix_runner.base.files import write_output
    from matrix_runner.base.findings import few
    from matrix_runner.pages.explore import page, read_explored, shared_library, title_of

    with open_store(source) as shared:
        among = select_runs(shared, runs or ("latest",))
        own = source.results / among[0].name
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
    write_output(target, page(found, title_of(among), report=report, library=library))
    echo(f"written to {target}", err=True)
    open_page(target, opens)
