"""`matrix bug-report`: the archive is made in session/bug_report.py."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from matrix_runner.base.files import write_output
from matrix_runner.cli.options import results
from matrix_runner.cli.report import folder_of
from matrix_runner.cli.screen import echo, slow_start
from matrix_runner.records.run_folder import load

_EPILOG = """\b
Examples:
  matrix bug-report                               of the latest run, to bug-report.tar.gz
  matrix bug-report --no-figures results/night    of this run folder, without its figures
  tar -xzOf bug-report.tar.gz | less              read all of it before you publish it
"""


@click.command("bug-report", epilog=_EPILOG)
@click.argument("run", type=click.Path(path_type=Path), default="latest")
@click.option("--no-figures", is_flag=True, help="Leave the figures of all trials out.")
@click.option(
    "--to",
    type=click.Path(path_type=Path, dir_okay=False),
    default="bug-report.tar.gz",
    show_default=True,
    help="Write the archive to this file.",
)
@results
def command(run: Path, no_figures: bool, to: Path, results: Path) -> None:
    """Write an archive about RUN for a bug report: versions, `matrix doctor`, matrix, manifest, log and journal.

    Names of hosts and users, serial numbers, addresses and paths are replaced. Only reads the run.
    """
    from matrix_runner.session.bug_report import write_bug_report

    folder = load(folder_of(run, results))
    with tempfile.TemporaryFile() as archive:
        found = write_bug_report(
            folder, archive, figures=not no_figures, progress=lambda name: slow_start.begin(f"writing {name}")
        )
        size = archive.tell()
        archive.seek(0)
        write_output(to, iter(lambda: archive.read(1 << 20), b""))
    echo(f"{to}: {size / 1e3:,.0f} kB; replaced: {found.summary}")
    echo(f"→ read it before you publish it: tar -xzOf {to} | less")
