"""Summary of nightly runs: a page, an issue, annotations. Text of a run is escaped: it is no markup and no command."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.analysis.compare import Comparison, Line, Speed, differences
from runner.analysis.compare_table import display_table as compared_shown
from runner.analysis.samples import USUAL_RATES, Samples, unit_of
from runner.analysis.stored_guidelines import as_measured, share_of
from runner.analysis.tables import display_table as results_shown
from runner.base.errors import Exit
from runner.guidelines.ranking import rank_stacks
from runner.reports.answer import answer_as_markdown, summarize_rankings
from runner.reports.table import Grid, as_markdown, escape_markdown
from runner.reports.terminal_text import figure, times
from runner.reports.verdicts import explain_verdict, verdict_table, verdict_text
from runner.results.record import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.guidelines.verdicts import Judgement
    from runner.results.store import RunRow

_ROWS, _ANNOTATIONS = 50, 10  # limits of GitHub: a page has 1 MiB, and a step 10 annotations of a kind


@dataclass(frozen=True)
class Night:
    runs: Sequence[RunRow]
    found: Sequence[Samples]
    recorded: Mapping[str, int]
    judgements: Sequence[Judgement]
    comparison: Comparison | None
    alone: str = ""  # why there is no comparison
    unjudged: str = ""  # why guidelines are not judged
    commands: Mapping[str, Sequence[str]] | None = None

    @property
    def broken(self) -> list[Samples]:
        return [one for one in self.found if one.counts.get(Outcome.BROKEN)]

    @property
    def corrupt(self) -> list[Samples]:
        return [one for one in self.found if one.counts.get(Outcome.CORRUPT)]

    @property
    def unmeasured(self) -> list[RunRow]:
        measured = {one.run.id for one in self.found if one.counts.get(Outcome.MEASURED)}
        return [run for run in self.runs if run.finished and run.id not in measured]

    @property
    def failing(self) -> list[Judgement]:
        return [one for one in self.judgements if one.failed]

    @property
    def slower(self) -> list[Line]:
        return [line for line in self.comparison.lines if line.speed is Speed.SLOWER] if self.comparison else []

    @property
    def unfinished(self) -> list[RunRow]:
        return [run for run in self.runs if not run.finished]

    @property
    def exit(self) -> Exit:
        if self.corrupt:
            return Exit.CLAIM_FAILED
        if self.broken or self.unfinished or self.unmeasured:
            return Exit.BROKEN
        # Only the run folder knows which guideline failed.
        ended = any(run.exit == Exit.CLAIM_FAILED for run in self.runs)
        return Exit.CLAIM_FAILED if self.failing or self.slower or ended else Exit.ALL_MEASURED

    @property
    def title(self) -> str:
        matrices = ", ".join(dict.fromkeys(f"{run.matrix} on {run.machine}" for run in self.runs))
        counts = (
            (len(self.corrupt), "cell corrupt", "cells corrupt"),
            (len(self.unfinished), "run not finished", "runs not finished"),
            (len(self.unmeasured), "run measured nothing", "runs measured nothing"),
            (len(self.broken), "cell broken", "cells broken"),
            (len(self.failing), "guideline fails", "guidelines fail"),
            (len(self.slower), "figure slower", "figures slower"),
        )
        wrong = ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in counts if count)
        count = sum(bool(one.host_limited) for one in self.found)
        doubtful = f", {count:,} {'cell' if count == 1 else 'cells'} host-limited" if count else ""
        synthetic = " (synthetic: not measured)" if any(run.synthetic for run in self.runs) else ""
        return f"{matrices}: {wrong or 'all measured'}{doubtful}{synthetic}"


def page(night: Night) -> str:
    parts = [f"# {escape_markdown(night.title)}", *_answers(night), _table(_of_runs(night))]
    if night.judgements or night.unjudged:
        judged = _table(verdict_table(night.judgements)) if night.judgements else escape_markdown(night.unjudged)
        parts += ["## Guidelines", judged]
    if night.corrupt:
        parts += ["## Wrong data", _table(_of_cells(night.corrupt, Outcome.CORRUPT))]
    if night.broken:
        parts += ["## What broke", _table(_of_cells(night.broken, Outcome.BROKEN))]
    parts.append("## Against the last run that ended well")
    if night.comparison:
        shown = compared_shown(night.comparison, most=_ROWS, hint=f"`{_compare_command(night.comparison)}` shows more")
        parts.append(_table(shown))
    else:
        parts.append(escape_markdown(night.alone))
    names = shlex.join(run.name for run in night.runs)
    figures = _table(
        results_shown(night.found, USUAL_RATES, most=4 * _ROWS, hint=f"`matrix results {names}` shows more")
    )
    parts.append(f"<details><summary>All figures</summary>\n\n{figures}\n</details>")
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _compare_command(done: Comparison) -> str:
    return shlex.join(["matrix", "compare", done.a.name, done.b.name])


def issue(night: Night) -> str:
    parts = [f"# {escape_markdown(night.title)}", _table(_of_runs(night))]
    if night.slower:
        parts += ["## Slower than before", _table(_of_slower(night))]
    if night.failing:
        claims = map(_describe_failure, night.failing)
        parts += ["## Guidelines that fail", *(f"- {escape_markdown(claim)}" for claim in claims)]
    if night.corrupt:
        parts += ["## Wrong data", _table(_of_cells(night.corrupt, Outcome.CORRUPT))]
    if night.broken:
        parts += ["## What broke", _table(_of_cells(night.broken, Outcome.BROKEN))]
    parts += ["## Other differences", _other_differences(night), "## How to repeat it", _repeat_commands(night)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def annotated(night: Night) -> Iterator[str]:
    cells = [*(("corrupt", one) for one in night.corrupt), *(("broken", one) for one in night.broken)]
    for outcome, one in cells[:_ANNOTATIONS]:
        yield _command("error", f"{outcome}: {one.cell.name}", "; ".join(one.reasons))
    for claim in night.failing[: max(0, _ANNOTATIONS - len(cells))]:
        yield _command("error", f"guideline {claim.guideline.id} fails", explain_verdict(claim))
    for line in night.slower[:_ANNOTATIONS]:
        before, now = (figure(mean, unit_of(line.metric)) for mean in line.means)
        ratio = f", {times(line.ratio.ratio)} ({line.interval})" if line.ratio else ""
        yield _command("warning", f"slower: {line.name}", f"{line.metric} {before} → {now}{ratio}")


def _command(kind: str, title: str, text: str) -> str:
    """Escape characters that could end the line, a property or the text."""
    escapes = {ord(character): f"%{ord(character):02X}" for character in "%\r\n"}
    property_escapes = escapes | {ord(character): f"%{ord(character):02X}" for character in ":,"}
    return f"::{kind} title={title.translate(property_escapes)}::{text.translate(escapes)}"


def _answers(night: Night) -> Iterator[str]:
    """Return the fastest stacks of each run. Skip parts of a matrix, because they lack stacks."""
    for run in night.runs:
        found = [one for one in night.found if one.run.id == run.id]
        rankings = rank_stacks(map(as_measured, found), run.confidence, share_of(found)) if not run.part else []
        if words := summarize_rankings(rankings, synthetic=run.synthetic, over=run.finished):
            yield (f"{escape_markdown(run.name)}:\n\n" if len(night.runs) > 1 else "") + answer_as_markdown(words)


def _table(grid: Grid) -> str:
    return as_markdown(grid).decode()


def _of_runs(night: Night) -> Grid:
    columns = ("run", "part", "host", "revision", "started", "trials", "ended with")
    rows = [
        (
            *(run.name, run.part or "all", run.host, run.revision[:12] + "+" * run.revision.endswith("+"), run.started),
            f"{night.recorded.get(run.id, 0):,} of {run.planned:,}",
            "not finished" if not run.finished else "" if run.exit is None else str(run.exit),
        )
        for run in night.runs
    ]
    return Grid(columns, rows)


def _of_cells(cells: Sequence[Samples], outcome: Outcome) -> Grid:
    rows = [(one.cell.name, f"{one.counts[outcome]} of {len(one.rows)}", "; ".join(one.reasons)[:500]) for one in cells]
    left = (f"{len(rows) - _ROWS:,} more cells",) if len(rows) > _ROWS else ()
    return Grid(("cell", f"trials {outcome}", "why"), rows[:_ROWS], left)


def _of_slower(night: Night) -> Grid:
    columns = ("cell", "figure", "before", "now", "now / before", "interval", "")
    rows = [
        (
            *(line.name, line.metric),
            *(figure(mean, unit_of(line.metric)) for mean in line.means),
            times(line.ratio.ratio) if line.ratio else "",
            line.interval,
            "(!) host-limited" if line.doubtful else "",
        )
        for line in night.slower
    ]
    left = (f"{len(rows) - _ROWS:,} more figures",) if len(rows) > _ROWS else ()
    return Grid(columns, rows[:_ROWS], left, frozenset(columns[2:6]))


def _describe_failure(judgement: Judgement) -> str:
    guideline = judgement.guideline
    source = f" [{guideline.source}]" if guideline.source else ""
    return f"{guideline.id}: {guideline.claim}{source}: {verdict_text(judgement)}; {explain_verdict(judgement)}"


def _other_differences(night: Night) -> str:
    if night.comparison is None:
        return f"No comparison: {escape_markdown(night.alone)}"
    notes = "".join(f"- {escape_markdown(note)}\n" for note in night.comparison.notes)
    differing = differences(night.comparison.a, night.comparison.b)
    if not differing:
        return f"{notes}\nThe recorded host, disks, kernels, versions and templates are the same."
    return f"{notes}\n{_table(Grid(('what', 'before', 'now'), differing))}"


def _repeat_commands(night: Night) -> str:
    lines = [f"git checkout {shlex.quote(run.revision.rstrip('+'))}" for run in night.runs[:1] if run.revision]
    lines += [shlex.join(words) for run in night.runs if (words := (night.commands or {}).get(run.id))]
    if night.comparison:
        lines.append(_compare_command(night.comparison))
    text = "\n".join(lines)
    fence = "`" * 4
    while fence in text:
        fence += "`"
    return (
        f"{fence}sh\n{text}\n{fence}\n\n"
        "Each cell has its own folder below `cells/` of the run, with its scripts and fio jobs, numbered in order."
    )
