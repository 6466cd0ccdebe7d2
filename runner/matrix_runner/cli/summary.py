"""`matrix summary`: the work is in pages/nightly.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.base.files import write_output
from matrix_runner.cli.options import FILE, run_argument, run_option
from matrix_runner.cli.screen import echo_whole
from matrix_runner.cli.store_options import Source, accepted, open_store, select_runs, source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix_runner.answers.verdicts import Judgement
    from matrix_runner.pages.nightly import Night
    from matrix_runner.records.store import RunRow, SharedStore

_EPILOG = """\b
Examples:
  matrix summary latest                            results of the latest run, and changes from the accepted level
  matrix summary latest --against nightly~7        changes since another run
  matrix summary latest --issue regression.md      text for an issue, if there is a regression

\b
The accepted level is that of the runs in baselines.yaml; without one, that of the first good runs of the same matrix,
machine and host. Changes in known-changes.yaml are a part of it. `matrix accept` writes both files.

\b
Exit codes: 0 all measured and no cell slower, 1 a guideline fails, or a cell is slower or corrupt, 2 bad input,
3 a trial is broken, a run is not finished, or has no measured trial.
Names of runs: see `matrix results --help`.
"""


_ALONE = "There is no good earlier run of the same part on the same machine and host. No baseline names another run."


@click.command("summary", epilog=_EPILOG)
@run_argument("runs", nargs=-1, required=True)
@run_option("--against", metavar="RUN", help="The run to compare with.  [default: for each run, the accepted level]")
@click.option(
    "--issue",
    "issue_file",
    type=FILE,
    help="If the exit code is 1 or 3, write the text of an issue to this file.",
)
@click.option(
    "--annotations",
    "annotations_file",
    type=FILE,
    help="Write problems to this file as GitHub workflow commands.",
)
@accepted
@source
def command(
    runs: tuple[str, ...],
    against: str | None,
    issue_file: Path | None,
    annotations_file: Path | None,
    accepted: Path,
    source: Source,
) -> None:
    """Summarise RUNS in Markdown: verdicts, broken trials, and changes from the accepted level."""
    from matrix_runner.pages.nightly import annotated, issue, page

    night = read_night(runs, against, accepted, source)
    echo_whole(page(night), newline=False)
    if issue_file and night.exit is not Exit.ALL_MEASURED:
        write_output(issue_file, issue(night).encode())
    if annotations_file:
        write_output(annotations_file, "".join(f"{line}\n" for line in annotated(night)).encode())
    if night.exit:
        raise click.exceptions.Exit(night.exit)


def read_night(words: Sequence[str], against: str | None, accepted: Path, source: Source) -> Night:
    from matrix_runner.answers.history import read_levels
    from matrix_runner.answers.selectors import ACCEPTED, run_words, runs_named
    from matrix_runner.answers.stored_samples import USUAL_RATES, read_samples
    from matrix_runner.cli.compare import ComparisonRequest, compare_runs
    from matrix_runner.pages.nightly import Night
    from matrix_runner.records.run_folder import load
    from matrix_runner.session.run_request import assign_state
    from matrix_runner.space.declared_files import load_accepted

    files = load_accepted(accepted)
    with open_store(source) as shared:
        every = shared.runs()
        among = select_runs(shared, words)
        if against:
            runs_named(against, every)  # refuse a misspelled name
        level = [] if against else read_levels(shared, among, files)
        recorded = shared.trial_counts(among)
        found = read_samples(shared, among, USUAL_RATES)
        judgements, unjudged = _judge(shared, among, source.results)
    a = against or run_words(level)
    comparison, alone = None, _ALONE
    if a:
        try:
            title = "" if against else ACCEPTED
            comparison = compare_runs(ComparisonRequest(a, run_words(among), source, files, title=title))
        except BadInput as problem:
            alone = " ".join(filter(None, (f"{problem.brief}.", problem.details)))
    local = [run for run in among if (source.results / run.name / "manifest.json").is_file()]
    commands = {run.id: load(source.results / run.name).manifest.command for run in local}
    folder = "" if source.results == Path("results") else str(source.results)
    return Night(among, found, recorded, judgements, comparison, alone, unjudged, commands, folder, assign_state())


def _judge(shared: SharedStore, runs: Sequence[RunRow], results: Path) -> tuple[list[Judgement], str]:
    """Judge the guidelines of runs; on an error return its text, so that the summary still has the rest."""
    from matrix_runner.cli.guidelines import declared_guidelines
    from matrix_runner.pages.stored import judged_in_store, read_for

    try:
        guidelines = declared_guidelines(runs, results)
        return judged_in_store(guidelines, read_for(guidelines, shared, runs, results)) if guidelines else [], ""
    except BadInput as problem:
        return [], f"not judged: {problem.brief}. {problem.details}"
