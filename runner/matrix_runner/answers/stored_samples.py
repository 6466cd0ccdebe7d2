"""Trials from the store, by run and cell: the figures of a trial, their units, and the usual rate of a workload.

Over 400 lines: one class has all figures of a cell, on rows whose positions only this module knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from math import inf
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from matrix_runner.answers.axes import grouped, name_key, with_aliases
from matrix_runner.records.record import (
    COUNTED,
    WORST,
    CellRow,
    block_of,
    count_measured,
    is_processor_limited,
    outcome_of_cell,
    without_stalled,
)
from matrix_runner.statistics.percentile import Histogram, estimated_percentiles, merge, percentiles
from matrix_runner.statistics.stopping import Estimate, Rule, StopReason, estimate_mean, stop_reason
from matrix_runner.work.metrics import (
    BESIDE,
    COLUMNS,
    FOUND,
    KNOWN,
    OF_SYNC,
    PERCENTILES,
    RATES,
    SIDES,
    STALLED,
    SYNC,
    TOTAL,
    WORK,
    is_large,
    split_column,
    work_bit,
)

if TYPE_CHECKING:
    from matrix_runner.records.store import RunRow, SharedStore

#: Units by column. The count of errors is no metric.
METRICS: dict[str, str] = {column: one.unit for column, one in COLUMNS.items() if one.unit or column != one.name}
#: Figures with a better direction. Amounts, durations and counters do not have one.
COMPARED = tuple(column for column in METRICS if COLUMNS[column].better)
_OF_REBUILD = {f"{SYNC}_{name}" for name in OF_SYNC}
_NOT_OF_JOBS = frozenset((*BESIDE.values(), *_OF_REBUILD, *(one.columns[0] for one in FOUND.values())))


def figure_name(metric: str) -> str:
    """Return the name of a figure that has dots, as in guidelines: `read_bw` for `read.bw`."""
    before, _, last = metric.rpartition(".")
    if (known := KNOWN.get(metric)) and len(known.columns) == 1:
        return known.columns[0]
    if last in METRICS:
        return metric
    job, _, side = before.rpartition(".")
    return f"{job}." * bool(job) + f"{side}_{last}"


def metric_of(figure: str) -> str:
    """Return the name that guidelines have for a figure: `read.bw` for `read_bw`."""
    job, own = split_column(figure)
    return f"{job}." * bool(job) + next((name for name in KNOWN if figure_name(name) == own), own)


def is_figure(name: str) -> bool:
    job, own = split_column(name)
    return own in METRICS and (own == name or bool(job and own not in _NOT_OF_JOBS))


def is_compared(metric: str) -> bool:
    return split_column(metric)[1] in COMPARED


def unit_of(metric: str) -> str:
    return METRICS[split_column(metric)[1]]


@lru_cache
def _split(metric: str) -> tuple[str, str]:
    """Return the direction, with the job before it, and the name: `reader.read` and `lat_p99`."""
    job, own = split_column(metric)
    side, _, name = own.partition("_")
    return f"{job}." * bool(job) + side, name


def more_is_faster(metric: str) -> bool:
    return COLUMNS[split_column(metric)[1]].better > 0


@lru_cache
def is_percentile(metric: str) -> bool:
    """Return whether it is a percentile, which is computed from all requests and never averaged over trials."""
    return _split(metric)[1] in PERCENTILES


#: Figures to read if the user does not request any.
LATENCIES = tuple(f"{side}_lat_mean" for side in SIDES)  # by which paced work is compared
USUAL_RATES = (*(f"{side}_{rate}" for rate in RATES for side in (*SIDES, TOTAL)), f"{SYNC}_bw")


BANDWIDTHS = tuple(f"{side}_bw" for side in SIDES)


class Work(NamedTuple):
    """What the work of a cell is, by its figures."""

    sides: tuple[str, ...]
    large: tuple[str, ...]  # those whose requests are large on average; the total too
    is_rebuild: bool


def rates_of(cells: Iterable[Samples]) -> list[str]:
    return _rates_of(frozenset([one.work for one in cells]))


@lru_cache  # many pairs of cells have equal work
def _rates_of(works: frozenset[Work]) -> list[str]:
    sides = [side for side in SIDES if any(side in one.sides for one in works)]
    if any(len(one.sides) > 1 for one in works):
        sides.insert(0, TOTAL)
    rates = [f"{side}_{'bw' if any(side in one.large for one in works) else 'iops'}" for side in sides]
    return [*rates, f"{SYNC}_bw"] if any(one.is_rebuild for one in works) else rates


@lru_cache
def _work(kinds: frozenset[int]) -> tuple[Work, bool]:
    """Return the work of a cell, and whether some of it is large and some small: then only the sums decide."""
    sides = tuple(side for side in SIDES if any(kind & work_bit(side) for kind in kinds))
    large = {bool(kind & work_bit(side, large=True)) for side in sides for kind in kinds if kind & work_bit(side)}
    is_rebuild = any(kind & work_bit(SYNC) for kind in kinds)
    return Work(sides, (TOTAL, *sides) if large == {True} else (), is_rebuild), len(large) > 1


@lru_cache
def _counts(outcomes: tuple[str, ...]) -> Mapping[str, int]:
    return Counter(outcomes)


#: The columns of every trial besides figures. The stopping rule uses the rates.
_LIMITS = ("lost", "lost_processor")
_FACTS = ("run", "cell", "round", "outcome", "reason", "kernel", *_LIMITS, "settled", "host", "spread", WORK)
_HEAD = (*_FACTS, *BANDWIDTHS, f"{SYNC}_bw")
_RUN, _CELL, _ROUND, _OUTCOME, _REASON, _KERNEL, _LOST, _PROCESSOR, _SETTLED, _HOST, _SPREAD, _WORK = range(len(_FACTS))
_RATES_AT = {side: _HEAD.index(f"{side}_bw") for side in SIDES}
_SYNC = _HEAD.index(f"{SYNC}_bw")
Row = tuple[Any, ...]
_rule = lru_cache(Rule)  # one object for all cells of a run


class Sample(NamedTuple):
    round: int
    outcome: str
    reason: str
    host_limited: bool
    processor_limited: bool
    stalled: bool
    unsettled: bool
    values: tuple[float | None, ...]


@dataclass(eq=False)  # not frozen: there may be 100,000, and frozen ones take three times as long to make
class Samples:
    """The trials of one cell in one run, by round. They stay rows, because there may be many."""

    run: RunRow
    cell: CellRow
    metrics: tuple[str, ...]
    rows: Sequence[Row]
    #: Histograms by direction and round; only read for percentiles.
    latencies: Mapping[tuple[str, int], bytes] | None = None
    among: Samples | None = None  # all trials, if these are a selection by outcome. The stopping rule counts all.
    #: The trials whose figures count. They are chosen at once, while the processor still has the rows in its cache.
    _settled: Sequence[Row] = field(init=False, repr=False, compare=False)
    #: Cache of figures by metric, because some are used often.
    _rounds: dict[str, Mapping[int, float]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = [row for row in self.rows if row[_OUTCOME] in COUNTED and row[_SETTLED]]
        found = without_stalled(found, [row[_WORK] & STALLED > 0 for row in found])
        if len(found) == len(self.rows) and not self.among:
            self._settled = self.rows
        else:  # a cell that read wrong data has no figures
            self._settled = [] if (self.among or self).has_failed else found

    @property
    def trials(self) -> list[Sample]:
        places = [self._at(metric) for metric in self.metrics]
        return [
            Sample(
                *(row[_ROUND], row[_OUTCOME], row[_REASON]),
                *(row[_LOST] is not None, is_processor_limited(row[_LOST], row[_PROCESSOR])),
                *(bool(row[_WORK] & STALLED), not row[_SETTLED]),
                tuple([row[at] for at in places]),
            )
            for row in self.rows
        ]

    def of_outcome(self, outcome: str) -> Samples:
        return self._some([row for row in self.rows if row[_OUTCOME] == outcome], self.among or self)

    def in_rounds(self, meant: Callable[[int], bool]) -> Samples:
        return self._some([row for row in self.rows if meant(row[_ROUND])], self.among or self)

    @property
    def again(self) -> Samples | None:
        """Return the trials of rounds after the planned ones, which measured a slower cell again, if there are any."""
        most = None if self.run.steered else self.run.most
        if most is None or self.rows[-1][_ROUND] <= most:
            return None
        return self.in_rounds(lambda round_number: round_number > most)

    def under(self, meant: Callable[[str], bool]) -> Samples:
        return self._some([row for row in self.rows if meant(row[_KERNEL])], self.among)

    def _some(self, rows: Sequence[Row], among: Samples | None) -> Samples:
        # `dataclasses.replace` takes four times as long.
        return Samples(self.run, self.cell, self.metrics, rows, self.latencies, among)

    @property
    def identities(self) -> Iterator[tuple[str, int]]:
        return ((row[_CELL], row[_ROUND]) for row in self.rows)

    @cached_property
    def counts(self) -> Mapping[str, int]:
        return _counts(tuple([row[_OUTCOME] for row in self.rows]))

    @property
    def measured(self) -> int:
        return count_measured(self.counts)

    @property
    def has_failed(self) -> bool:
        return any(one.is_failure and one in self.counts for one in WORST)

    @property
    def outcome(self) -> str:
        return outcome_of_cell(self.counts) or ""

    @cached_property
    def reasons(self) -> Sequence[str]:
        return list(dict.fromkeys(row[_REASON] for row in self.rows if row[_REASON]))

    @cached_property
    def kernels(self) -> Sequence[str]:
        return sorted(kernels_of([self]))

    @property
    def host_limited(self) -> int:
        return sum([1 for row in self.rows if row[_LOST] is not None])

    @property
    def processor_limited(self) -> int:
        return sum(is_processor_limited(row[_LOST], row[_PROCESSOR]) for row in self.rows)

    @property
    def lost_share(self) -> float:
        return fmean(row[_LOST] or 0.0 for row in self.rows) if self.host_limited else 0.0

    @property
    def is_complete(self) -> bool:
        """Return whether all trials have figures that count."""
        return len(self._settled) == len(self.rows) > 0

    @property
    def unsettled(self) -> int:
        return sum(not row[_SETTLED] for row in self.rows if row[_OUTCOME] in COUNTED)

    @property
    def stalled(self) -> int:
        return sum([1 for row in self.rows if row[_WORK] & STALLED and row[_OUTCOME] in COUNTED])

    @property
    def is_measured(self) -> bool:
        """Return whether there are figures. Trials without a steady state do not have any."""
        return any(row[_OUTCOME] in COUNTED and row[_SETTLED] for row in self.rows)

    @property
    def work(self) -> Work:
        found, is_mixed = _work(frozenset([row[_WORK] for row in self._settled]))
        if not is_mixed:
            return found
        return found._replace(large=tuple(filter(self._has_large_requests, (TOTAL, *found.sides))))

    def _has_large_requests(self, side: str) -> bool:
        bw, iops = (sum(row[self._at(f"{side}_{rate}")] or 0.0 for row in self._settled) for rate in RATES)
        return is_large(bw, iops)

    def counted(self, metric: str) -> list[Row]:
        at = self._at(_base(metric))
        return [row for row in self._settled if row[at] is not None]

    def host_limited_of(self, metric: str) -> int:
        return sum(row[_LOST] is not None for row in self.counted(metric)) if self.host_limited else 0

    def _at(self, metric: str) -> int:
        return _positions(self.metrics)[metric]

    @property
    def rule(self) -> Rule:
        run = self.run
        most = len((self.among or self).rows) if run.most is None else run.most
        return _rule(run.least, most, run.until, run.confidence, run.finished, run.steered)

    @cached_property
    def stopped(self) -> StopReason:
        return self.stopped_by(self.rule)

    def stopped_by(self, rule: Rule) -> StopReason:
        if self.among:
            return self.among.stopped_by(rule)
        rates: list[float] = []
        if rule.until is not None:  # without a target, the precision is not needed
            rates = [row[_SYNC] or sum(row[at] or 0.0 for at in _RATES_AT.values()) for row in self._settled]
        return stop_reason(rates, len(self.rows), rule)

    def rounds(self, metric: str) -> Mapping[int, float]:
        """Return a figure by the blocks in which comparisons pair trials."""
        found = self._rounds.get(metric)
        if found is None:
            at, rows = self._at(metric), self._settled
            known = (row for row in rows if row[at] is not None)
            found = {block_of(row[_ROUND], row[_HOST], spread=row[_SPREAD]): row[at] for row in known}
            if len(rows) > 1:  # to compute a single one again takes less than its memory
                self._rounds[metric] = found
        return found

    def estimate(self, metric: str) -> Estimate | None:
        if is_percentile(metric):
            return self._percentiles.get(metric)
        values = list(self.rounds(metric).values())
        return estimate_mean(values, self.rule, self.stopped) if values else None

    @cached_property
    def _percentiles(self) -> Mapping[str, Estimate]:
        """Use the percentile of a single trial. Several trials need a histogram each; else the result is unknown."""
        found: dict[str, Estimate | None] = {}
        for side, asked in _percentiles_by_side(self.metrics).items():
            kept = self.histograms(side)
            if kept:
                percents = [PERCENTILES[_split(one)[1]] for one in asked]
                found |= zip(asked, estimated_percentiles(kept, percents, self.rule, self.stopped), strict=True)
            elif len(self.counted(asked[0])) == 1:
                found |= {one: Estimate(value, 1, None) for one in asked for value in self.rounds(one).values()}
        return {metric: one for metric, one in found.items() if one}

    def histograms(self, side: str) -> list[Histogram]:
        """Return the histograms of all trials with I/O in a direction, or an empty list if one lacks a histogram."""
        latencies = self.latencies or {}
        kept = [latencies.get((side, row[_ROUND])) for row in self.counted(f"{side}_lat_p50")]
        return [Histogram(one) for one in kept if one] if all(kept) else []


def kernels_of(several: Iterable[Samples]) -> set[str]:
    return {row[_KERNEL] for one in several for row in one.rows if row[_KERNEL]}


def samples_of(
    run: RunRow,
    cell: CellRow,
    metrics: tuple[str, ...],
    metric: str,
    values: Mapping[int, float | None],
    *,
    host_limited: bool,
) -> Samples:
    """Return samples of a figure that is computed from several trials. It also decides when to stop."""
    fixed = {"run": run.id, "cell": cell.id, "outcome": COUNTED[0], "lost": 0.0 if host_limited else None, WORK: 0}
    known = {"settled": 1, "spread": 0, "lost_processor": None}
    blank = dict.fromkeys(("reason", "kernel", "host"), "") | known | fixed
    by_round = (blank | {"round": at, metric: value, f"{SYNC}_bw": value} for at, value in values.items())
    return Samples(run, cell, metrics, [tuple(map(row.get, _columns(metrics))) for row in by_round])


@lru_cache
def _columns(metrics: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*_HEAD, *metrics, *map(_base, metrics))))


@lru_cache
def _positions(metrics: tuple[str, ...]) -> Mapping[str, int]:
    return {column: at for at, column in enumerate(_columns(metrics))}


@lru_cache
def _base(metric: str) -> str:
    """Return the figure whose trials count: a percentile is missing in trials with few requests."""
    return f"{_split(metric)[0]}_bw" if is_percentile(metric) else metric


def _percentiles_by_side(metrics: Iterable[str]) -> dict[str, list[str]]:
    return grouped((_split(one)[0], one) for one in metrics if is_percentile(one))


def mean_over_runs(several: Sequence[Samples], metric: str, rounds: Iterable[Mapping[int, float]]) -> float | None:
    """`rounds`: the values of the metric in each run."""
    values = [value for one in rounds for value in one.values()]
    if not is_percentile(metric):
        return fmean(values) if values else None
    side, name = _split(metric)
    if sum(len(one.counted(metric)) for one in several) == 1:
        return values[0] if values else None
    kept = [one.histograms(side) for one in several if one.counted(metric)]
    if not kept or not all(kept):
        return None
    whole = merge(histogram.unpack() for histograms in kept for histogram in histograms)
    return percentiles(whole, [PERCENTILES[name]])[0]


@dataclass(frozen=True, slots=True)
class CellSelection:
    ids: set[str]
    rules: Sequence[Mapping[str, frozenset[str]]] = ()

    def takes(self, cell: CellRow) -> bool:
        if cell.id not in self.ids or not self.rules:
            return cell.id in self.ids
        axes = with_aliases(cell.axes)
        return any(all(axes.get(axis) in allowed for axis, allowed in rule.items()) for rule in self.rules)


def read_samples(
    store: SharedStore,
    runs: Sequence[RunRow],
    metrics: Sequence[str],
    wanted: CellSelection | None = None,
    *,
    histograms: bool = True,
) -> list[Samples]:
    """Read trials by run, cells in the declared order. Without `histograms`, only single trials have percentiles."""
    return store.read_undamaged(lambda some: _read_samples(store, some, tuple(metrics), wanted, histograms), runs)


def _read_samples(
    store: SharedStore, runs: Sequence[RunRow], asked: tuple[str, ...], wanted: CellSelection | None, histograms: bool
) -> list[Samples]:
    by_id = {run.id: run for run in runs}
    ids = None if wanted is None else wanted.ids
    known = {(one.run, one.cell.id): one.cell for one in store.cells(by_id, ids)}
    rows = store.trials(_columns(asked), by_id, ids)
    latencies: Mapping[tuple[str, str], Mapping[tuple[str, int], bytes]] = {}
    if histograms and any(map(is_percentile, asked)):
        rows = iter([*rows])  # before their histograms: a run may add trials at any time
        latencies = _latencies(store, asked, by_id, ids)
    found = []
    for key, several in groupby(rows, key=itemgetter(_RUN, _CELL)):
        run, cell = by_id.get(key[0]), known.get(key)
        if run is not None and cell is not None and (wanted is None or wanted.takes(cell)):
            found.append(Samples(run, cell, asked, list(several), latencies.get(key)))
    place = {run.id: number for number, run in enumerate(runs)}
    return sorted(found, key=lambda one: (place[one.run.id], *declared_order(one.cell)))


def declared_order(cell: CellRow) -> tuple[Any, ...]:
    if cell.position is None:
        return inf, name_key(cell.name), cell.id
    return cell.position, (), cell.id  # to split 100,000 names takes a second


def _latencies(
    store: SharedStore, metrics: Sequence[str], runs: Collection[str], cells: Collection[str] | None
) -> Mapping[tuple[str, str], Mapping[tuple[str, int], bytes]]:
    found: dict[tuple[str, str], dict[tuple[str, int], bytes]] = {}
    for job, sides in grouped((split_column(side)[0], side) for side in _percentiles_by_side(metrics)).items():
        columns = [f"{split_column(side)[1]}_latencies" for side in sides]
        for run, cell, round_number, *packed in store.latencies(columns, job, runs, cells):
            of_cell = found.setdefault((run, cell), {})
            of_cell |= {(side, round_number): one for side, one in zip(sides, packed, strict=True) if one}
    return found
