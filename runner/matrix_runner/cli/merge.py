"""`matrix merge`: the work is in session/merge.py."""

from __future__ import annotations

from pathlib import Path

import click

from matrix_runner.cli.options import results
from matrix_runner.cli.report import folder_of, write_report
from matrix_runner.records.run_folder import load
from matrix_runner.session.merge import Merger

_EPILOG = """\b
Examples:
  matrix merge results/sweep-dry-2026* --to sweep      all shards of a night as results/sweep
  matrix merge one/run two/run --to sweep              runs of --shard 1/2 and 2/2, copied from two hosts
"""


@click.command("merge", epilog=_EPILOG)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option("--to", "name", required=True, metavar="NAME", help="The name of the new run, a folder in --results.")
@results
def command(runs: tuple[Path, ...], name: str, results: Path) -> None:
    """Join the finished runs of all shards of a matrix into one new run, with reports. The runs stay as they are."""
    merger = Merger.of([load(folder_of(run, results)) for run in runs])
    merged = merger.write(results, name)
    end = write_report(merged.path)
    merged.update_manifest(exit=int(end.exit))
