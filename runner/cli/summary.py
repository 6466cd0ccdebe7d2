"""`matrix summary`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.options import results, store
from runner.cli.store_options import chosen_runs, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.analysis.compare import Comparison
    from runner.analysis.nightly import Night
    from runner.guidelines.verdicts import Judgement
    from runner.results.store import RunRow, SharedStore

_EPILOG = """\b
Examples:
  matrix summary latest                            what the latest run came to, and what changed since it last went well
  matrix summary latest --against nightly~7        against another
  matrix summary latest --issue regression.md      a text for an issue, if anything got worse

\b
Exit codes: 0 all measured and nothing worse, 1 a guideline fails or something is slower, 2 bad input, 3 trials are
broken or a run is not finished. How runs are named: `matrix results --help`.
"""


@click.command("summary", epilog=_EPILOG)
@click.argument("runs", nargs=-1, required=True)
@click.option("--against", metavar="RUN", help="Compare with this.  [default: for each, the last that ended well]")
@click.option(
    "--issue",
    "issue_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="If anything is slower, fails or broke: write the text of an issue to this file.",
)
@click.option(
    "--annotations",
    "annotations_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what went wrong to this file as GitHub's workflow commands.",
)
@results
@store
def command(
    runs: tuple[str, ...],
    against: str | None,
    issue_file: Path | None,
    annotations_file: Path | None,
    results: Path,
    store: str | None,
) -> None:
    """Say in Markdown what RUNS came to: verdicts, what broke, and what changed since they last ended well."""
    from runner.analysis.nightly import annotated, issue, page
    from runner.base.atomic_files import write_atomically
    from runner.base.errors import Exit

    night = _night(runs, against, results, store)
    click.echo(page(night), nl=False)
    if issue_file and night.exit is not Exit.ALL_MEASURED:
        write_atomically(issue_file, issue(night).encode())
    if annotations_file:
        write_atomically(annotations_file, "".join(f"{line}\n" for line in annotated(night)).encode())
    if night.exit:
        raise click.exceptions.Exit(night.exit)


def _night(words: Sequence[str], against: str | None, results: Path, store: str | None) -> Night:
    from runner.analysis.nightly import Night
    from runner.analysis.rates import RATES
    from runner.analysis.samples import read_samples
    from runner.analysis.selectors import good_before, runs_named
    from runner.base.errors import BadInput

    with opened(store, results) as shared:
        every = shared.runs()
        among = chosen_runs(shared, words)
        if against:
            runs_named(against, every)  # a slip of the pen is no night without a comparison
        before = {one.id: one for run in among if (one := good_before(run, every))}
        recorded = shared.trial_counts({run.id for run in among})
        found = read_samples(shared, among, RATES)
        judgements, unjudged = _judged(shared, among, results)
    a = against or ",".join(map(_word, before.values()))
    comparison, alone = None, "No run before it, of the same part in the same place, ended well."
    if a:
        try:
            comparison = _compared(a, ",".join(map(_word, among)), results, store)
        except BadInput as problem:
            alone = " ".join(filter(None, (f"{problem.brief}.", problem.details)))
    return Night(among, found, recorded, judgements, comparison, alone, unjudged, _commands(among, results))


def _judged(shared: SharedStore, runs: Sequence[RunRow], results: Path) -> tuple[list[Judgement], str]:
    """What the runs say of their guidelines, or why nobody can tell: the rest is to be said all the same."""
    from runner.analysis.samples import read_samples
    from runner.analysis.stored_guidelines import columns_of, judged_in_store
    from runner.base.errors import BadInput
    from runner.cli.guidelines import of_runs

    try:
        guidelines = of_runs(runs, results)
        return judged_in_store(guidelines, read_samples(shared, runs, columns_of(guidelines))) if guidelines else [], ""
    except BadInput as problem:
        return [], f"nobody can tell: {problem.brief}. {problem.details}"


def _word(run: RunRow) -> str:
    """How it can be named beside others."""
    return run.id if "," in run.name else run.name


def _compared(a: str, b: str, results: Path, store: str | None) -> Comparison:
    from runner.cli.compare import Question, answered

    return answered(Question(a, b, "run", (), (), (), 0.05, 0.95), results, store)


def _commands(runs: Sequence[RunRow], results: Path) -> dict[str, Sequence[str]]:
    """How they were started: their folders know."""
    from runner.results.run_folder import load

    there = [run for run in runs if (results / run.name / "manifest.json").is_file()]
    return {run.id: load(results / run.name).manifest.command for run in there}
