"""`matrix guidelines`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.base.shipped import shipped
from runner.cli.options import only, results, store
from runner.cli.store_options import SHOWN, answer, chosen_runs, form, opened, to

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runner.guidelines.verdicts import Judgement
    from runner.language.guidelines import Guideline
    from runner.results.store import RunRow

_EPILOG = """\b
Examples:
  matrix guidelines list                                     the advice that comes with it
  matrix guidelines check latest                             what the latest run says of its own guidelines
  matrix guidelines check 'nightly-*' --guidelines ours.yaml  what many runs say of others
  matrix guidelines check 'chunk-sweep-*' --on lab1           what those say that were done on one host

\b
Exit codes of check: 0 none fails, 1 one does, 2 bad input. How runs are named: `matrix results --help`.
"""
_SHELF = shipped("matrix") / "guidelines"


@click.group("guidelines", epilog=_EPILOG)
def command() -> None:
    """Say which guidelines there are, and what was measured says of them."""


@command.command("list", epilog="Example:  matrix guidelines list matrix/guidelines/parity.yaml")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@form
@to
def list_(files: tuple[Path, ...], form: str, to: Path | None) -> None:
    """Show the guidelines in FILES (of guidelines, or matrices); without any, those that come with it."""
    from runner.reports.table import Grid
    from runner.space.guideline_files import load_guidelines

    rows = [
        (one.id, one.shape, one.claimed.metric, one.claim, one.source, str(path))
        for path in files or sorted(_SHELF.glob("*.yaml"))
        for one in load_guidelines(path)
    ]
    answer(Grid(("guideline", "shape", "figure", "claim", "source", "file"), rows), form, to)


@command.command("check", epilog=_EPILOG)
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--on",
    "where",
    metavar="PLACE",
    help="Only those of RUNS that were done on such a machine (qemu, local …) or host, or for such a matrix.",
)
@click.option(
    "--guidelines",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Judge those of this file (of guidelines, or a matrix; FILE#ID: that one alone) instead of those that the "
    "runs were done for.",
)
@only
@form
@to
@results
@store
def check(
    runs: tuple[str, ...],
    where: str | None,
    files: tuple[Path, ...],
    only: tuple[str, ...],
    form: str,
    to: Path | None,
    results: Path,
    store: str | None,
) -> None:
    """Judge guidelines from what RUNS have measured."""
    from runner.base.errors import Exit
    from runner.reports.verdicts import verdict_rows, verdict_table

    judgements = _judged(runs, where, files, only, results, store)
    answer(verdict_table(judgements) if form in SHOWN else verdict_rows(judgements), form, to)
    if any(one.failed for one in judgements):
        raise click.exceptions.Exit(Exit.CLAIM_FAILED)


def _judged(
    words: tuple[str, ...],
    where: str | None,
    files: Sequence[Path],
    only: tuple[str, ...],
    results: Path,
    store: str | None,
) -> list[Judgement]:
    from runner.analysis.samples import read_samples
    from runner.analysis.selectors import runs_on, select_cells
    from runner.analysis.stored_guidelines import columns_of, judged_in_store
    from runner.base.errors import BadInput
    from runner.space.guideline_files import load_guidelines

    given = [one for path in files for one in load_guidelines(path)]
    with opened(store, results) as shared:
        among = chosen_runs(shared, words)
        among = among if where is None else runs_on(where, among)
        guidelines = given or of_runs(among, results)
        if not guidelines:
            raise BadInput(
                f"{', '.join(run.name for run in among[:3])}: no guidelines, and none were named",
                resolution=f"--guidelines FILE names some; `matrix guidelines list` shows those in {_SHELF}/",
            )
        cells = select_cells(None, only, shared.different_cells() if only else ())
        found = read_samples(shared, among, columns_of(guidelines), cells)
    return judged_in_store(guidelines, found)


def of_runs(runs: Iterable[RunRow], results: Path) -> list[Guideline]:
    """Those that the matrices of these runs have, each once; the latest run is asked first."""
    from runner.analysis.stored_guidelines import declared_by
    from runner.results.run_folder import load

    found: dict[str, Guideline] = {}
    for run in runs:
        if (results / run.name / "manifest.json").is_file():
            manifest = load(results / run.name).manifest
            if "guidelines" not in manifest.text:  # older matrices need not be ones that are understood today
                continue
            declared = declared_by(manifest)
            found = {**{one.id: one for one in declared.space.matrix.guidelines}, **found}
    return list(found.values())
