"""`matrix compare`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.options import only, results, store
from runner.cli.screen import echo
from runner.cli.store_options import TEXT_FORMATS, form, open_store, select_runs, to, write_grid

if TYPE_CHECKING:
    from runner.analysis.compare import Comparison

_EPILOG = """\b
Examples:
  matrix compare latest~1 latest                           changes since the run before
  matrix compare latest~good latest                        since the last run that ended well
  matrix compare latest latest                             with itself: the noise floor
  matrix compare nightly-qemu-20260304-050607 latest --within 5%
  matrix compare --by kernel debian-12 debian-13           kernels, over all runs that had them
  matrix compare --by kernel 6.1 6.12 latest               within one run: round by round
  matrix compare --by revision 1f3a9c 77d0e2               git revisions of the matrix's folder
  matrix compare --by host lab1 lab2 --only 'layout=raid5'
  matrix compare --by md.chunk 64KiB 512KiB latest         values of an axis, other axes being equal
  matrix compare --by layout raid5 far latest              layouts: cells that agree on all axes that both have

\b
Ratios are B over A; the verdict is about B; (!): the cell has host-limited trials.
Exit codes: 0 no cell is slower, 1 a cell is slower, 2 bad input, 3 trials of B are broken where A has figures.
Names of runs: see `matrix results --help`.
"""


class _Percent(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    name = "percent"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from runner.base.quantities import parse_percent

        try:
            return float(parse_percent(value))
        except ValueError as problem:
            self.fail(str(problem), param, ctx)


@click.command("compare", epilog=_EPILOG)
@click.argument("a")
@click.argument("b")
@click.argument("among", nargs=-1, metavar="[RUNS]...")
@click.option(
    "--by",
    default="run",
    show_default=True,
    metavar="WHAT",
    help="The kind of A and B: run, kernel, host, revision or an axis.",
)
@click.option("--runs", multiple=True, help="With --by: only among these runs, which may also follow A and B.")
@only
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Figures to compare.  [default: bandwidth of requests of 64 KiB and more, IOPS of smaller ones]",
)
@click.option(
    "--within", type=_Percent(), default="5%", show_default=True, help="Differences up to this size count as equal."
)
@click.option("--confidence", type=_Percent(), default="95%", show_default=True, help="Of intervals and verdicts.")
@click.option("--rows", type=click.IntRange(min=1), default=50, show_default=True, help="At most, in a table.")
@form
@to
@results
@store
def command(
    a: str,
    b: str,
    among: tuple[str, ...],
    by: str,
    runs: tuple[str, ...],
    only: tuple[str, ...],
    metrics: tuple[str, ...],
    within: float,
    confidence: float,
    rows: int,
    form: str,
    to: Path | None,
    results: Path,
    store: str | None,
) -> None:
    """Compare every cell of B with A: faster, slower, same or inconclusive."""
    from runner.analysis.compare_table import data_table, display_table
    from runner.analysis.metrics import COMPARED
    from runner.base.errors import BadInput, Exit
    from runner.cli.results import parse_metrics

    if not 0 < confidence < 1:
        raise BadInput(f"--confidence {confidence:g}: must lie between 0% and 100%")
    runs = (*among, *runs)
    if by == "run" and runs:
        raise BadInput(
            f"--runs {', '.join(runs)}: needs --by kernel, host, revision or an axis",
            resolution="leave it out: A and B name the runs",
        )
    asked = parse_metrics(metrics)
    if others := [one for one in asked if one not in COMPARED]:
        raise BadInput(
            f"--metric {', '.join(others)}: not a figure of speed",
            resolution=f"use one of {', '.join(COMPARED)}",
        )
    done = compare_runs(ComparisonRequest(a, b, by, runs, only, asked, within, confidence), results, store)
    most = rows if form == "table" else None
    write_grid(display_table(done, most=most) if form in TEXT_FORMATS else data_table(done), form, to)
    if done.broken:
        raise click.exceptions.Exit(Exit.BROKEN)
    if done.slower:
        raise click.exceptions.Exit(Exit.CLAIM_FAILED)


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    a: str
    b: str
    by: str
    runs: tuple[str, ...]
    only: tuple[str, ...]
    metrics: tuple[str, ...]
    within: float
    confidence: float


def compare_runs(asked: ComparisonRequest, results: Path, store: str | None) -> Comparison:
    from runner.analysis.compare import compare_sides
    from runner.analysis.metrics import USUAL_RATES
    from runner.analysis.operands import BY_ID, Side, describe_noise_floor, earlier_groups, parts, runs_of, side_of
    from runner.analysis.samples import read_samples
    from runner.analysis.selectors import default_runs, explain_passed_over, select_cells, with_hint

    kind = {"git": "revision"}.get(asked.by, asked.by)
    left_out = ""
    with open_store(store, results) as shared:
        among = select_runs(shared, asked.runs)
        if kind != "run" and not asked.runs:
            among, left_out = default_runs(among)
        if kind == "run" and (over := explain_passed_over((asked.a, asked.b), among)):
            echo(f"note: {over}", err=True)
        with with_hint(left_out):
            of = {word: runs_of(kind, word, among) for word in (asked.a, asked.b)}
        every = list({run.id: run for several in of.values() for run in several}.values())
        recorded = shared.trial_counts([run.id for run in every if not run.finished])
        there = shared.different_cells() if asked.only else ()
        chosen = select_cells(None, asked.only, there)
        found = read_samples(shared, every, asked.metrics or USUAL_RATES, chosen)
        with with_hint(left_out):
            sides = []
            for word in (asked.a, asked.b):
                ids = {run.id for run in of[word]}
                sides.append(side_of(kind, word, [one for one in found if one.run.id in ids]))
        alone = kind == "run" and len(every) == 1
        if alone:
            sides = list(parts(asked.a, found))
        # Values of an axis have no earlier groups: ids do not identify them in earlier runs.
        groups = earlier_groups(sides[0], sides[1], shared.runs()) if kind in BY_ID else []
        history = [
            Side("", read_samples(shared, group, asked.metrics or USUAL_RATES, chosen, histograms=False))
            for group in groups
        ]
    with with_hint(left_out):
        done = compare_sides(
            sides[0],
            sides[1],
            kind,
            asked.metrics,
            within=asked.within,
            confidence=asked.confidence,
            recorded=recorded,
            history=history,
        )
    null = describe_noise_floor(done) if alone else ""
    return replace(done, notes=(*done.notes, *filter(None, (left_out, null))))
