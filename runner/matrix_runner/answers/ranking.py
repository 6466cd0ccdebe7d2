"""Ranking of stacks at each workload, and recommendation of settings, with those that may be as good."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, StrEnum
from math import inf, isfinite
from statistics import fmean, geometric_mean
from typing import NamedTuple

from matrix_runner.answers.axes import NUMBERED
from matrix_runner.answers.cell_figures import Measured, kind_of
from matrix_runner.answers.evaluate import Level
from matrix_runner.base.errors import BadInput
from matrix_runner.base.quantities import parse_size
from matrix_runner.records.record import CellRow
from matrix_runner.statistics.extremes import find_extreme
from matrix_runner.statistics.race import stand
from matrix_runner.statistics.ratios import PRACTICAL, Ratio, paired_ratio
from matrix_runner.work.fio.bounds import MIXED, parse_fio_size
from matrix_runner.work.metrics import KNOWN, RATES, SIDES, Metric, is_large, is_paced

Places = tuple[tuple[str, str], ...]
#: Cells by setting (a stack with its tunables) and by workload.
Settings = dict[Places, dict[Places, "Measured"]]


@dataclass(frozen=True, slots=True)
class Setting:
    places: Places
    cells: tuple[str, ...]
    level: float  # the mean of one workload, as in tables, or the geometric mean over several
    ratio: Ratio | None  # the ratio to the best one; None for the best itself, and without a common round
    candidate: bool  # it may be the true best
    host_limited: int = 0  # trials that are host-limited


@dataclass(frozen=True, slots=True)
class Recommendation:
    metric: Metric
    settings: tuple[Setting, ...]
    workloads: tuple[str, ...]
    left_out: int
    confidence: float
    combined: tuple[str, ...] = ()  # several workloads, each by the axes in which they differ
    weights: Mapping[str, float] = field(default_factory=dict)  # of workloads; empty: all are equal
    picked: str = ""  # the cell that a search for the best value recommends
    practical: float = PRACTICAL  # differences up to this size count as equal

    @property
    def best(self) -> Setting:
        return self.settings[0]

    @property
    def level(self) -> list[Setting]:
        return [one for one in self.settings[1:] if one.candidate]

    def is_near(self, one: Setting) -> bool:
        """Return whether the figure of a setting itself, not only its interval, is about that of the best."""
        return one.ratio is not None and abs(one.ratio.ratio - 1) <= self.practical

    @property
    def chosen(self) -> Setting:
        """Return the best, or of those that cannot be told from it and are equal, the default or the smallest."""
        if self.picked:
            return next((one for one in self.settings if self.picked in one.cells), self.best)
        near = [one for one in self.level if self.is_near(one)]
        won = dict(self.best.places)
        plain = (one for one in near if dict(one.places).keys() == won.keys() and _plainness(one, won) is not None)
        return min((self.best, *plain), key=lambda one: _plainness(one, won) or ())


def _plainness(setting: Setting, won: Mapping[str, str]) -> tuple[tuple[bool, float], ...] | None:
    """Return the order of a setting: defaults, then small numbers; None if it differs from the best in a name."""
    found = []
    for axis, value in setting.places:
        size = None if axis in NUMBERED else _size(value)
        if value != won[axis] and (size is None or _size(won[axis]) is None):
            return None
        found.append((size != -inf, size or 0.0))
    return tuple(found)


def _size(value: str) -> float | None:
    if value == "default":
        return -inf
    with suppress(ValueError):
        return float(value)
    with suppress(ValueError):
        return float(parse_size(value))
    return None


def possible_choices(found: Sequence[Measured]) -> list[Measured]:
    """Return the cells, without degraded arrays if there are others. Raise BadInput if they differ in faults."""
    faults = sorted({one.cell.axes["faults"] for one in found if "faults" in one.cell.axes})
    if len(faults) > 1:
        raise BadInput(
            f"this was measured with different faults ({', '.join(faults)}), and a recommendation needs one of them",
            resolution=f"choose one: --for 'faults={faults[0]}'",
        )
    states = [{value for axis, value in one.cell.axes.items() if axis.endswith(".state")} for one in found]
    return [one for one, of_arrays in zip(found, states, strict=True) if of_arrays <= {"clean"}] or list(found)


def recommend_settings(
    found: Sequence[Measured],
    metric: Metric,
    confidence: float = 0.95,
    share: float = 1.0,
    weights: Mapping[str, float] | None = None,
    practical: float = PRACTICAL,
) -> Recommendation:
    """Recommend settings from cells of one run. `share` is the used part of the error rate, as for guidelines.

    With `weights`, only these workloads count.
    """
    having = [one for one in found if one.has(metric) and (not weights or _name(one) in weights)]
    if not any(one.rounds(metric) for one in having):
        raise BadInput(f"no selected cell has {metric.name}", resolution="choose another figure with --metric")
    settings = group_by_setting(having)
    works = {work for several in settings.values() for work in several}
    complete = {place: several for place, several in settings.items() if works == set(several)}
    samples = {place: _combined_figure(several, metric, weights) for place, several in complete.items()}
    sure = Level(confidence, share=share).yes
    ordered = sort_samples(complete, samples, sure, more_is_better=metric.more_is_better)
    if not ordered:
        raise BadInput(
            f"no setting was measured with all selected workloads in the same rounds ({metric.name})",
            details=f"workloads: {'; '.join(sorted(map(_describe, works)))}",
            resolution="narrow it with --for",
        )
    names = tuple(sorted(set(map(_name, having))))
    common = set.intersection(*map(set, works))
    combined = sorted(_describe(tuple(place for place in work if place not in common)) for work in works)
    left_out = len(settings) - len(ordered)
    several = tuple(combined) if len(works) > 1 else ()
    return Recommendation(metric, ordered, names, left_out, confidence, several, weights or {}, practical=practical)


def sort_by_figure(settings: Settings, metric: Metric, sure: float, *, raced: bool = False) -> tuple[Setting, ...]:
    samples = {place: _combined_figure(several, metric) for place, several in settings.items()}
    return sort_samples(settings, samples, sure, more_is_better=metric.more_is_better, raced=raced)


def sort_samples(
    settings: Settings,
    every: Mapping[Places, dict[int, float]],
    sure: float,
    *,
    more_is_better: bool = True,
    raced: bool = False,
) -> tuple[Setting, ...]:
    samples = {place: every[place] for place in sorted(every) if every[place]}  # so ties have one order
    values = list(samples.values())
    standings = stand(values, sure, lowest=not more_is_better) if raced else None
    extreme = standings or find_extreme(values, sure, lowest=not more_is_better)
    if extreme is None:
        return ()
    best = list(samples)[extreme.at]
    found = []
    for at, (place, sample) in enumerate(samples.items()):
        cells = settings[place].values()
        ratio = None if place == best else paired_ratio(samples[best], sample, sure)
        if standings and (ahead := standings.ahead(at)):
            ratio = ahead.inverse if more_is_better else ahead
        candidate = at in extreme.candidates
        if ratio and (lost := max(one.lost_share for one in cells)):
            candidate |= could_be_as_good(ratio, lost, more_is_better=more_is_better)
        ids, host_limited = tuple(one.cell.id for one in cells), sum(one.host_limited for one in cells)
        level = (fmean if len(cells) == 1 else geometric_mean)(sample.values())
        found.append(Setting(place, ids, level, ratio, candidate, host_limited))
    sign = -1 if more_is_better else 1

    def order(one: Setting) -> tuple[bool, bool, float]:
        return one.places != best, one.ratio is None, sign * (one.ratio.ratio if one.ratio else one.level)

    return tuple(sorted(found, key=order))


def could_be_as_good(ratio: Ratio, lost_share: float, *, more_is_better: bool = True) -> bool:
    """Return whether a setting may equal the best. Without lost time, it may be 1 / (1 - share) times as good."""
    return ratio.high >= 1 - lost_share if more_is_better else ratio.low * (1 - lost_share) <= 1


def group_by_setting(found: Sequence[Measured]) -> Settings:
    """Group cells by setting and by workload.

    Workloads on files and on devices are equal if they have one name and agree on all common axes: the number of files
    means nothing for devices. They stay separate if one name would then cover several workloads of a setting.
    """
    every = {axis for one in found for axis in one.cell.axes}
    of_work = {axis for axis in every if kind_of(axis) == "workload"}
    common: dict[str, set[str]] = {}
    for one in found:
        common[_name(one)] = common.get(_name(one), of_work) & one.cell.axes.keys()
    keys = [(_places(one, every - of_work), _places(one, common[_name(one)])) for one in found]
    counts = Counter(keys)
    unclear = {_name(one) for one, key in zip(found, keys, strict=True) if counts[key] > 1}
    settings: Settings = {}
    for one, (setting, work) in zip(found, keys, strict=True):
        settings.setdefault(setting, {})[_places(one, of_work) if _name(one) in unclear else work] = one
    return settings


def _name(one: Measured) -> str:
    return one.cell.axes.get("workload", "")


def _places(one: Measured, axes: Collection[str]) -> Places:
    return tuple((axis, value) for axis, value in one.cell.axes.items() if axis in axes)


def stack_name(cell: CellRow) -> str:
    """Return the name of a stack with its tunables, without faults, which are a part of the work."""
    return "/".join(part for part in cell.setting.split("/") if not part.startswith("faults="))


def _describe(work: Places) -> str:
    return ", ".join(f"{axis.removeprefix('workload.')}={value}" for axis, value in work)


def _combined_figure(
    several: Mapping[Places, Measured], metric: Metric, weights: Mapping[str, float] | None = None
) -> dict[int, float]:
    """Return the weighted geometric mean by round. The variants of a workload share its weight."""
    names = Counter(map(_name, several.values()))
    powers = [weights[_name(one)] / names[_name(one)] if weights else 1.0 for one in several.values()]
    figures = [one.rounds(metric) for one in several.values()]
    shared = set.intersection(*(set(one) for one in figures))
    mean = fmean(powers)
    return {
        number: geometric_mean(one[number] ** (power / mean) for one, power in zip(figures, powers, strict=True))
        for number in sorted(shared)
    }


_FAR = 1.0  # bounds of larger differences (1: twice as fast) say nothing
#: The figures that a ranking needs.
COLUMNS = (*(f"{side}_{rate}" for rate in RATES for side in SIDES), "sync_bw")
_LATENCIES = {side: KNOWN[f"{side}.lat_mean"] for side in SIDES}
#: The figures that options of fio limit.
_LIMITS = {"rate_iops": KNOWN["total.iops"], "rate": KNOWN["total.bw"]}
_REACHED = 0.98  # of a limit; fio's own rate varies by about 1 %


def columns_of(cell: CellRow) -> tuple[str, ...]:
    """Return the figures that a ranking of this cell needs: that of paced work compares latencies."""
    return (*COLUMNS, *(f"{side}_lat_mean" for side in SIDES)) if is_paced(cell.axes) else COLUMNS


@dataclass(frozen=True, slots=True)
class Pace:
    rate: float
    wanted: float
    unit: str

    @property
    def is_reached(self) -> bool:
        return self.rate >= _REACHED * self.wanted


def _pace(one: Measured) -> Pace | None:
    """Return the rate of paced work beside its limit, if that is one number."""
    axes = one.cell.axes
    for name, metric in _LIMITS.items():
        text, rates = axes.get(f"workload.fio.{name}", ""), one.rounds(metric).values()
        if text and rates and axes.get("workload.rw") not in MIXED:
            with suppress(ValueError):
                wanted = parse_fio_size(text) * int(axes.get("workload.numjobs", "1"))
                return Pace(fmean(rates), wanted, metric.unit) if wanted else None
    return None


class Standing(StrEnum):
    FASTEST = "fastest"
    EQUAL = "equal"
    UNDECIDED = "cannot tell"
    #: It is slower here, but the host slowed it down: it may be as fast on a faster host.
    HOST_LIMITED = "cannot tell: host-limited"
    #: In a race, no more trials are needed: it is not better than the fastest one.
    NOT_BETTER = "equal or slower"
    #: In a race, it lost to a stack that the fastest one may equal.
    OUT = "slower than another"
    SLOWER = "slower"
    #: It has no round in common with the fastest one.
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, slots=True)
class RankedStack:
    cell: CellRow
    level: float  # the mean over its trials, as in tables
    standing: Standing
    behind: Ratio | None  # how many times as fast the fastest one is; None for itself, and without a common round
    #: The share of the time that it lost to a host too slow or too busy; 0 if the host kept up.
    lost_share: float = 0.0
    #: How many times as fast the fastest one would be on a host that slows down neither; None if none is slowed down.
    corrected: tuple[float, float] | None = None
    pace: Pace | None = None  # of work with a limit
    sync_p99: float | None = None  # ns, of fsync and fdatasync

    @property
    def has_interval(self) -> bool:
        return self.behind is not None and bool(self.behind.low) and isfinite(self.behind.high)

    @property
    def is_compared(self) -> bool:
        return self.standing is not Standing.NOT_COMPARED

    @property
    def is_out(self) -> bool:
        """Return whether it cannot be the best."""
        return self.standing in {Standing.SLOWER, Standing.OUT}

    @property
    def is_spared(self) -> bool:
        """Return whether a race needs no more trials of it."""
        return self.is_out or self.standing in {Standing.NOT_BETTER, Standing.EQUAL}

    @property
    def least_behind(self) -> float:
        return self.behind.low if self.behind else 1.0

    @property
    def most_behind(self) -> float:
        return self.behind.high if self.behind else 1.0

    @property
    def apart(self) -> float:
        """Return the largest difference from the fastest one within the interval (0.1: 10 %)."""
        if self.behind is None or not self.has_interval:
            return inf
        low, high = self.corrected or (self.behind.low, self.behind.high)
        return max(high, 1 / low if low else inf) - 1


@dataclass(frozen=True, slots=True)
class RankingRule:
    """How stacks are compared."""

    confidence: float = 0.95
    share: float = 1.0  # the used part of the error rate, as for guidelines
    practical: float = PRACTICAL  # differences up to this size count as equal
    _: KW_ONLY
    raced: bool = False

    @property
    def sure(self) -> float:
        return self.confidence if self.raced else Level(self.confidence, share=self.share).yes


@dataclass(frozen=True, slots=True)
class Ranking:
    metric: Metric
    stacks: tuple[RankedStack, ...]
    missing: tuple[CellRow, ...]  # cells without figures
    degraded: tuple[CellRow, ...]  # cells whose arrays have lost a disk, while others have all of theirs
    trials: int  # rounds behind the comparison that has the most
    rule: RankingRule
    measured: Mapping[Places, Measured]  # the figures of each setting, of workloads with a weight
    saved: int = 0  # trials that the race did without: as many rounds of all stacks have so many more

    @property
    def confidence(self) -> float:
        return self.rule.confidence

    @property
    def raced(self) -> bool:
        """Return whether the fastest is the best one, or equal to it."""
        return self.rule.raced

    @property
    def workload(self) -> str:
        return self.fastest.cell.axes.get("workload", "")

    @property
    def fastest(self) -> RankedStack:
        return self.stacks[0]

    @property
    def compared(self) -> list[RankedStack]:
        return [one for one in self.stacks if one.is_compared]

    @property
    def leaders(self) -> list[RankedStack]:
        return [one for one in self.compared if one not in self.slower]

    @property
    def slower(self) -> list[RankedStack]:
        return [one for one in self.stacks if one.is_out or one.standing is Standing.NOT_BETTER]

    @property
    def is_host_limited(self) -> bool:
        return any(one.standing is Standing.HOST_LIMITED for one in self.leaders)


class GapKind(Enum):
    """What is known of the difference between stacks that may be the fastest."""

    WITHIN = 1  # equal, up to differences that count as equal
    BOUND = 2
    TRIALS = 3  # more trials would tell
    HOST = 4  # more trials would repeat what the host lost


class Gap(NamedTuple):
    kind: GapKind
    most: float = 0.0  # the largest difference (0.1: 10 %)


def gap_of(several: Sequence[Ranking]) -> Gap:
    leaders = [stack for one in several for stack in one.leaders]
    if any(one.is_host_limited for one in several):
        return Gap(GapKind.HOST)
    if all(stack.standing is not Standing.UNDECIDED for stack in leaders):
        return Gap(GapKind.WITHIN)
    most = max(stack.apart for one in several for stack in one.leaders[1:])
    if most < _FAR:
        return Gap(GapKind.BOUND, most)
    return Gap(GapKind.HOST if any(stack.lost_share > PRACTICAL for stack in leaders) else GapKind.TRIALS)


def rank_stacks(
    found: Iterable[Measured],
    rule: RankingRule = RankingRule(),
    *,
    measure: Callable[[Measured], Measured] = lambda one: one,
    weighed: Collection[str] = (),
) -> list[Ranking]:
    """Rank the stacks of one run by workload.

    Rankings of `weighed` workloads keep the figures. `measure` adds the figures to a cell, for one workload at a time:
    those of 100,000 cells need much memory.
    """
    rankings = []
    for settings in _by_workload(found):
        places = {place: {work: measure(one) for work, one in of.items()} for place, of in settings.items()}
        rankings.append(_ranking(places, rule, weighed))
    return [one for one in rankings if one and len(one.stacks) + len(one.missing) > 1]


def stacks_by_workload(found: Iterable[Measured]) -> Iterator[dict[Places, Measured]]:
    """Yield the stacks that a ranking compares, for each workload."""
    for settings in _by_workload(found):
        yield {place: one for place, works in _without_degraded(settings).items() for one in works.values()}


def _by_workload(found: Iterable[Measured]) -> Iterable[Settings]:
    workloads: dict[tuple[str, Places], Settings] = {}
    for place, several in group_by_setting(list(found)).items():
        for work, one in several.items():
            workloads.setdefault((one.cell.axes.get("faults", ""), work), {})[place] = {work: one}
    return workloads.values()


def _without_degraded(declared: Settings) -> Settings:
    kept = {one.cell.id for one in possible_choices([one for several in declared.values() for one in several.values()])}
    return {place: work for place, work in declared.items() if all(one.cell.id in kept for one in work.values())}


def _ranking(declared: Settings, rule: RankingRule, weighed: Collection[str]) -> Ranking | None:
    settings = _without_degraded(declared)
    cells = {one.cell.id: one for several in settings.values() for one in several.values()}
    metric = headline(cells.values())
    ordered = sort_by_figure(settings, metric, rule.sure, raced=rule.raced)
    if not ordered:
        return None
    ranked = {cell for one in ordered for cell in one.cells}
    keep = cells[ordered[0].cells[0]].cell.axes.get("workload") in weighed
    rounds = max((one.ratio.n_a for one in ordered if one.ratio), default=0)
    counts = [len(cells[one.cells[0]].rounds(metric)) for one in ordered]
    stacks = tuple(
        _stack(one, ordered[0], cells, metric, rule, fastest=rounds > 0 and one is ordered[0]) for one in ordered
    )
    spared = [max(counts) - count for count, stack in zip(counts, stacks, strict=True) if stack.is_spared]
    return Ranking(
        metric,
        stacks,
        tuple(one.cell for one in cells.values() if one.cell.id not in ranked),
        tuple(one.cell for place in declared if place not in settings for one in declared[place].values()),
        rounds,
        rule,
        {one.places: cells[one.cells[0]] for one in ordered} if keep else {},
        sum(spared) if rule.raced else 0,
    )


def _rates_of(several: Iterable[Measured], side: str) -> Iterator[float]:
    for one in several:
        yield from one.rounds(KNOWN[f"{side}.iops"]).values()


def headline(cells: Iterable[Measured]) -> Metric:
    several = list(cells)
    if several and all(is_paced(one.cell.axes) for one in several):
        counts = {side: sum(len(one.rounds(metric)) for one in several) for side, metric in _LATENCIES.items()}
        rates = {side: sum(_rates_of(several, side)) for side, count in counts.items() if count}
        if rates:
            return _LATENCIES[max(rates, key=lambda side: rates[side])]
    if any(one.rounds(KNOWN["rebuild.bw"]) for one in several):
        return KNOWN["rebuild.bw"]
    bw, iops = (
        sum(value for one in several for value in one.rounds(metric).values())
        for metric in (KNOWN["total.bw"], KNOWN["total.iops"])
    )
    return KNOWN["total.bw"] if is_large(bw, iops) else KNOWN["total.iops"]


def _stack(
    setting: Setting, best: Setting, cells: Mapping[str, Measured], metric: Metric, rule: RankingRule, *, fastest: bool
) -> RankedStack:
    behind = setting.ratio.inverse if setting.ratio and metric.more_is_better else setting.ratio
    one, first = cells[setting.cells[0]], cells[best.cells[0]]
    standing = Standing.FASTEST if fastest else _standing(setting, behind, one.lost_share, metric, rule)
    corrected = _corrected(behind, one.lost_share, first.lost_share) if behind else None
    level = fmean(one.rounds(metric).values())
    return RankedStack(one.cell, level, standing, behind, one.lost_share, corrected, _pace(one), one.sync_p99)


def _corrected(behind: Ratio, lost: float, lost_by_fastest: float) -> tuple[float, float] | None:
    """Widen the interval: a stack that lost a share of its time could be 1 / (1 - share) times as fast elsewhere."""
    if not lost and not lost_by_fastest:
        return None
    return behind.low * (1 - lost), behind.high / (1 - lost_by_fastest) if lost_by_fastest < 1 else inf


def _standing(setting: Setting, behind: Ratio | None, lost_share: float, metric: Metric, rule: RankingRule) -> Standing:
    """Call a stack slower only if the test of all stacks and the interval of the pair agree."""
    if setting.ratio is None or behind is None:
        return Standing.NOT_COMPARED
    least = 1 / (1 + rule.practical)
    equal = behind.low >= least and behind.high <= 1 + rule.practical
    is_slower_here = behind.low > 1
    if lost_share and (
        equal or (is_slower_here and could_be_as_good(setting.ratio, lost_share, more_is_better=metric.more_is_better))
    ):
        return Standing.HOST_LIMITED
    if equal:
        return Standing.EQUAL
    if is_slower_here and not setting.candidate:
        return Standing.SLOWER
    if rule.raced and not setting.candidate:
        return Standing.OUT
    return Standing.NOT_BETTER if rule.raced and behind.low >= least else Standing.UNDECIDED
