"""Effects of axes on the rate, and of one axis on that of another: as charts, as heat maps, and of a screen."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from math import exp, fsum, isfinite, log
from typing import ClassVar

from matrix_runner.answers.axes import grouped, in_order
from matrix_runner.answers.cell_figures import CellFigures, kind_of
from matrix_runner.base.extras import without_statistics
from matrix_runner.pages.axis_charts import Group
from matrix_runner.pages.charts import Chart, RatioLine, ratio_chart
from matrix_runner.pages.run_data import RunData, Section
from matrix_runner.pages.table import Grid
from matrix_runner.pages.terminal_text import MARK, SOME_HOST_LIMITED, figure, percent, times, times_between
from matrix_runner.records.record import CellRow, Trial
from matrix_runner.records.run_folder import Manifest
from matrix_runner.statistics.ratios import Ratio, paired_ratio
from matrix_runner.statistics.screening import Effect, Estimate, Factors, Screen, screen
from matrix_runner.work.metrics import SIDES, sides_of

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


_MOST_ROWS, _MOST_COLUMNS = 24, 12  # more columns do not fit on A4
_SHADES = 9
_ALIKE = 1.25  # ratio of values that may have all shades between them
_WIDE = 20.0  # above this ratio of the largest to the smallest value, a scale is logarithmic


@dataclass(frozen=True, slots=True)
class HeatMap:
    kind: ClassVar[str] = "heat map"
    title: str
    corner: str  # names of the axes
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]  # label; text and shade (0 to 9) of each field
    most: int  # cells behind a field; the best one is shown
    is_cut: bool  # an axis has more values
    is_mixed: bool  # the cells of some field do different kinds of work


def heat_maps(group: Group) -> Iterator[HeatMap]:
    """Yield the map of two axes; if its fields would mix kinds of work, one for each kind."""
    whole = _heat_map(group)
    if whole and whole.is_mixed:
        for work, cells in grouped((_work(one), (label, one)) for label, one in group.cells).items():
            if made := _heat_map(replace(group, about=f"{group.about}, {work}", cells=tuple(cells))):
                yield made
    elif whole:
        yield whole


def _work(one: CellFigures) -> str:
    return " and ".join(side for side in sides_of(one.figures) if side in SIDES)


def _heat_map(group: Group) -> HeatMap | None:
    axes = group.axes
    ordered = group.ordered(axes)
    down, along = [*ordered, *(axis for axis in axes if axis not in ordered)][:2][::-1] if len(axes) > 1 else ("", "")
    there = [one for _, one in group.cells if along in one.cell.axes and down in one.cell.axes]
    # A layout may lack the other axis, as RAID 1 has no chunk: it would be an empty row.
    columns, rows = (in_order(one.cell.axes[axis] for one in there) for axis in (along, down))
    if len(columns) > max(_MOST_COLUMNS, len(rows)):
        along, down, columns, rows = down, along, rows, columns
    is_cut = len(columns) > _MOST_COLUMNS or len(rows) > _MOST_ROWS
    columns, rows = columns[:_MOST_COLUMNS], rows[:_MOST_ROWS]
    fields = grouped(((one.cell.axes[down], one.cell.axes[along]), one) for one in there)
    if len(columns) < 2 or len(rows) < 2 or 2 * len(fields) < len(columns) * len(rows):
        return None
    name, unit, what = group.metric
    best = {key: max(cells, key=lambda one: one.figures[name].mean) for key, cells in fields.items()}
    levels = [one.figures[name].mean for one in best.values()]
    shade = _shades(min(levels), max(levels))

    def field(row: str, column: str) -> tuple[str, int]:
        one = best.get((row, column))
        if one is None:
            return "", 0
        value = one.figures[name].mean
        return figure(value, unit).rpartition(" ")[0] + f" {MARK}" * bool(one.host_limited), shade(value)

    return HeatMap(
        f"{group.about}: {what}{' in MB/s' * (unit != '1/s')} by {group.names[down]} and {group.names[along]}",
        f"{group.names[down]} \\ {group.names[along]}",
        tuple(columns),
        tuple((row, tuple(field(row, column) for column in columns)) for row in rows),
        max(map(len, fields.values())),
        is_cut,
        any(len(set(map(_work, cells))) > 1 for cells in fields.values()),
    )


def _shades(low: float, high: float) -> Callable[[float], int]:
    """Return a shade by value. Small differences have similar shades: they may be chance."""
    low = min(low, high / _ALIKE)
    if high <= low:
        return lambda _: 0
    if low > 0 and high / low > _WIDE:
        return lambda value: round(_SHADES * log(value / low) / log(high / low))
    return lambda value: round(_SHADES * (value - low) / (high - low))


NEXT = "next.yaml"
_LEAST_CELLS = 8  # cells with figures
_MOST_DRAWN = 30  # effects in the chart
_RATIOS = (
    "A ratio is how many times as large the rate is as with the first value, on average over the cells. Of a "
    "pair, it is how many times as large the first change is with the second one."
)
_PLOTS = (
    "Axes of layers are compared between the {} set-ups of stacks, others within stacks. More rounds (`repeat:`) set "
    "up the stacks again, and show smaller effects of layers."
)
_PAIRWISE = "This design has each pair of values once: it finds what breaks, and estimates no effect."


def screen_sections(content: RunData, manifest: Manifest) -> Iterator[Section]:
    """Yield the section of a run with `--design`, if it has enough figures."""
    if manifest.requested.design == "pairwise":
        yield Section("Pairs of values", "the design of this run", Grid(("design",), [(_PAIRWISE,)]), {}, (_PAIRWISE,))
    if not manifest.requested.design.startswith("screen"):
        return
    if why := without_statistics("The table of axes that matter"):
        yield Section("Axes that matter", "the cells of this screen", Grid(("design",), [(why,)]), {}, (why,))
        return
    rates = {
        cell.id: {
            one.round: float(figures.deciding_rate) for one in content.by_cell[cell.id] if (figures := one.counted)
        }
        for cell in content.cells
    }
    cells = [cell for cell in content.cells if rates[cell.id] and min(rates[cell.id].values()) > 0]
    if len(cells) < _LEAST_CELLS:
        return
    factors = Factors.of([cell.axes for cell in cells])
    numbers: dict[str, int] = {}
    stacks = [numbers.setdefault(_stack(cell), len(numbers)) for cell in cells]
    found = screen(factors.levels, [rates[cell.id] for cell in cells], stacks, content.confidence)
    set_ups = {(stack, number) for cell, stack in zip(cells, stacks, strict=True) for number in rates[cell.id]}
    table = _screen_table(found, factors, content.confidence, len(set_ups))
    matter = {factors.names[at] for one in (*found.axes, *found.pairs) if one.is_active for at in one.term}
    vague = {factors.names[one.term[0]] for one in found.axes if one.is_vague} - matter
    text = _next_matrix(manifest, factors, matter | vague) if matter else ""
    files = {NEXT: text.encode()} if text else {}
    yield Section(
        "Axes that matter",
        "the cells of this screen",
        table,
        files,
        tuple(_lines(found, factors, matter, vague, text, content)),
        chart=_screen_chart(found, factors),
    )


def _stack(cell: CellRow) -> str:
    return str(sorted((axis, value) for axis, value in cell.axes.items() if kind_of(axis) == "stack"))


def _screen_chart(found: Screen, factors: Factors) -> Chart | None:
    """Draw the effects, the largest first."""
    ranked = sorted((*found.axes, *found.pairs), key=lambda one: -one.size)
    lines = [
        RatioLine(f"{name}: {change}", ratio)
        for one in ranked
        for name, change, ratio in _ratios(one, factors)
        if ratio and isfinite(ratio.high)
    ]
    title = "Effects of axes, and of pairs that interact, the largest first"
    return replace(ratio_chart(title, lines[:_MOST_DRAWN]), left=len(lines[_MOST_DRAWN:])) if lines else None


def _screen_table(found: Screen, factors: Factors, confidence: float, set_ups: int) -> Grid:
    rows = [
        (name, change, *_texts(ratio), "yes" if one.is_active else "")
        for one in (*found.axes, *found.pairs)
        for name, change, ratio in _ratios(one, factors)
    ]
    sure = f"Each interval ({confidence * 100:g} %) applies to its own ratio"
    notes = (_RATIOS, f"{sure}; `matters` is tested for all axes and pairs together. {_PLOTS.format(set_ups)}")
    return Grid(("axis", "change", "ratio", "interval", "matters"), rows, notes, frozenset(("ratio", "interval")))


def _ratios(effect: Effect, factors: Factors) -> Iterator[tuple[str, str, Estimate | None]]:
    name = " × ".join(factors.names[at] for at in effect.term)
    changes = [""]
    for at in effect.term:
        first, *others = (value or "without" for value in factors.values[at])
        changes = [" × ".join(filter(None, (one, f"{first} → {value}"))) for one in changes for value in others]
    for change, ratio in zip(changes, effect.ratios, strict=True):
        yield name, change, ratio


def _texts(ratio: Estimate | None) -> tuple[str, str]:
    if ratio is None:
        return "", "cannot be told from other axes or set-ups"
    return times(ratio.ratio), times_between(ratio.low, ratio.high) if isfinite(ratio.high) else "unbounded"


def _lines(
    found: Screen, factors: Factors, matter: set[str], vague: set[str], text: str, content: RunData
) -> Iterator[str]:
    many = f"{found.cells} cells, which scatter by {percent(found.scatter)}" * isfinite(found.scatter)
    yield f"Axes that matter{' (synthetic)' * content.synthetic} ({many or found.cells}):"
    active = [one for one in (*found.axes, *found.pairs) if one.is_active]
    for one in active:
        name = " × ".join(factors.names[at] for at in one.term)
        yield f"  {name}: up to {times(one.size)}{' between two values' if len(one.term) == 1 else ', as a pair'}"
    if not active:
        yield "  no axis changes the rate by more than the noise"
    others = [name for one in found.axes if (name := factors.names[one.term[0]]) not in matter]
    if idle := [name for name in others if name not in vague]:
        yield f"  no effect seen: {', '.join(idle)}"
    if vague:
        yield f"  cannot tell, the cells or set-ups are too few: {', '.join(filter(vague.__contains__, others))}"
    if text:
        which = "that matter or may matter" if vague else "that matter"
        yield f"{NEXT} has all values of the axes {which}, and the first value of the others."


def _next_matrix(manifest: Manifest, factors: Factors, kept: set[str]) -> str:
    """Return the matrix with one value of the other axes; empty if it has rules of its own, or all axes matter."""
    fixed = {
        name: values[0]
        for name, values in zip(factors.names, factors.values, strict=True)
        if name not in kept and "" not in values  # a rule would exclude cells without the axis
    }
    if not fixed or any(line.startswith("only:") for line in manifest.text.splitlines()):
        return ""
    rule = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fixed.items())
    about = "# Proposed by a screen. Move this file beside the first one: its paths are relative."
    return f"{about}\n{manifest.text.rstrip()}\nonly:\n  - {{{rule}}}\n"
