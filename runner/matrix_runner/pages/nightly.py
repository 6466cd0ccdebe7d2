"""Summary of nightly runs: a page, an issue, annotations. Text of a run is escaped: it is no markup and no command."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import geometric_mean

from matrix_runner.answers.comparison import Comparison, Line, Speed
from matrix_runner.answers.history import Alarm, find_alarms
from matrix_runner.answers.pairs import differences
from matrix_runner.answers.ranking import Ranking, RankingRule, rank_stacks, stack_name
from matrix_runner.answers.stored_samples import USUAL_RATES, Samples
from matrix_runner.answers.verdicts import Judgement
from matrix_runner.base.errors import Exit
from matrix_runner.base.text import of_planned
from matrix_runner.pages.answer import answer_as_markdown, summarize_rankings
from matrix_runner.pages.compare_table import describe_alarm
from matrix_runner.pages.compare_table import display_table as compared_shown
from matrix_runner.pages.ranking import figure_of, mark, workload_name
from matrix_runner.pages.results import display_table as results_shown
from matrix_runner.pages.stored import as_measured, share_of
from matrix_runner.pages.table import Grid, as_markdown, escape_markdown
from matrix_runner.pages.verdicts import explain_verdict, verdict_table, verdict_text
from matrix_runner.records.record import WORST, Outcome
from matrix_runner.records.store import RunRow

_ROWS, _ANNOTATIONS = 50, 10  # limits of GitHub: a page has 1 MiB, and a step 10 annotations of a kind
_LINES = 58  # of the page, before the empty line and what is folded
_LEAST_NOTES = 4  # the result of a comparison is one of the first four
_STACKS = 8  # rows of the heat map
_ROWS_TO_TRY = (24, 12, 8, 5, 3, 2, 1)  # of each table


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
    results: str = ""  # the folder of all runs, if it is not the usual one
    assignment: str = ""  # before commands that repeat a run

    def command(self, *words: str) -> str:
        return shlex.join(["matrix", *words, *(("--results", self.results) if self.results else ())])

    @property
    def compare_command(self) -> str:
        return self.command("compare", self.comparison.a.name, self.comparison.b.name) if self.comparison else ""

    @cached_property
    def bad(self) -> Mapping[Outcome, Sequence[Samples]]:
        """Return the cells with trials of the bad outcomes, the worst first."""
        return {bad: [one for one in self.found if one.counts.get(bad)] for bad in WORST}

    @property
    def unmeasured(self) -> list[RunRow]:
        measured = {one.run.id for one in self.found if one.measured}
        return [run for run in self.runs if run.finished and run.id not in measured]

    @property
    def failing(self) -> list[Judgement]:
        return [one for one in self.judgements if one.failed]

    @property
    def slower(self) -> list[Line]:
        return [line for line in self.comparison.lines if line.speed is Speed.SLOWER] if self.comparison else []

    @cached_property
    def alarms(self) -> list[Alarm[Line]]:
        return find_alarms(self.comparison.lines) if self.comparison else []

    @property
    def unfinished(self) -> list[RunRow]:
        return [run for run in self.runs if not run.finished]

    @property
    def exit(self) -> Exit:
        worst = next((bad for bad, cells in self.bad.items() if cells), None)
        if worst and worst.is_failure:
            return worst.kind.exit
        if worst or self.unfinished or self.unmeasured:
            return Exit.BROKEN
        # Only the run folder knows which guideline failed.
        ended = any(run.exit == Exit.CLAIM_FAILED for run in self.runs)
        return Exit.CLAIM_FAILED if self.failing or self.slower or ended else Exit.ALL_MEASURED

    @property
    def title(self) -> str:
        matrices = ", ".join(dict.fromkeys(f"{run.matrix} on {run.machine}" for run in self.runs))
        counts = (
            *((len(cells), f"cell {bad}", f"cells {bad}") for bad, cells in self.bad.items() if bad.is_failure),
            (len(self.unfinished), "run not finished", "runs not finished"),
            (len(self.unmeasured), "run measured nothing", "runs measured nothing"),
            *((len(cells), f"cell {bad}", f"cells {bad}") for bad, cells in self.bad.items() if bad.is_error),
            (len(self.failing), "guideline fails", "guidelines fail"),
            (len(self.slower), "figure slower", "figures slower"),
        )
        wrong = ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in counts if count)
        count = sum(bool(one.host_limited) for one in self.found)
        doubtful = f", {count:,} {'cell' if count == 1 else 'cells'} host-limited" if count else ""
        synthetic = " (synthetic: not measured)" if any(run.synthetic for run in self.runs) else ""
        return f"{matrices}: {wrong or 'all measured'}{doubtful}{synthetic}"


def page(night: Night) -> str:
    """Return the page with as many rows as fit. What is folded below it has all."""
    tries = ((rows, _joined(_visible(night, rows))) for rows in _ROWS_TO_TRY)
    fitting = next((one for one in tries if one[1].count("\n") <= _LINES), None)
    rows, text = fitting or (1, _joined(_visible(night, 1)))
    return f"{text}\n{_folded(night, rows)}\n"


def _visible(night: Night, rows: int) -> Iterator[str]:
    yield f"# {escape_markdown(night.title)}"
    yield from _answers(night, rows)
    yield _table(_cut(_of_runs(night), rows))
    if night.judgements or night.unjudged:
        yield "## Guidelines"
        yield (
            _table(_cut(verdict_table(night.judgements), rows)) if night.judgements else escape_markdown(night.unjudged)
        )
    yield from _of_bad(night, rows)
    yield "## Against the accepted level"
    compared = _of_changes(night, night.comparison, rows) if night.comparison else None
    yield _table(_cut(compared, rows)) if compared else escape_markdown(night.alone)


def _folded(night: Night, rows: int) -> str:
    """Return what the page has no room for. `rows`: as many it shows."""
    hint = f"`{night.command('results', *(run.name for run in night.runs))}` shows more"
    parts = [_table(results_shown(night.found, USUAL_RATES, most=4 * _ROWS, hint=hint))]
    if night.judgements and _cut(verdicts := verdict_table(night.judgements), rows) != verdicts:
        parts.insert(0, _table(verdicts))
    if night.comparison:
        parts.insert(0, _table(_of_comparison(night, night.comparison, _ROWS)))
    return f"<details><summary>All figures</summary>\n\n{_joined(parts)}\n</details>"


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _cut(grid: Grid, rows: int) -> Grid:
    """Keep the first rows and notes."""
    most = max(rows, _LEAST_NOTES)
    counts = ((len(grid.rows) - rows, "more rows"), (len(grid.notes) - most, "more notes"))
    left = [f"{count:,} {what}" for count, what in counts if count > 0]
    notes = (*grid.notes[:most], *((f"{' and '.join(left)} are below, folded",) if left else ()))
    return Grid(grid.columns, grid.rows[:rows], notes, grid.right)


def _of_changes(night: Night, done: Comparison, rows: int) -> Grid:
    changed = sum(line.speed in (Speed.SLOWER, Speed.FASTER) for line in done.lines)
    folded = 'they are below, under "All figures"' if len(done.lines) <= _ROWS else ""
    return _of_comparison(night, done, min(rows, changed), folded)


def _of_comparison(night: Night, done: Comparison, most: int, hint: str = "") -> Grid:
    return compared_shown(done, most=most, hint=hint or f"`{night.compare_command}` shows more")


def issue(night: Night) -> str:
    parts = [f"# {escape_markdown(night.title)}", _table(_of_runs(night))]
    if night.comparison and night.slower:
        causes = [
            f"- **{escape_markdown(alarm.name)}**: {escape_markdown(describe_alarm(alarm))}" for alarm in night.alarms
        ]
        parts += ["## Slower than accepted", "\n".join(causes)]
        slower = compared_shown(replace(night.comparison, lines=night.slower), most=_ROWS)
        parts.append(_table(replace(slower, notes=())))
    if night.failing:
        claims = map(_describe_failure, night.failing)
        parts += ["## Guidelines that fail", *(f"- {escape_markdown(claim)}" for claim in claims)]
    parts += _of_bad(night)
    parts += ["## Other differences", _other_differences(night), "## How to repeat it", _repeat_commands(night)]
    return _joined(parts)


def annotated(night: Night) -> Iterator[str]:
    cells = [(bad, one) for bad, several in night.bad.items() for one in several]
    for outcome, one in cells[:_ANNOTATIONS]:
        yield _command("error", f"{outcome}: {one.cell.name}", "; ".join(one.reasons))
    for claim in night.failing[: max(0, _ANNOTATIONS - len(cells))]:
        yield _command("error", f"guideline {claim.guideline.id} fails", explain_verdict(claim))
    for alarm in night.alarms[:_ANNOTATIONS]:
        yield _command("warning", f"slower: {alarm.name}", describe_alarm(alarm))


def _command(kind: str, title: str, text: str) -> str:
    """Escape characters that could end the line, a property or the text."""
    escapes = {ord(character): f"%{ord(character):02X}" for character in "%\r\n"}
    property_escapes = escapes | {ord(character): f"%{ord(character):02X}" for character in ":,"}
    return f"::{kind} title={title.translate(property_escapes)}::{text.translate(escapes)}"


def _answers(night: Night, rows: int) -> Iterator[str]:
    """Return the fastest stacks of each run, and a heat map. Skip parts of a matrix, because they lack stacks."""
    for run in night.runs:
        found = [one for one in night.found if one.run.id == run.id]
        rule = RankingRule(run.confidence, share_of(found), run.practical)
        rankings = rank_stacks(map(as_measured, found), rule) if not run.part else []
        if words := summarize_rankings(rankings, synthetic=run.synthetic, over=run.finished, most=min(12, rows)):
            yield (f"{escape_markdown(run.name)}:\n\n" if len(night.runs) > 1 else "") + answer_as_markdown(words)
        if heat_map := heat_map_of_squares(rankings, min(_STACKS, rows)):
            yield _table(heat_map)


def _table(grid: Grid) -> str:
    """Return a table of Markdown, or only its notes if it has no rows."""
    return as_markdown(grid).decode() if grid.rows else "\n\n".join(map(escape_markdown, grid.notes))


def _of_runs(night: Night) -> Grid:
    columns = ("run", "part", "host", "revision", "started", "trials", "ended with")
    rows = [
        (
            *(run.name, run.part or "all", run.host, run.revision[:12] + "+" * run.revision.endswith("+"), run.started),
            of_planned(night.recorded.get(run.id, 0), run.planned),
            "not finished" if not run.finished else "" if run.exit is None else str(run.exit),
        )
        for run in night.runs
    ]
    return Grid(columns, rows)


def _of_bad(night: Night, most: int = _ROWS) -> Iterator[str]:
    for bad, cells in night.bad.items():
        if cells:
            yield f"## {bad.about.heading or bad.capitalize()}"
            yield _table(_of_cells(cells, bad, most))


def _of_cells(cells: Sequence[Samples], outcome: Outcome, most: int = _ROWS) -> Grid:
    rows = [(one.cell.name, f"{one.counts[outcome]} of {len(one.rows)}", "; ".join(one.reasons)[:500]) for one in cells]
    left = (f"{len(rows) - most:,} more cells",) if len(rows) > most else ()
    return Grid(("cell", f"trials {outcome}", "why"), rows[:most], left)


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
    commands = [words for run in night.runs if (words := (night.commands or {}).get(run.id))]
    # The action's own file is not needed to repeat it.
    lines += [
        night.assignment + shlex.join(word for word in words if not word.startswith("--folder-to="))
        for words in commands
    ]
    if night.comparison:
        lines.append(night.compare_command)
    text = "\n".join(lines)
    fence = "`" * 4
    while fence in text:
        fence += "`"
    return (
        f"{fence}sh\n{text}\n{fence}\n\n"
        "Each cell has its own folder below `cells/` of the run, with its scripts and fio jobs, numbered in order."
    )


#: Squares by the least share of the best level of a workload. Their lightness falls with it, for colour-blind readers.
_SQUARES = ((0.9, "🟩"), (0.75, "🟦"), (0.5, "🟪"), (0.0, "⬛"))
_LEGEND_OF_SQUARES = "Share of the fastest stack of each workload: 🟩 90 % or more, 🟦 75 %, 🟪 50 %, ⬛ less."
_MOST_COLUMNS = 6  # a page of GitHub is not wider


def heat_map_of_squares(rankings: Sequence[Ranking], rows: int) -> Grid | None:
    """Return the stacks that are fastest over all workloads, as rows; None if no field could be compared."""
    shown = rankings[:_MOST_COLUMNS]
    fields: dict[str, dict[int, str]] = {}
    shares: dict[str, list[float]] = {}
    for at, one in enumerate(shown):
        sign = 1 if one.metric.more_is_better else -1
        levels = [stack.level**sign if stack.level else 0.0 for stack in one.stacks]
        best = max(levels)
        for stack, level in zip(one.stacks, levels, strict=True) if best > 0 else ():
            name, share = stack_name(stack.cell), level / best
            square = next(square for least, square in _SQUARES if share >= least)
            fields.setdefault(name, {})[at] = f"{square} {figure_of(one, stack)}{mark(stack)}"
            shares.setdefault(name, []).append(share)
    if len(fields) < 2:
        return None
    means = {name: geometric_mean(of) if min(of) > 0 else 0.0 for name, of in shares.items()}
    order = sorted(fields, key=lambda name: (-len(shares[name]), -means[name]))
    left = [(len(order) - rows, "slower stacks"), (len(rankings) - len(shown), "workloads")]
    notes = (_LEGEND_OF_SQUARES, *(f"{count:,} {what} are not shown." for count, what in left if count > 0))
    columns = ("stack", *map(workload_name, shown))
    return Grid(
        columns, [(name, *(fields[name].get(at, "") for at in range(len(shown)))) for name in order[:rows]], notes
    )
