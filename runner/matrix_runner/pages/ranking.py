"""Rankings in words and tables: names and figures, the table to decide by, and recommendations."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, isfinite

from matrix_runner.answers.all_else_equal import ComparedAxis
from matrix_runner.answers.decision import Decision
from matrix_runner.answers.ranking import (
    Pace,
    RankedStack,
    Ranking,
    Recommendation,
    Setting,
    Standing,
    stack_name,
)
from matrix_runner.base.findings import few, join
from matrix_runner.pages.table import Grid, Value, ratio_values
from matrix_runner.pages.terminal_text import digits, duration, figure, ratio_texts, times, times_between, volume
from matrix_runner.pages.terminal_text import percent as rounded_percent
from matrix_runner.records.record import CellRow
from matrix_runner.statistics.ratios import Ratio

_NAMES = 4  # the longest list of stacks or workloads
_FINE = 0.02  # narrower intervals have one digit more
_ABSENT = "none"  # in place of the value, of stacks without that axis
FIRM = "\u00a0"  # a space without a line break


def within(one: Ranking) -> str:
    return f"equal within {one.rule.practical * 100:g}{FIRM}%"


def join_few(names: Sequence[str]) -> str:
    more = len(names) - _NAMES
    return join([*names[:_NAMES], f"{more} more"] if more > 0 else names)


def name_stacks(cells: Iterable[CellRow], of: int) -> str:
    counts = Counter(map(stack_name, cells))
    limits = {name: "" if n == of else f" ({n} workload{'s' if n > 1 else ''})" for name, n in counts.items()}
    return join_few([f"{name}{limit}" for name, limit in limits.items()])


def standing_of(stack: RankedStack, one: Ranking) -> str:
    top = "highest" if one.metric.more_is_better else "lowest"
    if stack.standing is Standing.FASTEST and one.trials == 1:
        return f"{top}, in one round"
    if stack.standing is Standing.FASTEST and len(one.leaders) > 1:
        return top  # another one may be as fast
    text = within(one) if stack.standing is Standing.EQUAL else stack.standing.value
    if not (one.raced and stack.is_out and stack.behind):
        return text
    rounds = stack.behind.n_a
    return f"{text}, out after {rounds} round{'s' * (rounds > 1)}"


def ratio_of(stack: RankedStack) -> str:
    ratio = stack.behind
    if ratio is None:
        return ""
    if not stack.has_interval:
        return times(ratio.ratio)
    if stack.corrected:
        least, most = stack.corrected
        return times_between(least, most).replace(" ", FIRM) if isfinite(most) else f"at least {times(least)}"
    return _with_bounds(ratio)


def _with_bounds(ratio: Ratio) -> str:
    fine = ratio.high - ratio.low < _FINE
    middle, low, high = (f"{one:.3f}" if fine else digits(one) for one in (ratio.ratio, ratio.low, ratio.high))
    return f"{middle}\u00d7 ({low} to {high})".replace(" ", FIRM)


def describe_axes(axes: Iterable[ComparedAxis], practical: float, good: str = "fast") -> Iterator[str]:
    """Say for each axis which of its values is better, and which ones cannot be told apart."""
    for one in axes:
        than = [f"{_with_bounds(ratio)} as {good} as {value or _ABSENT}" for value, ratio in one.behind]
        parts = [f"{one.best or _ABSENT} is {join(than)}"] if than else []
        if one.level:
            alike = join([value or _ABSENT for value in (one.best, *(value for value, _ in one.level))])
            apart = max(ratio.apart for _, ratio in one.level)
            if apart <= practical:
                parts.insert(0, f"{alike} are equal within {practical * 100:g}{FIRM}%")
            else:
                most = f"at most {percent_at_most(apart)} apart" if apart < 1 else "more trials needed"
                parts.insert(0, f"{alike} cannot be told apart ({most})")
        yield f"{one.axis.rpartition('.')[2]}: {'; '.join(parts)}."


def figure_of(one: Ranking, stack: RankedStack) -> str:
    return f"{_level_of(one, stack)}{_beside(stack)}"


def _level_of(one: Ranking, stack: RankedStack) -> str:
    return figure(stack.level, one.metric.unit).replace(" ", FIRM)


def _beside(stack: RankedStack) -> str:
    """Return what else a reader needs to judge the figure."""
    known = [_pace_of(stack.pace)] if stack.pace else []
    if stack.sync_p99:
        known.append(f"sync p99 {figure(stack.sync_p99, 'ns')}".replace(" ", FIRM))
    return "".join(f", {one}" for one in known)


def _pace_of(pace: Pace) -> str:
    if pace.is_reached:
        return "rate reached"
    got, wanted = (figure(rate, pace.unit).replace(" ", FIRM) for rate in (pace.rate, pace.wanted))
    return f"{got.partition(FIRM)[0] if pace.unit == '1/s' else got}{FIRM}of{FIRM}{wanted}"


def marked_name(stack: RankedStack) -> str:
    return f"{stack_name(stack.cell)}{mark(stack)}"


def mark(stack: RankedStack) -> str:
    return f"{FIRM}(!{FIRM}{percent(stack.lost_share)})" if stack.lost_share else ""


def percent(share: float) -> str:
    return rounded_percent(share).replace(" ", FIRM)


def percent_at_most(share: float) -> str:
    return f"{ceil(round(share * 100, 6))}{FIRM}%"  # 0.07 * 100 is above 7


def layout_name(cell: CellRow) -> str:
    return cell.axes.get("layout") or stack_name(cell)


def workload_name(one: Ranking) -> str:
    cell = one.fastest.cell
    faults = f" under faults={cell.axes['faults']}" if "faults" in cell.axes else ""
    return f"{cell.work or 'the workload'}{faults}"


def recommendation_rows(found: Recommendation, cells: Mapping[str, CellRow]) -> Grid:
    figures = ("metric", "unit", "value", "ratio", "ratio_low", "ratio_high")
    columns = ("setting", "best", "may_be_best", *figures, "cells", "recommended")
    chosen = found.chosen
    rows: list[tuple[Value, ...]] = [
        (
            *(setting_name(one, cells), one is found.best, one.candidate),
            *(found.metric.name, found.metric.unit, one.level, *ratio_values(one.ratio)),
            " ".join(one.cells),
            one is chosen,
        )
        for one in found.settings
    ]
    return Grid(columns, rows, tuple(_notes(found, cells)))


def recommendation_table(found: Recommendation, cells: Mapping[str, CellRow], most: int | None) -> Grid:
    rows: list[tuple[Value, ...]] = [
        (setting_name(one, cells), figure(one.level, found.metric.unit), *ratio_texts(one.ratio), _remark(one, found))
        for one in found.settings[:most]
    ]
    columns = ("setting", found.metric.name, "of the best", "interval", "")
    notes = _notes(found, cells)
    if most is not None and len(found.settings) > most:
        notes.append(f"{len(found.settings) - most:,} more settings; `--rows` shows more")
    return Grid(columns, rows, tuple(notes), frozenset(columns[1:4]))


def setting_name(setting: Setting, cells: Mapping[str, CellRow]) -> str:
    return cells[setting.cells[0]].setting


def _remark(setting: Setting, found: Recommendation) -> str:
    host_limited = " (!)" if setting.host_limited else ""
    if setting is found.chosen and (found.level or found.picked):
        return f"recommended{host_limited}"
    if setting is found.best:
        return f"{'highest' if found.level else 'best'}{host_limited}"
    if setting.candidate:
        return f"{'may be as good' if found.is_near(setting) else 'cannot tell'}{host_limited}"
    cost = "" if setting.ratio is None else f"costs {rounded_percent(abs(1 - setting.ratio.ratio))}"
    return f"{cost}{host_limited}"


def _notes(found: Recommendation, cells: Mapping[str, CellRow]) -> list[str]:
    work = f"{' and '.join(found.workloads)}: " if any(found.workloads) else ""
    others = found.settings[1:]
    sure, near = f"({found.confidence * 100:g} % confidence)", f"within {found.practical * 100:g} %"
    best = f"best is {setting_name(found.best, cells)}; all others are slower {sure}"
    if found.level:
        alike = few(setting_name(one, cells) for one in (found.best, *found.level))
        kept = setting_name(found.chosen, cells)
        why = f": the default, or the smallest value {near}" if found.chosen is not found.best else ""
        best = f"no difference can be told between {alike} {sure}; recommended is {kept}{why}"
    elif found.picked:
        best = f"recommended is {setting_name(found.chosen, cells)}: the default, or the smallest {near} {sure}"
    only = f"{setting_name(found.best, cells)} is the only selected setting with figures"
    notes = [f"{work}{best if others else only}"]
    if any(one.ratio is None for one in others) or (others and all(one.ratio and not one.ratio.low for one in others)):
        notes.append("a setting with one trial, or without a common round with the best, may be as good")
    if any(
        one.candidate and one.ratio and one.ratio.low and not one.ratio.low <= 1 <= one.ratio.high for one in others
    ):
        notes.append("an interval compares one pair; which settings may be best is tested for all of them together")
    if others:
        notes.append("only this figure decides, not how many lost disks a setting survives")
    if found.combined:
        works = f"{'; '.join(found.combined[:4])}{' …' if len(found.combined) > 4 else ''}"
        weights = ", ".join(f"{name} {weight:g}" for name, weight in found.weights.items())
        how = f"by the weights in `for:` ({weights})" if weights else "equally"
        notes.append(
            f"{len(found.combined)} workloads count {how}, by their geometric mean ({works}); --for selects one"
        )
    if found.left_out:
        some = "1 setting lacks" if found.left_out == 1 else f"{found.left_out:,} settings lack"
        notes.append(f"not compared: {some} figures for some of this work")
    if any(one.host_limited for one in found.settings):
        notes.append(
            "(!): the host was too slow or too busy in some trials. The figure may be too "
            "low, and the interval does not include the lost time"
        )
    return notes


MOST_STACKS = 20  # rows on the terminal and the page
_MOST_WORKLOADS = 6  # columns; a page is not wider


def decision_grid(found: Decision, most: int | None = None, workloads: int | None = _MOST_WORKLOADS) -> Grid:
    """Return the table, with weighed workloads first."""
    every = range(len(found.rankings))
    shown, columns = (
        found.choices[:most],
        sorted(every, key=lambda at: found.rankings[at].workload not in found.weights),
    )
    rankings = {at: found.rankings[at] for at in columns[:workloads]}
    offers = {
        "usable": [volume(one.capacity) if one.capacity else "" for one in shown],
        "survives": [
            "" if one.losses is None else f"{one.losses or 'no'} disk{'s' if one.losses > 1 else ''}" for one in shown
        ],
        "rebuild": [
            f"{'~ ' * (not one.measured)}{duration(one.seconds)}" if one else ""
            for one in (each.rebuild for each in shown)
        ],
    }
    known = {name: texts for name, texts in offers.items() if any(texts)}
    figures = [
        [_figure(of, stack) if (stack := one.figures[at]) else "" for one in shown] for at, of in rankings.items()
    ]
    names = [f"{one.name} (beaten)" if one.beaten else one.name for one in shown]
    titles = ("stack", *known, *map(workload_name, rankings.values()))
    rows = list(zip(names, *known.values(), *figures, strict=True))
    notes = _decision_notes(found, len(found.choices) - len(shown), len(every) - len(rankings))
    return Grid(titles, rows, tuple(notes), frozenset(titles[1:]))


def beaten_rows(found: Decision) -> list[int]:
    return [at for at, one in enumerate(found.choices) if one.beaten]


def decision_text(found: Decision) -> Iterator[str]:
    """Return the lines of the whole table, as plain text."""
    grid = decision_grid(found, workloads=None)
    rows = [tuple(map(str, row)) for row in (grid.columns, *grid.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            text.rjust(width) if name in grid.right else text.ljust(width)
            for name, text, width in zip(grid.columns, row, widths, strict=True)
        )
        yield "  ".join(cells).rstrip()
    yield from grid.notes


def _decision_notes(found: Decision, stacks: int, workloads: int) -> Iterator[str]:
    if found.overall:
        yield _overall(found)
        yield from all_else_equal(found, len(found.rankings), "good", " for all workloads together")
    yield "A ratio is the share of the best figure in the same rounds, so equal figures can have different ratios."
    if any(one.losses is not None for one in found.choices):
        yield "survives: so many disks may be lost, whichever they are."
    if any(one.rebuild and not one.rebuild.measured for one in found.choices):
        yield "~: computed from the rate of the disks, without other work; `sync_action: rebuild` measures it."
    if any(one.beaten for one in found.choices):
        yield "beaten: another stack has as much room and safety, and is faster at every workload."
    for count, what in ((stacks, "stack"), (workloads, "workload")):
        if count > 0:
            yield f"{count:,} more {what}{'s' if count > 1 else ''} in answer.txt."


def all_else_equal(found: Decision, at: int, good: str = "fast", where: str = "") -> Iterator[str]:
    """Compare the values of each axis: for a workload, or for all together (the last place)."""
    axes = [one for one in found.axes[at] if any(isfinite(ratio.high) for _, ratio in one.others)]
    if axes:
        rule = found.rankings[0].rule
        yield f"Value by value,{where} with all else equal ({rule.confidence * 100:g}{FIRM}% confidence):"
        yield from describe_axes(axes, rule.practical, good)


def _overall(found: Decision) -> str:
    best, *others = found.overall
    weights = ", ".join(f"{name} {weight:g}" for name, weight in found.weights.items())
    confidence = f"{found.rankings[0].confidence * 100:g}{FIRM}% confidence"
    level = [one for one in others if one.candidate]
    if level:
        names = join_few([found.name_of(one) for one in (best, *level)])
        rows = f", the first {len(level) + 1} rows," if len(level) >= _NAMES else ""
        return f"For all workloads together ({weights}): {names}{rows} cannot be told apart ({confidence})."
    return f"For all workloads together ({weights}): {found.name_of(best)} is best ({confidence})."


def _figure(of: Ranking, stack: RankedStack) -> str:
    ratio = f" {times(1 / stack.behind.ratio if stack.behind else 1.0)}" if stack.is_compared else ""
    return f"{_level_of(of, stack)}{ratio}{mark(stack)}{_beside(stack)}".replace(FIRM, " ")
