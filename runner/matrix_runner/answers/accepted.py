"""The accepted level: the runs that a night is compared with, and the accepted changes between runs."""

from __future__ import annotations

from datetime import date
from fnmatch import fnmatchcase
from math import prod
from typing import TYPE_CHECKING

from matrix_runner.answers.axes import with_aliases
from matrix_runner.space.rules import BadRule, axis_named, each, spellings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matrix_runner.answers.axes import Axes
    from matrix_runner.base.model import Condition
    from matrix_runner.language.references import Baseline, KnownChange
    from matrix_runner.records.store import RunRow

ACCEPTED = "accepted"  # the word for the level of side B
#: Without a baseline, the level is that of the first good nights. So many of them need no check; so many are enough.
UNCHECKED, ENOUGH = 3, 10
#: So many good nights are looked at. If most of the first ones are slower, a baseline has to be named.
_LOOKED_AT = 30


def day_of(run: RunRow) -> date:
    return date.fromisoformat(run.started[:10])


def matches(condition: Condition, axes: Axes) -> bool:
    """Return whether a cell has all values of a condition. An axis that it lacks does not match."""
    known = with_aliases(axes)
    try:
        return all(
            known[axis_named(key, known)] in {text for one in each(wanted) for text in spellings(one)}
            for key, wanted in condition.items()
        )
    except BadRule:
        return False


def changes_of(changes: Iterable[KnownChange], run: RunRow, axes: Axes) -> list[KnownChange]:
    """Return the changes that are accepted for a cell of a run."""
    return [one for one in changes if one.is_accepted_on(day_of(run)) and is_of(one, run) and matches(one.cells, axes)]


def accepted_factor(changes: Iterable[KnownChange], run: RunRow, axes: Axes) -> float:
    """Return the speed of a cell that is accepted for a run, relative to that without accepted changes."""
    return prod(one.change for one in changes_of(changes, run, axes))


def is_of(entry: Baseline | KnownChange, run: RunRow) -> bool:
    return fnmatchcase(run.matrix, entry.matrix) and fnmatchcase(run.host, entry.host)


def baseline_of(run: RunRow, baselines: Sequence[Baseline]) -> Baseline | None:
    """Return the last baseline that fits: `matrix accept` adds at the end."""
    return next((one for one in reversed(baselines) if is_of(one, run)), None)


def runs_of_baseline(baseline: Baseline, runs: Iterable[RunRow]) -> list[RunRow]:
    return [
        run for run in runs if is_of(baseline, run) and (run.id == baseline.run or fnmatchcase(run.name, baseline.run))
    ]


def accepted_level(
    night: RunRow,
    runs: Sequence[RunRow],
    baselines: Sequence[Baseline],
    is_slower: Callable[[RunRow, Sequence[RunRow]], bool],
) -> list[RunRow]:
    """Return the runs that a night is compared with; `runs` has the latest first.

    They are those of its baseline. Without one, they are the first good runs of the same work. A slower
    one is not a part of the level, so an alarm stays until it is accepted or gone.
    """
    alike = [run for run in runs if run.id != night.id and run.kind == night.kind]
    baseline = baseline_of(night, baselines)
    if baseline and (found := runs_of_baseline(baseline, alike)):
        return found
    earlier = [run for run in reversed(alike) if run.is_good and run.started < night.started]
    level = earlier[:UNCHECKED]
    for run in earlier[UNCHECKED:_LOOKED_AT]:
        if len(level) < ENOUGH and not is_slower(run, level):
            level.append(run)
    return level
