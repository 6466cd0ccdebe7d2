"""The rule of a search (`find:`): which values to try next, and the work that it found. It does no I/O.

Without `while`, the rule is in best.py. With it, the search tries both ends of the axis, and halves the distance until
two neighbours lie on either side of the limit. Later rounds repeat these two. Each step uses the means of all trials,
so a value that one trial misjudged is corrected.

The work at the limit is interpolated between the two neighbours: the logarithm of the latency against the work. Its
interval is that of the linear approximation around the means, round by round. In simulations of curves with 1 to 5 % of
noise, intervals of 95 % covered 92 to 96 %.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import log
from statistics import fmean

from matrix_runner.answers import best
from matrix_runner.answers.axes import DEFAULT, finite_number, grouped, number_key
from matrix_runner.answers.cell_figures import SEARCH, Measured, figure_of
from matrix_runner.answers.decision import of_stack
from matrix_runner.language.find import Find
from matrix_runner.records.record import CellRow, Trial
from matrix_runner.records.run_folder import StackFacts
from matrix_runner.statistics.ratios import PRACTICAL, Ratio
from matrix_runner.statistics.stopping import Estimate, Rule, estimate_mean, is_precise, stop_reason
from matrix_runner.work.fio.output import Figures
from matrix_runner.work.metrics import FOUND, Metric


@dataclass(frozen=True, slots=True)
class Point:
    """One value of the axis: its latency (a logarithm) and work, by round."""

    found: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    failed: frozenset[int] = frozenset()  # rounds with a trial without figures

    @property
    def latencies(self) -> list[float]:
        return [latency for _, (latency, _) in sorted(self.found.items())]

    @property
    def work(self) -> list[float]:
        return [work for _, (_, work) in sorted(self.found.items())]


@dataclass(frozen=True, slots=True)
class Step:
    """The next values to try, or the values on either side of the limit: only one if all are on one side."""

    untried: tuple[int, ...] = ()
    within: int | None = None  # the largest value within the limit
    beyond: int | None = None  # the smallest value beyond the limit

    @property
    def around(self) -> tuple[int, ...]:
        return tuple(at for at in (self.within, self.beyond) if at is not None)


def bisect(points: Sequence[Point], limit: float, usable: Sequence[int]) -> Step:
    """Return the next step; `limit` is a logarithm, and `usable` are the values that have figures or may get some."""
    ends = dict.fromkeys((usable[0], usable[-1]))
    if untried := tuple(at for at in ends if not points[at].found):
        return Step(untried)
    low, high = 0, len(usable) - 1
    if _is_within(points[usable[high]], limit):
        return Step(within=usable[high])
    if not _is_within(points[usable[low]], limit):
        return Step(beyond=usable[low])
    while high - low > 1:
        middle = (low + high) // 2
        if not points[usable[middle]].found:
            return Step((usable[middle],))
        low, high = (middle, high) if _is_within(points[usable[middle]], limit) else (low, middle)
    return Step(within=usable[low], beyond=usable[high])


def _is_within(point: Point, limit: float) -> bool:
    return fmean(point.latencies) < limit


def next_values(points: Sequence[Point], limit: float, rule: Rule, round_number: int) -> tuple[int, ...]:
    """Return the values to try next in a round, from all trials up to it; empty if it needs no more."""
    usable = [at for at, point in enumerate(points) if point.found or round_number not in point.failed]
    if not usable or round_number > rule.most:
        return ()
    step = bisect(points, limit, usable)
    if step.untried or is_enough(points, limit, step, rule):
        return step.untried
    tried = {at for at in step.around if round_number in points[at].found or round_number in points[at].failed}
    return tuple(at for at in step.around if at not in tried)


def is_enough(points: Sequence[Point], limit: float, step: Step, rule: Rule) -> bool:
    values = work_at(points, limit, step)
    return len(values) >= rule.least and (rule.until is None or len(values) >= rule.most or is_precise(values, rule))


def work_at(points: Sequence[Point], limit: float, step: Step) -> list[float]:
    """Return the work at the limit, or at the end of the axis, by round. The mean is that of all trials."""
    if step.within is None or step.beyond is None:
        return points[step.around[0]].work if step.around else []
    low, high = points[step.within], points[step.beyond]
    start, rise = fmean(low.latencies), fmean(high.latencies) - fmean(low.latencies)
    share = (limit - start) / rise
    slope = (fmean(high.work) - fmean(low.work)) / rise
    below, above = (
        [work - slope * latency for latency, work in zip(one.latencies, one.work, strict=True)] for one in (low, high)
    )
    parts = [(1 - share) * one + share * other for one, other in zip(below, above, strict=False)]
    work = (1 - share) * fmean(low.work) + share * fmean(high.work)
    return [work + part - fmean(parts) for part in parts]


def usual_trials(values: int, rounds: int) -> int:
    """Return the number of trials if no round corrects the ones before."""
    return min(values, 2 + (values - 2).bit_length()) + min(values, 2) * (rounds - 1)


# --- searches of a matrix ---


@dataclass(frozen=True, slots=True)
class Search:
    """The cells of one workload that differ in the searched axis only, in the order of its values."""

    find: Find
    cells: tuple[CellRow, ...]
    name: str  # the name of its cells without the axis

    def value(self, at: int) -> str:
        return self.cells[at].axes[self.find.axis]

    @property
    def axes(self) -> dict[str, str]:
        return {axis: value for axis, value in self.cells[0].axes.items() if axis != self.find.axis}

    @property
    def row(self) -> CellRow:
        """Return its result as guidelines know it: a cell without the searched axis."""
        metric = next(name for name, one in FOUND.items() if one.unit == self.find.metric.unit)
        return CellRow(self.name, self.name, {**self.axes, SEARCH: metric})

    @property
    def default(self) -> int | None:
        values = [self.value(at) for at in range(len(self.cells))]
        return values.index(DEFAULT) if DEFAULT in values else None

    def wanted(self, trials: Mapping[str, Sequence[Trial]], rule: Rule, round_number: int) -> Iterable[int]:
        """Return the values to try next in a round."""
        if not self.find.is_for_best:
            return next_values(self.points(trials, round_number), self.limit, rule, round_number)
        found = best.next_values(self.figures(trials), self.default, rule, round_number)
        return [at for at in sorted(found) if _is_usable(trials.get(self.cells[at].id, ()), round_number)]

    def figures(self, trials: Mapping[str, Iterable[Trial]]) -> list[dict[int, float]]:
        """Return the work of each value by round."""
        every = (((one.round, one.counted) for one in trials.get(cell.id, ())) for cell in self.cells)
        works = ({number: _sum_of(one, self.find.metric) for number, one in several if one} for several in every)
        return [{number: work for number, work in sorted(one.items()) if work} for one in works]

    @property
    def limit(self) -> float:
        return log(self.find.within.nanoseconds)

    def points(self, trials: Mapping[str, Iterable[Trial]], round_number: int | None = None) -> list[Point]:
        """Return what is known of each value, up to a round."""
        return [
            self._point([one for one in trials.get(cell.id, ()) if round_number is None or one.round <= round_number])
            for cell in self.cells
        ]

    def _point(self, trials: Iterable[Trial]) -> Point:
        found = {one.round: self._figures(one.counted) for one in trials}
        return Point(
            {round_number: one for round_number, one in found.items() if one},
            frozenset(round_number for round_number, one in found.items() if not one),
        )

    def _figures(self, figures: Figures | None) -> tuple[float, float] | None:
        if figures is None:
            return None
        latency, work = (_sum_of(figures, metric) for metric in (self.find.within.metric, self.find.metric))
        return (log(latency), work) if latency and work else None


def _is_usable(trials: Sequence[Trial], round_number: int) -> bool:
    """Return whether a value has figures of earlier rounds, or may get some."""
    before = [one.counted for one in trials if one.round < round_number]
    return not before or any(before)


def _sum_of(figures: Figures, metric: Metric) -> float:
    return sum(figure_of(figures, column) or 0.0 for column in metric.columns)


def searches_of(cells: Iterable[CellRow], finds: Mapping[str, Find]) -> list[Search]:
    searched = ((finds.get(cell.axes.get("workload", "")), cell) for cell in (cells if finds else ()))
    known = ((find, cell) for find, cell in searched if find and find.axis in cell.axes)
    found = grouped((tuple(one for one in cell.axes.items() if one[0] != find.axis), cell) for find, cell in known)
    return [_search(finds[dict(others)["workload"]], several) for others, several in found.items()]


def _search(find: Find, cells: Iterable[CellRow]) -> Search:
    ordered = tuple(sorted(cells, key=lambda cell: number_key(cell.axes[find.axis])))
    value = f"{find.axis.rpartition('.')[2]}={ordered[0].axes[find.axis]}"
    parts = (",".join(one for one in part.split(",") if one != value) for part in ordered[0].name.split("/"))
    return Search(find, ordered, "/".join(filter(None, parts)))


class Searches:
    """Chooses the cells of all searches of a run."""

    def __init__(self, cells: Iterable[CellRow], finds: Mapping[str, Find], rule: Rule) -> None:
        self._rule = rule
        self._by_cell = {cell.id: one for one in searches_of(cells, finds) for cell in one.cells}
        self._trials: dict[str, list[Trial]] = {}
        self._known: dict[tuple[str, int], list[str]] = {}

    def __contains__(self, cell: str) -> bool:
        return cell in self._by_cell

    def add(self, trial: Trial) -> None:
        if trial.cell in self._by_cell:
            self._trials.setdefault(trial.cell, []).append(trial)
            self._known.clear()

    def wanted(self, cell: str, round_number: int) -> list[str]:
        """Return the cells that the search of this cell needs next in a round."""
        search = self._by_cell[cell]
        key = search.name, round_number
        if key not in self._known:
            self._known[key] = [search.cells[at].id for at in search.wanted(self._trials, self._rule, round_number)]
        return self._known[key]

    def following(self, cell: str, round_number: int) -> list[str]:
        """Return the cells to try next in this round, after a trial. The best value is searched round by round."""
        return [] if self._by_cell[cell].find.is_for_best else self.wanted(cell, round_number)


# --- its result ---


class Found(StrEnum):
    """Where the limit lies on the axis."""

    BETWEEN = "between"  # two neighbours
    ABOVE = "above"  # the largest value is within the limit
    BELOW = "below"  # the smallest value is beyond the limit
    UNKNOWN = "unknown"  # not all of its trials are measured
    BEST = "best"  # without a limit: a value is as good as the best
    PERHAPS = "perhaps"  # without a limit: it is not decided whether a value is as good as the best

    @property
    def is_figure(self) -> bool:
        return self in {Found.BETWEEN, Found.BEST, Found.PERHAPS}


@dataclass(frozen=True, slots=True)
class Knee:
    """The most work within the limit. Above and below, it is the work at the end of the axis; without a limit, the
    work of the smallest value that is as good as the best."""

    search: Search
    found: Found
    work: Estimate | None = None
    within: str = ""  # the largest value within the limit; without one, the value of this work
    beyond: str = ""  # the smallest value beyond the limit; without one, the best of those that were tried
    trials: int = 0
    host_limited: int = 0  # trials of these values that are host-limited
    values: Mapping[int, float] = field(default_factory=dict)  # the work at the limit, one value per trial
    recommended: CellRow | None = None  # without a limit: the default if it is as good, else the cell of this work
    keeps_default: bool | None = None  # the default is as good; None: it is not compared
    ahead: Ratio | None = None  # how many times as good as the default the best is
    memory: int | None = None  # bytes that the value takes
    explored: int = 0  # without a limit: the rounds that looked for the best, whose figures do not count
    practical: float = PRACTICAL  # differences up to this size count as equal

    def measured(self, run: str, rule: Rule) -> Measured:
        """Return it as guidelines use it. A limit that is above or below the axis is no figure."""
        row = self.search.row
        columns = {FOUND[row.axes[SEARCH]].columns[0]: self.values} if self.found.is_figure else {}
        stopped = stop_reason([*self.values.values()], len(self.values), rule)
        return Measured(run, row, columns, rule, stopped, max(1, len(self.values)), self.host_limited)


def find_knee(
    search: Search, trials: Mapping[str, Sequence[Trial]], rule: Rule, stacks: Mapping[str, StackFacts]
) -> Knee:
    if search.find.is_for_best:
        return _find_best(search, trials, rule, stacks)
    points = search.points(trials)
    count = sum(len(trials.get(cell.id, ())) for cell in search.cells)
    usable = [at for at, point in enumerate(points) if point.found or not point.failed]
    step = bisect(points, search.limit, usable) if usable else Step((0,))
    if not step.around:
        return Knee(search, Found.UNKNOWN, trials=count)
    values = work_at(points, search.limit, step)
    within, beyond = (search.value(at) if at is not None else "" for at in (step.within, step.beyond))
    found = Found.ABOVE if not beyond else Found.BETWEEN if within else Found.BELOW
    estimate = estimate_mean(values, rule, stop_reason(values, len(values), rule))
    several = (trial for at in step.around for trial in trials.get(search.cells[at].id, ()))
    limited = sum(trial.facts.is_host_limited for trial in several if trial.counted)
    return Knee(search, found, estimate, within, beyond, count, limited, dict(enumerate(values, start=1)))


def _find_best(
    search: Search, trials: Mapping[str, Sequence[Trial]], rule: Rule, stacks: Mapping[str, StackFacts]
) -> Knee:
    found = best.answer(search.figures(trials), search.default, rule)
    count = sum(len(trials.get(cell.id, ())) for cell in search.cells)
    if found is None or not (values := [*found.again[found.chosen].values()]):
        return Knee(search, Found.UNKNOWN, trials=count)
    keeps = None if found.default is None else found.is_within(found.default)
    cell = search.cells[found.chosen]
    limited = sum(one.facts.is_host_limited for one in trials[cell.id] if one.counted and one.round > found.explored)
    facts, size = of_stack(cell.name, stacks), finite_number(cell.axes[search.find.axis])
    unit = facts.memory.get(search.find.axis.rpartition(".")[2]) if facts else None
    return Knee(
        search,
        Found.BEST if found.is_within(found.chosen) else Found.PERHAPS,
        estimate_mean(values, rule, stop_reason(values, len(values), rule)),
        *(search.value(found.chosen), search.value(found.best), count, limited),
        dict(enumerate(values, start=1)),
        search.cells[found.default] if keeps and found.default is not None else cell,
        keeps,
        None if found.default is None else found.behind.get(found.default),
        round(unit * size) if unit and size else None,
        found.explored,
        rule.practical,
    )
