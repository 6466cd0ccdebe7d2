"""`matrix guidelines`: the work is in pages/stored.py and answers/verdicts.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.base.files import shipped
from matrix_runner.cli.options import PATH, Words, only, run_argument
from matrix_runner.cli.store_options import Output, Source, open_store, output, select_runs, source, write_grid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matrix_runner.language.guidelines import Guideline
    from matrix_runner.records.store import RunRow

_EPILOG = """\b
Examples:
  matrix guidelines list                                     the shipped guidelines
  matrix guidelines check latest                             the latest run, by the guidelines of its matrix
  matrix guidelines check 'nightly-*' --guidelines ours.yaml  many runs, by the guidelines of a file
  matrix guidelines check 'chunk-sweep-*' --on lab1           the runs of one host

\b
Exit codes of check: 0 no guideline fails, 1 a guideline fails, 2 bad input.
Names of runs: see `matrix results --help`.
"""
_SHIPPED = shipped("matrix") / "guidelines"


@click.group("guidelines", epilog=_EPILOG)
def command() -> None:
    """List guidelines, and judge them by results."""


@command.command("list", epilog="Example:  matrix guidelines list matrix/guidelines/parity.yaml")
@click.argument("files", nargs=-1, type=PATH)
@output
def list_(files: tuple[Path, ...], output: Output) -> None:
    """Show the guidelines in FILES (guideline files or matrices); without FILES, the shipped guidelines."""
    from matrix_runner.pages.table import Grid
    from matrix_runner.space.declared_files import load_guidelines

    rows = [
        (one.id, one.shape, one.claimed.metric, one.claim, one.source, str(path))
        for path in files or sorted(_SHIPPED.glob("*.yaml"))
        for one in load_guidelines(path)
    ]
    write_grid(Grid(("guideline", "shape", "figure", "claim", "source", "file"), rows), output)


@command.command("check", epilog=_EPILOG)
@run_argument("runs", nargs=-1, required=True)
@click.option(
    "--on", "where", metavar="PLACE", help="Only runs on this machine (qemu, local …) or host, or of this matrix."
)
@click.option(
    "--guidelines",
    "files",
    multiple=True,
    type=PATH,
    help="Judge the guidelines of this file (a guideline file or a matrix; FILE#ID: only this one) instead of those "
    "of the runs.",
)
@only
@output
@source
def check(runs: Words, where: str | None, files: tuple[Path, ...], only: Words, output: Output, source: Source) -> None:
    """Judge guidelines by the results of RUNS."""
    from matrix_runner.answers.selectors import runs_on
    from matrix_runner.pages.stored import judged_in_store, read_for
    from matrix_runner.pages.verdicts import verdict_rows, verdict_table
    from matrix_runner.space.declared_files import load_guidelines

    loaded = [one for path in files for one in load_guidelines(path)]
    with open_store(source) as shared:
        among = select_runs(shared, runs)
        among = among if where is None else runs_on(where, among)
        guidelines = loaded or declared_guidelines(among, source.results)
        if not guidelines:
            raise BadInput(
                f"{', '.join(run.name for run in among[:3])}: the matrix has no guidelines",
                resolution=f"name a file with --guidelines; `matrix guidelines list` shows those in {_SHIPPED}/",
            )
        found = read_for(guidelines, shared, among, source.results, only)
    judgements = judged_in_store(guidelines, found)
    write_grid(verdict_table(judgements) if output.is_text else verdict_rows(judgements), output)
    if any(one.failed for one in judgements):
        raise click.exceptions.Exit(Exit.CLAIM_FAILED)


def declared_guidelines(runs: Iterable[RunRow], results: Path) -> list[Guideline]:
    from matrix_runner.pages.stored import declared_by
    from matrix_runner.records.run_folder import load

    found: dict[str, Guideline] = {}
    for run in runs:
        if (results / run.name / "manifest.json").is_file():
            manifest = load(results / run.name).manifest
            if "guidelines" not in manifest.text:  # an old matrix without guidelines may be invalid today
                continue
            declared = declared_by(manifest)
            found = {**{one.id: one for one in declared.space.matrix.guidelines}, **found}
    return list(found.values())
