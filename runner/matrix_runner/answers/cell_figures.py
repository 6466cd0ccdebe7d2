"""The figures of a cell, summarised over its trials."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from matrix_runner.records.record import (
    CellRow,
    Outcome,
    Trial,
    count_measured,
    counted_trials,
    outcome_of_cell,
)
from matrix_runner.statistics.changes import LEAST_VALUES, States, find_two_states
from matrix_runner.statistics.percentile import estimated_percentiles
from matrix_runner.statistics.stopping import Estimate, Rule, StopReason, estimate_mean, stop_reason
from matrix_runner.work.fio.output import Direction, Figures
from matrix_runner.work.metrics import (
    ALL_SIDES,
    FLUSH,
    OF_A_SIDE,
    OF_SYNC,
    PERCENTILES,
    RATES,
    SIDES,
    SYNC,
    TOTAL,
    headline,
)

_MEASURES = tuple(one.name for one in OF_A_SIDE if one.mean)  # figures that are summarised by their mean over trials
METRICS: tuple[str, ...] = (
    *(f"{side}_{rate}" for rate in RATES for side in (*SIDES, TOTAL)),
    *(f"{side}_{one.name}" for one in OF_A_SIDE if one.is_summarised and one.better < 0 for side in SIDES),
    *(f"{SYNC}_{name}" for name in OF_SYNC),
    *(f"{FLUSH}_{one.name}" for one in OF_A_SIDE if one.is_summarised and not one.is_of_data),
)
#: Shared by cells, of which there may be 100,000.
NO_FIGURES: Mapping[str, Any] = MappingProxyType({})
_measures_of = attrgetter(*_MEASURES)
_BANDWIDTHS = tuple(f"{side}_bw" for side in (*SIDES, SYNC))


@dataclass(frozen=True, slots=True)
class CellFigures:
    cell: CellRow
    counts: Mapping[Outcome, int]
    reasons: tuple[str, ...]  # of broken and skipped trials, each once
    figures: Mapping[str, Estimate]  # by METRICS; without the directions that did no I/O
    least_ios: int | None = None  # fewest requests of a direction in a trial; None without measurements
    host_limited: int = 0  # trials in which the host could not keep up with its simulated disks
    processor_limited: int = 0  # those of them that mostly waited for a processor of the machine
    saturated: int = 0  # replays that fell behind their trace because of their disks
    unsettled: int = 0  # measured trials that did not reach the wanted steady state; the figures exclude them
    stopped: StopReason = StopReason.UNFINISHED  # why no more trials follow
    searched: bool = False  # a search chooses its trials
    states: Mapping[str, States] = field(default_factory=dict)  # bandwidths and p99 whose trials fall into two groups
    jobs: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)  # the figures of each job by its name

    @property
    def measured(self) -> int:
        return count_measured(self.counts)

    @property
    def outcome(self) -> Outcome | None:
        return outcome_of_cell(self.counts)

    @property
    def headline(self) -> str | None:
        return headline({name: one.mean for name, one in self.figures.items()})

    @property
    def is_needed(self) -> bool:
        """Return whether it has or awaits trials: a search decides without those of most cells."""
        return self.outcome is not None or not self.searched or self.stopped is not StopReason.DECIDED

    @property
    def text_without_trials(self) -> str:
        return "not yet run" if self.is_needed else "not needed"

    def reaches(self, until: float | None) -> bool | None:
        """Return whether the interval is as narrow as wanted; None: unknown. The rule for stopping is stricter."""
        total = self.figures.get(f"{SYNC}_bw") or self.figures.get("total_bw")
        if until is None or total is None or self.searched:
            return None
        return self.stopped is StopReason.PRECISE or (total.relative is not None and total.relative <= until)


@lru_cache(maxsize=4096)
def _counts(outcomes: tuple[Outcome, ...]) -> Mapping[Outcome, int]:
    return Counter(outcomes)


def summarize_cell(cell: CellRow, trials: Sequence[Trial], rule: Rule, *, searched: bool = False) -> CellFigures:
    rule = replace(rule, steered=True) if searched else rule
    measured = [figures for _, figures in counted_trials(trials)]
    how = stop_reason([figures.deciding_rate for figures in measured], len(trials), rule)
    values = _values(measured)
    names = dict.fromkeys(name for figures in measured for name in figures.jobs)
    by_job = {name: [figures.jobs[name] for figures in measured if name in figures.jobs] for name in names}
    return CellFigures(
        cell=cell,
        counts=_counts(tuple([trial.outcome for trial in trials])),
        reasons=tuple(dict.fromkeys(trial.reason for trial in trials if trial.reason)),
        figures=_estimates(measured, values, rule, how),
        jobs={name: _estimates(several, _values(several), rule, how) for name, several in by_job.items()} or NO_FIGURES,
        host_limited=sum(trial.facts.is_host_limited for trial in trials if trial.outcome.counts),
        processor_limited=sum(trial.facts.is_processor_limited for trial in trials if trial.outcome.counts),
        saturated=sum(trial.facts.saturated for trial in trials if trial.outcome.counts),
        unsettled=sum(not trial.facts.settled for trial in trials if trial.outcome.counts),
        stopped=how,
        searched=searched,
        states=_states(measured, values) or NO_FIGURES,
        least_ios=min((side.ios for one in measured for side in one.sides.values()), default=None),
    )


def _states(measured: Sequence[Figures], values: Mapping[str, Sequence[float]]) -> dict[str, States]:
    """Return the bandwidths and p99 whose trials fall into two separate groups."""
    if len(measured) < LEAST_VALUES:
        return {}
    found = {name: values.get(name, ()) for name in _BANDWIDTHS}
    for side in ALL_SIDES:
        directions: Iterable[Direction | None] = (getattr(figures, side) for figures in measured)
        found[f"{side}_lat_p99"] = [one.lat_p99 for one in directions if one and one.lat_p99 is not None]
    return {name: states for name, several in found.items() if (states := find_two_states(several))}


def _estimates(
    measured: Sequence[Figures], values: Mapping[str, Sequence[float]], rule: Rule, how: StopReason
) -> Mapping[str, Estimate]:
    known = {name: estimate_mean(several, rule, how) for name, several in values.items()}
    known |= _percentiles(measured, rule, how)
    return {name: known[name] for name in METRICS if name in known}


def _values(measured: Iterable[Figures]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for figures in measured:
        if figures.rebuild:
            for name in OF_SYNC:
                values.setdefault(f"{SYNC}_{name}", []).append(getattr(figures.rebuild, name))
        if figures.sides:
            values.setdefault("total_bw", []).append(figures.total_bw)
            values.setdefault("total_iops", []).append(figures.total_iops)
        for side, direction in figures.all_sides.items():
            for measure, value in zip(_MEASURES, _measures_of(direction), strict=True):
                if value is not None and not (side == FLUSH and measure == "bw"):
                    values.setdefault(f"{side}_{measure}", []).append(value)
    return values


def _percentiles(measured: Sequence[Figures], rule: Rule, how: StopReason) -> dict[str, Estimate]:
    found: dict[str, Estimate | None] = {}
    for side in ALL_SIDES:
        directions: list[Direction] = list(filter(None, (getattr(figures, side) for figures in measured)))
        histograms = [one.latencies for one in directions if one.latencies]
        if histograms and len(histograms) == len(directions):
            estimates = estimated_percentiles(histograms, [*PERCENTILES.values()], rule, how)
            found |= {f"{side}_{name}": one for name, one in zip(PERCENTILES, estimates, strict=True)}
        elif len(directions) == 1:
            own = ((name, getattr(directions[0], name)) for name in PERCENTILES)
            found |= {f"{side}_{name}": Estimate(value, 1, None) for name, value in own if value is not None}
    return {name: one for name, one in found.items() if one}
