"""A heat map as text: stacks by workload, each field with a coloured square. Markdown of GitHub shows it anywhere."""

from __future__ import annotations

from statistics import geometric_mean
from typing import TYPE_CHECKING

from matrix_runner.pages.ranking_terms import figure_of, mark, stack_name, workload_name
from matrix_runner.pages.table import Grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix_runner.answers.ranking import Ranking

#: Squares by the least share of the best level of a workload. Their lightness falls with it, for colour-blind readers.
_SQUARES = ((0.9, "🟩"), (0.75, "🟦"), (0.5, "🟪"), (0.0, "⬛"))
_LEGEND = "Share of the fastest stack of each workload: 🟩 90 % or more, 🟦 75 %, 🟪 50 %, ⬛ less."
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
            fields.setdefault(name, {})[at] = f"{_square(share)} {figure_of(one, stack)}{mark(stack)}"
            shares.setdefault(name, []).append(share)
    if len(fields) < 2:
        return None
    order = sorted(fields, key=lambda name: (-len(shares[name]), -_mean(shares[name])))
    left = [(len(order) - rows, "slower stacks"), (len(rankings) - len(shown), "workloads")]
    notes = (_LEGEND, *(f"{count:,} {what} are not shown." for count, what in left if count > 0))
    columns = ("stack", *map(workload_name, shown))
    return Grid(
        columns, [(name, *(fields[name].get(at, "") for at in range(len(shown)))) for name in order[:rows]], notes
    )


def _square(share: float) -> str:
    return next(square for least, square in _SQUARES if share >= least)


def _mean(shares: Sequence[float]) -> float:
    return geometric_mean(shares) if min(shares) > 0 else 0.0
