"""Recommendation of the best setting for a workload, with those that may equal it, and the cost of the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

from runner.base.errors import BadInput
from runner.guidelines.evaluate import Level
from runner.guidelines.samples import Measured, kind_of
from runner.statistics.changes import find_extreme
from runner.statistics.ratios import Ratio, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from runner.language.metrics import Metric

Places = tuple[tuple[str, str], ...]
#: Cells by setting (a stack with its tunables) and by workload.
Settings = dict[Places, dict[Places, "Measured"]]


@dataclass(frozen=True, slots=True)
class Setting:
    places: Places
    cells: tuple[str, ...]
    level: float  # the figure of one workload, or the geometric mean over several
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

    @property
    def best(self) -> Setting:
        return self.settings[0]

    @property
    def level(self) -> list[Setting]:
        return [one for one in self.settings[1:] if one.candidate]


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
    found: Sequence[Measured], metric: Metric, confidence: float = 0.95, share: float = 1.0
) -> Recommendation:
    """Recommend settings from cells of one run. `share` is the used part of the error rate, as for guidelines."""
    having = [one for one in found if one.has(metric)]
    if not any(one.rounds(metric) for one in having):
        raise BadInput(f"no selected cell has {metric.name}", resolution="--metric names another figure")
    settings = group_by_setting(having)
    works = {work for several in settings.values() for work in several}
    complete = {place: several for place, several in settings.items() if works == set(several)}
    ordered = sort_by_figure(complete, metric, Level(confidence, share=share).yes)
    if not ordered:
        raise BadInput(
            f"no setting has {metric.name} of all these workloads in the same rounds",
            details=f"work: {'; '.join(sorted(map(_describe, works)))}",
            resolution="narrow it with --for",
        )
    names = tuple(sorted(set(map(_name, having))))
    common = set.intersection(*map(set, works))
    combined = sorted(_describe(tuple(place for place in work if place not in common)) for work in works)
    left_out = len(settings) - len(ordered)
    return Recommendation(metric, ordered, names, left_out, confidence, tuple(combined) if len(works) > 1 else ())


def sort_by_figure(settings: Settings, metric: Metric, sure: float) -> tuple[Setting, ...]:
    samples = {place: _together(several, metric) for place, several in settings.items()}
    samples = {place: sample for place, sample in samples.items() if sample}
    extreme = find_extreme(list(samples.values()), sure, lowest=not metric.more_is_better)
    if extreme is None:
        return ()
    best = list(samples)[extreme.at]
    found = []
    for at, (place, sample) in enumerate(samples.items()):
        cells = settings[place].values()
        ratio = None if place == best else paired_ratio(samples[best], sample, sure)
        candidate = at in extreme.candidates
        if ratio and (lost := max(one.lost_share for one in cells)):
            candidate |= could_be_as_good(ratio, lost, more_is_better=metric.more_is_better)
        ids, host_limited = tuple(one.cell.id for one in cells), sum(one.host_limited for one in cells)
        found.append(Setting(place, ids, geometric_mean(sample.values()), ratio, candidate, host_limited))
    sign = -1 if metric.more_is_better else 1

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


def _describe(work: Places) -> str:
    return ", ".join(f"{axis.removeprefix('workload.')}={value}" for axis, value in work)


def _together(several: Mapping[Places, Measured], metric: Metric) -> dict[int, float]:
    figures = [one.rounds(metric) for one in several.values()]
    shared = set.intersection(*(set(one) for one in figures))
    return {round_number: geometric_mean(one[round_number] for one in figures) for round_number in sorted(shared)}
