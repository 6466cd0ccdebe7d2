"""Effects: how much an axis changes the rate, and how much another axis changes that; within rounds, with intervals."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import exp, fsum, isfinite, log

from matrix_runner.pages.axis_charts import Group
from matrix_runner.pages.charts import Chart, RatioLine, ratio_chart
from matrix_runner.pages.table import Grid
from matrix_runner.pages.terminal_text import MARK, SOME_HOST_LIMITED, times, times_between
from matrix_runner.records.record import Trial
from matrix_runner.statistics.ratios import Ratio, paired_ratio

_MOST_MAIN, _MOST_PAIRS = 16, 8
_LEAST_ROUNDS = 2
_LEAST, _MOST = 1e-9, 1e18  # rates beyond have no meaning, and their products no float
Rates = Mapping[int, float]  # the rate of a cell by round
Key = tuple[str | None, ...]  # values of axes
Cells = Mapping[Key, Rates]
Compared = Mapping[str, tuple[str, str]]  # two values of each axis that an effect is of
Row = tuple[str, "Ratio", Compared]

_OTHER_INTERVALS = (
    "These intervals differ from those above: an effect uses all cells, and pairs the trials of each round. "
)
_OF_GUIDELINES = (
    "With `--until-decided`, intervals of the answer and of guidelines are wider, because they are checked many times. "
)
_WITH_HOST_LIMITED = (
    f"{SOME_HOST_LIMITED}. In the answer and the verdicts, a ratio of such trials is a range, which includes the "
    "lost time; an interval here does not."
)


@dataclass(frozen=True, slots=True)
class Effects:
    chart: Chart
    table: Grid


def effects(
    group: Group, trials: Mapping[str, Sequence[Trial]], confidence: float, *, steered: bool = False
) -> Effects | None:
    """Return the effects. `steered`: `--until-decided` chose the cells of later trials."""
    name, *_ = group.metric
    axes = group.axes
    if not axes:
        return None
    cells: dict[Key, Rates] = {}
    limited = {tuple(one.cell.axes.get(axis) for axis in axes) for _, one in group.cells if one.host_limited}
    for _, one in group.cells:
        rates = {trial.block: float(getattr(found, name)) for trial in trials[one.cell.id] if (found := trial.counted)}
        cells[tuple(one.cell.axes.get(axis) for axis in axes)] = rates
    if len(set().union(*cells.values())) < _LEAST_ROUNDS:
        return None
    possible = (
        (_main(group, axes, cells, confidence), _MOST_MAIN),
        (_pairs(group, axes, cells, confidence), _MOST_PAIRS),
    )
    shown = [one for several, most in possible for one in islice(several, most)]
    rows = [(f"{label}{f' {MARK}' * _includes(limited, axes, of)}", ratio) for label, ratio, of in shown]
    if not rows:
        return None
    title = f"{group.about}: effects of axes on {'requests per second' if name == 'total_iops' else 'bandwidth'}"
    is_limited = any(MARK in label for label, _ in rows)
    why = f"{_OTHER_INTERVALS}{_OF_GUIDELINES * steered}{_WITH_HOST_LIMITED * is_limited}".strip()
    return Effects(replace(ratio_chart(title, [RatioLine(*row) for row in rows]), note=why), _table(rows))


def _table(rows: Sequence[tuple[str, Ratio]]) -> Grid:
    texts: list[tuple[str, ...]] = [
        (
            label,
            times(one.ratio),
            times_between(one.low, one.high) if isfinite(one.high) else "unbounded",
            str(one.n_a),
        )
        for label, one in rows
    ]
    note = (
        "An effect is the ratio of rates with all other axes equal, as the geometric mean over them. "
        "With × between two changes: how many times as large the first effect is with the second change. "
        "Each interval applies to its own ratio only."
    )
    numbers = frozenset(("ratio", "interval", "rounds"))
    return Grid(("effect", "ratio", "interval", "rounds"), texts, (note,), numbers)


def _includes(limited: Iterable[Key], axes: Sequence[str], of: Compared) -> bool:
    """Return whether an effect compares one of these cells."""
    return any(all(key[axes.index(axis)] in values for axis, values in of.items()) for key in limited)


def _main(group: Group, axes: Sequence[str], cells: Cells, confidence: float) -> Iterator[Row]:
    several = [_values(cells, at) for at in range(len(axes))]
    ordered = group.ordered(axes) if sum(len(values) - 1 for values in several) > _MOST_MAIN else []
    for at, (axis, (first, *others)) in enumerate(zip(axes, several, strict=True)):
        sides = _sides(cells, (at,))
        for value in others[-1:] if axis in ordered else others:  # of too many, only the last of numeric axes
            found = _matched([sides.get((one,), {}) for one in (first, value)])
            if found and (ratio := paired_ratio(found[0], found[1], confidence)) and ratio.n_a >= _LEAST_ROUNDS:
                yield f"{group.names[axis]}: {value} instead of {first}", ratio, {axis: (first, value)}


def _pairs(group: Group, axes: Sequence[str], cells: Cells, confidence: float) -> Iterator[Row]:
    """Yield the interactions: between the first and last value of two axes."""
    for (at, one), (place, other) in combinations(enumerate(axes), 2):
        a, b = _values(cells, at), _values(cells, place)
        if len(a) < 2 or len(b) < 2:
            continue
        sides = _sides(cells, (at, place))
        found = _matched([sides.get((x, y), {}) for y in (b[0], b[-1]) for x in (a[0], a[-1])])
        if not found:
            continue
        none, first, second, both = found
        less, more = ({r: x[r] * y[r] for r in x} for x, y in ((first, second), (none, both)))
        if (ratio := paired_ratio(less, more, confidence)) and ratio.n_a >= _LEAST_ROUNDS:
            changes = (f"{group.names[name]}: {v[-1]} instead of {v[0]}" for name, v in ((one, a), (other, b)))
            yield " × ".join(changes), ratio, {one: (a[0], a[-1]), other: (b[0], b[-1])}


def _sides(cells: Cells, ats: tuple[int, ...]) -> dict[Key, dict[Key, Rates]]:
    """Return the cells by their values on these axes, and then by those on the other axes."""
    found: dict[Key, dict[Key, Rates]] = {}
    for key, rates in cells.items():
        others = tuple(value for at, value in enumerate(key) if at not in ats)
        found.setdefault(tuple(key[at] for at in ats), {})[others] = rates
    return found


def _values(cells: Cells, at: int) -> list[str]:
    """Return the values of an axis in the order of the file: the first is the one that others are compared with."""
    return [*dict.fromkeys(value for key in cells if (value := key[at]) is not None)]


def _matched(sides: Sequence[Mapping[Key, Rates]]) -> list[dict[int, float]]:
    """Return the mean rate by round of each side, over the other axes, where all sides have a cell and the round."""
    contexts = [key for key in sides[0] if all(one.get(key) for one in sides)]
    if not contexts:
        return []
    rounds = set.intersection(*(set(one[key]) for one in sides for key in contexts))
    rounds = {r for r in rounds if all(_LEAST < one[key][r] < _MOST for one in sides for key in contexts)}
    return [
        {r: exp(fsum([log(one[key][r]) for key in contexts]) / len(contexts)) for r in sorted(rounds)} for one in sides
    ]
