"""Earlier runs like the compared ones. They show the usual difference between runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from runner.analysis.operands import Side
    from runner.results.store import RunRow

#: Cells are equal by their ids, for any rest of the matrix and any order.
_OF_NO_MATTER = frozenset({"seed", "digest.matrix"})
#: The most earlier runs to use. More add little precision, and their level is older.
_MOST = 20


def earlier_groups(a: Side, b: Side, runs: Sequence[RunRow]) -> list[list[RunRow]]:
    """Return groups of runs, latest first, that ended well before the later side began and match the environment of A
    or B.

    Empty unless each side is one run: several runs show their own scatter.
    """
    sides = [side.runs for side in (a, b)]
    if any(len(side) != 1 for side in sides) or sides[0] == sides[1]:
        return []
    compared = [run for (run,) in sides]
    ids, last = {run.id for run in compared}, max(run.started for run in compared)
    groups: dict[Hashable, list[RunRow]] = {_done_with(run): [] for run in compared}
    for run in runs:
        alike = groups.get(_done_with(run))
        if alike is not None and run.finished and run.id not in ids and run.started < last and len(alike) < _MOST:
            alike.append(run)
    return [group for group in groups.values() if group]


def _done_with(run: RunRow) -> Hashable:
    facts = frozenset(one for one in run.environment.items() if one[0] not in _OF_NO_MATTER)
    return run.matrix, run.machine, run.synthetic, run.host, facts
