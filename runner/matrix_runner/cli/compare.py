"""`matrix compare` (answers/comparison.py, sides in answers/pairs.py) and `matrix history` (answers/history.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.base.extras import require_statistics
from matrix_runner.base.files import write_output
from matrix_runner.base.findings import few
from matrix_runner.base.quantities import parse_percent
from matrix_runner.cli.options import FILE, Decorator, Parsed, Words, only, rows, run_argument, run_option
from matrix_runner.cli.screen import echo
from matrix_runner.cli.store_options import (
    Output,
    Source,
    accepted,
    change_files,
    open_store,
    output,
    select_or_default,
    source,
    write_change_files,
    write_grid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix_runner.answers.comparison import Comparison
    from matrix_runner.answers.history import Series
    from matrix_runner.language.references import KnownChange
    from matrix_runner.records.store import RunRow, SharedStore
    from matrix_runner.space.declared_files import AcceptedFiles


_EPILOG = """\b
Examples:
  matrix compare latest~1 latest                           changes since the run before
  matrix compare accepted latest                           with the accepted level, as `matrix summary` does
  matrix compare latest~good latest                        since the last run that ended well
  matrix compare latest latest                             with itself: the noise floor
  matrix compare nightly-qemu-20260304-050607 latest --within 5%
  matrix compare --by kernel debian-12 debian-13           kernels, over all runs that had them
  matrix compare --by kernel 6.1 6.12 latest               within one run: round by round
  matrix compare --by revision 1f3a9c 77d0e2               git revisions of the matrix's folder
  matrix compare --by host lab1 lab2 --only 'layout=raid5'
  matrix compare --by md.chunk 64KiB 512KiB latest         values of an axis, other axes being equal
  matrix compare --by layout raid5 far latest              layouts: cells with equal values on all axes that both have
  matrix compare latest~1 latest --html changes.html       and a page with a chart, the slowest cell first
  matrix compare latest~1 latest --metric reader.read_iops one job of cells with several
  matrix compare latest~1 latest --strict                  for scripts: 0 only if each cell is known not to be slower

\b
Ratios are B over A (in guidelines: `ratio:`, formerly `compare:`); the verdict is about B; (!): host-limited trials.

\b
Exit codes: 0 no cell is slower, 1 one is slower or corrupt, 2 bad input, 3 trials of B are broken where A has figures.
With --strict: 4 instead of 0 if some cell cannot tell, or has no figures on one side.
Names of runs: see `matrix results --help`.
"""


_PERCENT = Parsed("percent", lambda text: float(parse_percent(text)))


def _metrics(purpose: str) -> Decorator:
    rates = "bandwidth of requests of 64 KiB and more, IOPS of smaller ones"
    about = f"A figure to {purpose}, JOB.read_bw for one job; repeat the option for more.  [default: {rates}]"
    return click.option("--metric", "metrics", multiple=True, help=about)


@click.command("compare", epilog=_EPILOG)
@run_argument("a")
@run_argument("b")
@run_argument("among", nargs=-1, metavar="[RUNS]...")
@click.option(
    "--by",
    default="run",
    show_default=True,
    metavar="WHAT",
    help="The kind of A and B: run, kernel, host, revision or an axis.",
)
@run_option("--runs", multiple=True, help="With --by: use only these runs. They may also be written after A and B.")
@only
@_metrics("compare")
@click.option(
    "--within", type=_PERCENT, default="5%", show_default=True, help="Differences up to this size count as equal."
)
@click.option(
    "--confidence", type=_PERCENT, default="95%", show_default=True, help="The confidence of intervals and verdicts."
)
@click.option(
    "--strict", is_flag=True, help="Exit with 4 instead of 0 if some cell cannot tell, or has no figures on one side."
)
@rows(50)
@accepted
@change_files
@click.option("--html", type=FILE, help="Also write a page with a chart of all differences to this file.")
@output
@source
def command(
    among: tuple[str, ...],
    runs: tuple[str, ...],
    rows: int,
    html: Path | None,
    output: Output,
    strict: bool,
    accepted: Path,
    files: tuple[Path | None, Path | None],
    **options: Any,
) -> None:
    """Compare every cell of B with A: faster, slower, same or cannot tell."""
    from matrix_runner.answers.stored_samples import COMPARED, is_compared
    from matrix_runner.cli.results import parse_metrics
    from matrix_runner.pages.compare_table import data_table, display_table
    from matrix_runner.space.declared_files import load_accepted

    asked = ComparisonRequest(runs=(*among, *runs), accepted=load_accepted(accepted), **options)
    if not 0 < asked.confidence < 1:
        raise BadInput(f"--confidence {asked.confidence:g}: must lie between 0% and 100%")
    if asked.by == "run" and asked.runs:
        raise BadInput(
            f"--runs {', '.join(asked.runs)}: needs --by kernel, host, revision or an axis",
            resolution="leave it out: A and B name the runs",
        )
    asked = replace(asked, metrics=parse_metrics(asked.metrics))
    if others := [one for one in asked.metrics if not is_compared(one)]:
        raise BadInput(
            f"--metric {', '.join(others)}: not a figure of speed", resolution=f"use one of {', '.join(COMPARED)}"
        )
    done = compare_runs(asked)
    most = rows if output.is_table else None
    write_grid(display_table(done, most=most) if output.is_text else data_table(done), output)
    if html:
        from matrix_runner.pages.compare_table import page

        write_output(html, page(done))
        echo(f"written to {html}", err=True)
    if any(files):
        from matrix_runner.pages.change_files import checks_of_comparison

        write_change_files(files, f"{done.b.name} against {done.a.name}", checks_of_comparison(done))
    if done.exit:
        raise click.exceptions.Exit(done.exit)
    if strict and not done.decided:
        raise click.exceptions.Exit(Exit.CANNOT_TELL)


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    a: str
    b: str
    source: Source
    accepted: AcceptedFiles
    by: str = "run"
    runs: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    within: float = 0.05
    confidence: float = 0.95
    title: str = ""  # of A, if not its word

    @property
    def known(self) -> Sequence[KnownChange]:
        return self.accepted.changes if self.by == "run" else ()


def compare_runs(asked: ComparisonRequest) -> Comparison:
    from matrix_runner.answers.comparison import Terms, compare_sides
    from matrix_runner.answers.old_kernel import with_old_kernel
    from matrix_runner.answers.pairs import BY_ID, Side, earlier_groups, parts, runs_of, side_of
    from matrix_runner.answers.selectors import ACCEPTED, explain_baseline, explain_passed_over, with_hint
    from matrix_runner.answers.stored_samples import LATENCIES, USUAL_RATES
    from matrix_runner.cli.results import check_jobs
    from matrix_runner.pages.compare_table import describe_noise_floor
    from matrix_runner.pages.stored import Reader

    kind = {"git": "revision"}.get(asked.by, asked.by)
    with open_store(asked.source) as shared:
        among, left_out = (shared.runs(), "") if kind == "run" else select_or_default(shared, asked.runs)
        if kind == "run" and (over := explain_passed_over((asked.a, asked.b), among)):
            echo(f"note: {over}", err=True)
        if kind == "run" and asked.a == ACCEPTED:
            asked = replace(asked, a=_accepted_word(asked, shared, among), title=ACCEPTED)
        with with_hint(left_out):
            runs_by_side = [runs_of(kind, word, among) for word in (asked.a, asked.b)]
        every = list({run.id: run for runs in runs_by_side for run in runs}.values())
        check_jobs(asked.metrics, shared, every)
        recorded = shared.trial_counts([run for run in every if not run.finished])
        reader = Reader(shared, asked.metrics or (*USUAL_RATES, *LATENCIES), asked.source.results, only=asked.only)
        found = reader.read(every)
        with with_hint(left_out):
            ids = [{run.id for run in runs} for runs in runs_by_side]
            a, b = (
                side_of(kind, word, [one for one in found if one.run.id in those])
                for word, those in zip((asked.a, asked.b), ids, strict=True)
            )
        level = f"{ACCEPTED}: the level of {few(run.name for run in a.runs)}" if asked.title else ""
        whys = (explain_baseline(run, among, asked.accepted.baselines.entries) for run in b.runs if asked.title)
        level = "; ".join((level, *filter(None, whys)))
        a = replace(a, name=asked.title or a.name)
        alone = kind == "run" and len(every) == 1
        if alone:
            a, b = parts(asked.a, found)
        # Values of an axis have no earlier groups: ids do not identify them in earlier runs.
        groups = earlier_groups(a, b, shared.runs()) if kind in BY_ID else []
        history = [Side("", reader.read(group, histograms=False)) for group in groups]
    terms = Terms(kind, asked.metrics, asked.within, asked.confidence, asked.known, history, recorded)
    with with_hint(left_out):
        done = compare_sides(a, b, terms)
        if len(b.runs) == 1:
            done = with_old_kernel(done, asked.source.results / b.runs[0].name, terms)
    noise_floor = describe_noise_floor(done) if alone else ""
    return replace(done, notes=(*filter(None, (level,)), *done.notes, *filter(None, (left_out, noise_floor))))


def _accepted_word(asked: ComparisonRequest, shared: SharedStore, among: Sequence[RunRow]) -> str:
    from matrix_runner.answers.history import read_levels
    from matrix_runner.answers.selectors import run_words, runs_named

    nights = runs_named(asked.b, among)
    level = read_levels(shared, nights, asked.accepted)
    if not level:
        raise BadInput(
            f"there is no accepted level for {asked.b}",
            details="no earlier run of the same part, machine and host ended with 0 (imports do not), and no baseline "
            "names another run",
            resolution="`matrix accept EARLIER --baseline --reason …` makes a run the level; `matrix runs` lists them",
        )
    return run_words(level)


_HISTORY_EPILOG = """\b
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


@dataclass(frozen=True, slots=True)
class HistoryRequest:
    cell: str | None
    only: Words
    runs: Words
    metrics: Words
    accepted: Path
    source: Source

    def timelines(self) -> tuple[list[Series], str]:
        """Return the figures of the selected cells through the runs, and a note on runs that are left out."""
        from matrix_runner.answers.history import Level, check_baselines, timelines
        from matrix_runner.answers.selectors import with_hint
        from matrix_runner.answers.stored_samples import USUAL_RATES
        from matrix_runner.cli.results import check_jobs, parse_metrics
        from matrix_runner.pages.stored import Reader
        from matrix_runner.space.declared_files import load_accepted

        metrics, known = parse_metrics(self.metrics), load_accepted(self.accepted)
        with open_store(self.source) as shared:
            among, left_out = select_or_default(shared, self.runs)
            check_baselines(among, shared.runs(), known)
            check_jobs(metrics, shared, among)
            found = Reader(shared, metrics or USUAL_RATES, self.source.results, self.cell, self.only).read(among)
        series = timelines(found, metrics, Level(known.baselines.entries, known.changes))
        if not series:
            with with_hint(left_out):
                raise BadInput("the selected cells have no such figures", resolution="`matrix results` lists all cells")
        return series, left_out


@click.command("history", epilog=_HISTORY_EPILOG)
@click.argument("cell", required=False)
@only
@run_option("--runs", multiple=True, help="Only these runs. Repeat the option for more.")
@_metrics("follow")
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
def history_command(
    fail_on_change: bool, files: tuple[Path | None, Path | None], rows: int, output: Output, **options: Any
) -> None:
    """Follow CELL, by its name or id, or all cells, through all runs: figures, intervals and changes of level."""
    require_statistics("matrix history")
    from matrix_runner.answers.history import find_history_alarms
    from matrix_runner.pages.compare_table import describe_known
    from matrix_runner.pages.timeline import data_table, describe_alarms, display_table

    series, left_out = HistoryRequest(**options).timelines()
    grid = display_table(series, most=rows) if output.is_text else data_table(series)
    alarms = find_history_alarms(series)
    write_grid(
        grid.with_notes(left_out, *describe_known(series, "accepted", "end its entry"), *describe_alarms(alarms)),
        output,
    )
    if any(files):
        from matrix_runner.pages.change_files import checks_of_history

        write_change_files(files, "history", checks_of_history(series, alarms))
    if fail_on_change and alarms:
        raise click.exceptions.Exit(Exit.CLAIM_FAILED)
