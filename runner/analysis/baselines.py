"""Earlier runs like those that are compared: they tell how far whole runs lie apart where nothing is the matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from runner.analysis.operands import Side
    from runner.results.store import RunRow

#: Cells are the same by their ids, whatever else stands in the matrix, and whatever their order was drawn from.
_OF_NO_MATTER = frozenset({"seed", "digest.matrix"})
#: So many of them are looked into: more say next to nothing more, and their level is ever longer ago.
_MOST = 20


def earlier(a: Side, b: Side, runs: Sequence[RunRow]) -> list[list[RunRow]]:
    """Groups of runs, the latest first, that ended well before the later side began and were done like A, or like B.

    None, unless each side is one run: of several it is known how far they lie apart.
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
    return run.matrix, run.machine, run.made_up, run.host, facts
