"""Trials as they are read from the store: by run and cell, with the figures that were asked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby
from math import inf
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.analysis.metrics import is_percentile
from runner.analysis.natural_sort import of_name
from runner.results.fio_json import PERCENTILES
from runner.results.record import Outcome
from runner.statistics.histogram import Histogram, merge
from runner.statistics.percentile import estimated_percentiles, percentiles
from runner.statistics.stopping import Estimate, Rule, StopReason, estimate_mean, stop_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from runner.analysis.selectors import Wanted
    from runner.results.record import CellRow
    from runner.results.store import RunRow, SharedStore

#: What is read of every trial besides figures; the rates are what cells are stopped by.
_HEAD = ("run", "cell", "block", "outcome", "reason", "kernel", "strained", "unsettled", "read_bw", "write_bw")
_RUN, _CELL, _BLOCK, _OUTCOME, _REASON, _KERNEL, _STRAINED, _UNSETTLED, _READ, _WRITE = range(len(_HEAD))
Row = tuple[Any, ...]
_MEASURED = Outcome.MEASURED.value
#: There is one for all cells of a run.
_rule = lru_cache(Rule)


class Sample(NamedTuple):
    """One trial. `values`: as many as were asked for, None where nothing was measured."""

    block: int
    outcome: str
    reason: str
    strained: bool
    unsettled: bool
    values: tuple[float | None, ...]


class _Seen(NamedTuple):
    """What there is to be told of the trials of a cell, whatever figure is asked for."""

    counts: Mapping[str, int]
    reasons: Sequence[str]
    kernels: Sequence[str]
    #: Those that have a say in figures.
    settled: Sequence[Row]
    strained: int
    unsettled: int


@dataclass(frozen=True)
class Samples:
    """The trials of one cell in one run, by block: rows as they were read, of which there may be a hundred thousand."""

    run: RunRow
    cell: CellRow
    metrics: tuple[str, ...]
    rows: Sequence[Row]
    #: How long requests took, by direction and block; only where percentiles were asked for.
    latencies: Mapping[tuple[str, int], bytes] = field(default_factory=dict)
    #: All of them, where these are what was chosen among them by outcome: the cell was not measured less often for it.
    among: Samples | None = None
    #: What each metric's trials have of it, once it was asked for: some are, again and again.
    _blocks: dict[str, Mapping[int, float]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def trials(self) -> list[Sample]:
        """They, one by one."""
        places = [self._at(metric) for metric in self.metrics]
        return [
            Sample(
                *(row[_BLOCK], row[_OUTCOME], row[_REASON]),
                *(bool(row[_STRAINED]), bool(row[_UNSETTLED])),
                tuple([row[at] for at in places]),
            )
            for row in self.rows
        ]

    def of_outcome(self, outcome: str) -> Samples:
        """Those trials alone that this became of."""
        return replace(self, rows=[row for row in self.rows if row[_OUTCOME] == outcome], among=self.among or self)

    def in_blocks(self, meant: Callable[[int], bool]) -> Samples:
        """Those trials alone that were done in such blocks."""
        return replace(self, rows=[row for row in self.rows if meant(row[_BLOCK])], among=self.among or self)

    def under(self, meant: Callable[[str], bool]) -> Samples:
        """Those trials alone that ran under such kernels."""
        return replace(self, rows=[row for row in self.rows if meant(row[_KERNEL])])

    @property
    def identities(self) -> Iterator[tuple[str, int]]:
        """Of its trials within the run."""
        return ((row[_CELL], row[_BLOCK]) for row in self.rows)

    @cached_property
    def _seen(self) -> _Seen:
        """All of that in one pass over the rows."""
        counts: dict[str, int] = {}
        reasons: dict[str, None] = {}
        kernels: set[str] = set()
        settled: list[Row] = []
        strained = unsettled = 0
        for row in self.rows:
            outcome = row[_OUTCOME]
            counts[outcome] = counts.get(outcome, 0) + 1
            if row[_REASON]:
                reasons[row[_REASON]] = None
            if row[_KERNEL]:
                kernels.add(row[_KERNEL])
            if row[_STRAINED]:
                strained += 1
            if outcome == _MEASURED:
                if row[_UNSETTLED]:
                    unsettled += 1
                else:
                    settled.append(row)
        return _Seen(counts, list(reasons), sorted(kernels), settled, strained, unsettled)

    @property
    def counts(self) -> Mapping[str, int]:
        """Trials by outcome."""
        return self._seen.counts

    @property
    def outcome(self) -> str:
        """The worst that became of a trial."""
        order = (Outcome.BROKEN, Outcome.MEASURED, Outcome.SKIPPED)
        return next((outcome for outcome in order if self.counts.get(outcome)), "")

    @property
    def reasons(self) -> Sequence[str]:
        """Why trials are broken or skipped, each once."""
        return self._seen.reasons

    @property
    def kernels(self) -> Sequence[str]:
        """Those that ran."""
        return self._seen.kernels

    @property
    def strained(self) -> int:
        """Trials in which the host could not keep up with modelled disks."""
        return self._seen.strained

    @property
    def unsettled(self) -> int:
        """Measured trials that never came to the steady state that was asked for."""
        return self._seen.unsettled

    def counted(self, metric: str) -> list[Row]:
        """The trials that a figure of the cell is of."""
        at = (_READ if metric.startswith("read") else _WRITE) if is_percentile(metric) else self._at(metric)
        return [row for row in self._seen.settled if row[at] is not None]

    def strained_of(self, metric: str) -> int:
        """So many of these are such that the host could not keep up."""
        return sum(bool(row[_STRAINED]) for row in self.counted(metric)) if self.strained else 0

    def _at(self, metric: str) -> int:
        return _columns(self.metrics).index(metric)

    @property
    def rule(self) -> Rule:
        """How long it was to be measured."""
        run = self.run
        most = len((self.among or self).rows) if run.most is None else run.most
        return _rule(run.least, most, run.until, run.confidence, run.finished, run.steered)

    @cached_property
    def stopped(self) -> StopReason:
        """Why no more trials follow."""
        return self.stopped_by(self.rule)

    def stopped_by(self, rule: Rule) -> StopReason:
        """The same by another rule than that of its matrix."""
        if self.among:
            return self.among.stopped_by(rule)
        rates: list[float] = []
        if rule.until is not None:  # or else nobody asks how well it is known
            rates = [(row[_READ] or 0.0) + (row[_WRITE] or 0.0) for row in self._seen.settled]
        return stop_reason(rates, len(self.rows), rule)

    def blocks(self, metric: str) -> Mapping[int, float]:
        """What the trials themselves have of a figure, by block."""
        found = self._blocks.get(metric)
        if found is None:
            at = self._at(metric)
            found = self._blocks[metric] = {row[_BLOCK]: row[at] for row in self._seen.settled if row[at] is not None}
        return found

    def estimate(self, metric: str) -> Estimate | None:
        """The mean of a figure, or a percentile of all requests, and its doubt; None where nothing was measured."""
        if is_percentile(metric):
            return self._percentiles.get(metric)
        values = list(self.blocks(metric).values())
        return estimate_mean(values, self.rule, self.stopped) if values else None

    @cached_property
    def _percentiles(self) -> Mapping[str, Estimate]:
        """Of a single trial its own will do; of several, of which not all have a histogram, nobody can tell."""
        found: dict[str, Estimate | None] = {}
        for side in ("read", "write"):
            asked = [one for one in self.metrics if is_percentile(one) and one.startswith(side)]
            kept = self.histograms(side) if asked else []
            if kept:
                percents = [PERCENTILES[one.partition("_")[2]] for one in asked]
                found |= zip(asked, estimated_percentiles(kept, percents, self.rule, self.stopped), strict=True)
            elif asked and len(self.counted(asked[0])) == 1:
                found |= {one: Estimate(value, 1, None) for one in asked for value in self.blocks(one).values()}
        return {metric: one for metric, one in found.items() if one}

    def histograms(self, side: str) -> list[Histogram]:
        """Of all trials that did I/O in a direction; of none, if one of them has no histogram."""
        kept = [self.latencies.get((side, row[_BLOCK])) for row in self.counted(f"{side}_lat_p50")]
        return [Histogram(one) for one in kept if one] if all(kept) else []


@lru_cache
def _columns(metrics: tuple[str, ...]) -> tuple[str, ...]:
    """Of a row, where these are asked for."""
    return (*_HEAD, *(metric for metric in metrics if metric not in _HEAD))


def together(several: Sequence[Samples], metric: str) -> float | None:
    """A figure of several runs of a cell; None where nobody can tell."""
    values = [value for one in several for value in one.blocks(metric).values()]
    if not is_percentile(metric):
        return fmean(values) if values else None
    side, _, name = metric.partition("_")
    if sum(len(one.counted(metric)) for one in several) == 1:
        return values[0] if values else None
    kept = [one.histograms(side) for one in several if one.counted(metric)]
    if not kept or not all(kept):
        return None
    whole = merge(histogram.unpack() for histograms in kept for histogram in histograms)
    return percentiles(whole, [PERCENTILES[name]])[0]


def read(
    store: SharedStore,
    runs: Sequence[RunRow],
    metrics: Sequence[str],
    wanted: Wanted | None = None,
    *,
    histograms: bool = True,
) -> list[Samples]:
    """All trials of these runs, and of these cells if any are named; runs as given, cells as declared.

    `histograms`: those of percentiles as well; without them, there are the trials' own alone.
    """
    by_id = {run.id: run for run in runs}
    ids = None if wanted is None else wanted.ids
    known = {(one.run, one.cell.id): one.cell for one in store.cells(by_id, ids)}
    asked = tuple(metrics)
    rows = store.trials(_columns(asked), by_id, ids)
    latencies = _latencies(store, asked, by_id, ids) if histograms else {}
    found = []
    for key, several in groupby(rows, key=itemgetter(_RUN, _CELL)):
        run, cell = by_id.get(key[0]), known.get(key)
        if run is not None and cell is not None and (wanted is None or wanted.takes(cell)):
            found.append(Samples(run, cell, asked, list(several), latencies.get(key, {})))
    place = {run.id: number for number, run in enumerate(runs)}
    # Equal cells are one object: there are as many orders as distinct ones.
    declared = {id(cell): _declared(cell) for cell in known.values()}
    return sorted(found, key=lambda one: (place[one.run.id], declared[id(one.cell)]))


def _declared(cell: CellRow) -> tuple[Any, ...]:
    """Cells of a run that is not known to have an order stand in that of their names."""
    return (inf if cell.position is None else cell.position, of_name(cell.name), cell.id)


def _latencies(
    store: SharedStore, metrics: Sequence[str], runs: Collection[str], cells: Collection[str] | None
) -> Mapping[tuple[str, str], Mapping[tuple[str, int], bytes]]:
    """By run and cell, of the directions of which percentiles are asked for."""
    sides = sorted({one.partition("_")[0] for one in metrics if is_percentile(one)})
    found: dict[tuple[str, str], dict[tuple[str, int], bytes]] = {}
    if sides:
        for run, cell, block, *packed in store.latencies([f"{side}_latencies" for side in sides], runs, cells):
            of_cell = found.setdefault((run, cell), {})
            of_cell |= {(side, block): one for side, one in zip(sides, packed, strict=True) if one}
    return found


def read_some(
    store: SharedStore, runs: Sequence[RunRow], metrics: Sequence[str], wanted: Wanted | None, least: int
) -> tuple[list[Samples], int]:
    """The same, but no more runs than it takes for so many cells; and in how many runs nobody looked."""
    found: list[Samples] = []
    for number, run in enumerate(runs):
        if len(found) > least:
            return found, len(runs) - number
        found += read(store, [run], metrics, wanted)
    return found, 0
