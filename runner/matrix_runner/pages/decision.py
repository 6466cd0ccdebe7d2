"""The table to decide by, in each format, and the sentence on the best stack for all weighed workloads."""

from collections.abc import Iterator

from matrix_runner.answers.decision import Decision, Rebuild, StackChoice
from matrix_runner.answers.ranking import RankedStack, Ranking
from matrix_runner.pages.ranking_terms import FIRM, figure_of, join_few, mark, workload_name
from matrix_runner.pages.table import Grid
from matrix_runner.pages.terminal_text import duration, times, volume

MOST_STACKS = 20  # rows on the terminal and the page
_MOST_WORKLOADS = 6  # columns; a page is not wider


def decision_grid(found: Decision, most: int | None = None) -> Grid:
    shown, rankings = found.choices[:most], found.rankings[:_MOST_WORKLOADS]
    offers = {
        "usable": [volume(one.capacity) if one.capacity else "" for one in shown],
        "survives": [_survives(one) for one in shown],
        "rebuild": [_rebuild(one.rebuild) for one in shown],
    }
    known = {name: texts for name, texts in offers.items() if any(texts)}
    figures = [
        [_figure(of, stack) if (stack := one.figures[at]) else "" for one in shown] for at, of in enumerate(rankings)
    ]
    names = [f"{one.name} (beaten)" if one.beaten else one.name for one in shown]
    columns = ("stack", *known, *map(workload_name, rankings))
    rows = list(zip(names, *known.values(), *figures, strict=True))
    return Grid(columns, rows, tuple(_notes(found, len(shown))), frozenset(columns[1:]))


def beaten_rows(found: Decision) -> list[int]:
    return [at for at, one in enumerate(found.choices) if one.beaten]


def decision_text(found: Decision) -> Iterator[str]:
    """Return the lines of the whole table, as plain text."""
    grid = decision_grid(found)
    rows = [tuple(map(str, row)) for row in (grid.columns, *grid.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            text.rjust(width) if name in grid.right else text.ljust(width)
            for name, text, width in zip(grid.columns, row, widths, strict=True)
        )
        yield "  ".join(cells).rstrip()
    yield from grid.notes


def _notes(found: Decision, shown: int) -> Iterator[str]:
    if found.overall:
        yield _overall(found)
    yield "A ratio is the share of the best figure of its workload. Lost disks may be any of the stack."
    if any(one.rebuild and not one.rebuild.measured for one in found.choices):
        yield "~: computed from the rate of the disks, without other work; `sync_action: rebuild` measures it."
    if any(one.beaten for one in found.choices):
        yield "beaten: another stack has as much room and safety, and is faster at every workload."
    for count, what in ((len(found.choices) - shown, "stack"), (len(found.rankings) - _MOST_WORKLOADS, "workload")):
        if count > 0:
            yield f"{count:,} more {what}{'s' if count > 1 else ''} in answer.txt."


def _overall(found: Decision) -> str:
    best, *others = found.overall
    weights = ", ".join(f"{name} {weight:g}" for name, weight in found.weights.items())
    confidence = f"{found.rankings[0].confidence * 100:g}{FIRM}% confidence"
    level = [one for one in others if one.candidate]
    if level:
        names = join_few([found.name_of(one) for one in (best, *level)])
        return f"For all workloads together ({weights}): {names} cannot be told apart ({confidence})."
    return f"For all workloads together ({weights}): {found.name_of(best)} is best ({confidence})."


def _survives(one: StackChoice) -> str:
    return "" if one.losses is None else f"{one.losses or 'no'} disk{'s' if one.losses > 1 else ''}"


def _rebuild(one: Rebuild | None) -> str:
    return f"{'' if one.measured else '~ '}{duration(one.seconds)}" if one else ""


def _figure(of: Ranking, stack: RankedStack) -> str:
    ratio = f" {times(1 / stack.behind.ratio if stack.behind else 1.0)}" if stack.is_compared else ""
    return f"{figure_of(of, stack)}{ratio}{mark(stack)}".replace(FIRM, " ")
