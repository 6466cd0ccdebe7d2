"""Recommendation of the best setting for a workload, with those that are not distinguishable, and the cost of the
others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

from runner.base.errors import BadInput
from runner.guidelines.evaluate import Level
from runner.guidelines.samples import kind_of
from runner.statistics.changes import find_extreme
from runner.statistics.ratios import paired_ratio

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from runner.guidelines.samples import Measured
    from runner.language.metrics import Metric
    from runner.statistics.ratios import Ratio

Places = tuple[tuple[str, str], ...]


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
    """Return the possible choices: without faults, and without degraded arrays unless there are no others.

    Raise BadInput if the faults are ambiguous.
    """
    faults = sorted({one.cell.axes["faults"] for one in found if "faults" in one.cell.axes})
    if len(faults) > 1:
        raise BadInput(
            f"this was measured with different faults ({', '.join(faults)}), and a recommendation needs one of them",
            resolution=f"choose one: --for 'faults={faults[0]}'",
        )
    return [one for one in found if _has_all_disks(one)] or list(found)


def _has_all_disks(one: Measured) -> bool:
    return all(value == "clean" for axis, value in one.cell.axes.items() if axis.endswith(".state"))


def recommend_settings(
    found: Sequence[Measured], metric: Metric, confidence: float = 0.95, share: float = 1.0
) -> Recommendation:
    """Recommend settings from cells of one run. Raise BadInput if no cell has the figure.

    `share` is the used part of the error rate, as for guidelines.
    """
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
    return Recommendation(metric, ordered, names, len(settings) - len(ordered), confidence, _differences(works))


def _differences(works: Collection[Places]) -> tuple[str, ...]:
    """Return each workload by the axes in which they differ; empty for one workload."""
    if len(works) < 2:
        return ()
    common = set.intersection(*map(set, works))
    return tuple(sorted(_describe(tuple(place for place in work if place not in common)) for work in works))


def sort_by_figure(
    settings: Mapping[Places, Mapping[Places, Measured]], metric: Metric, sure: float
) -> tuple[Setting, ...]:
    """Order settings with the same workloads by a figure. Leave out those without it."""
    samples = {place: _together(several, metric) for place, several in settings.items()}
    samples = {place: sample for place, sample in samples.items() if sample}
    extreme = find_extreme(list(samples.values()), sure, lowest=not metric.more_is_better)
    if extreme is None:
        return ()
    places = list(samples)
    best = places[extreme.at]
    found = [
        _setting(
            place,
            settings[place],
            samples,
            best,
            sure,
            candidate=at in extreme.candidates,
            more_is_better=metric.more_is_better,
        )
        for at, place in enumerate(places)
    ]
    sign = -1 if metric.more_is_better else 1
    return tuple(sorted(found, key=lambda one: (one.places != best, *_behind(one, sign))))


def could_be_as_good(ratio: Ratio, lost_share: float, *, more_is_better: bool = True) -> bool:
    """Return whether a setting may be as good as the best on a host that does not slow it down.

    `ratio`: to the best. Without the share of its time that the host took, it could be 1 / (1 - share) times as good.
    """
    return ratio.high >= 1 - lost_share if more_is_better else ratio.low * (1 - lost_share) <= 1


def _behind(one: Setting, sign: int) -> tuple[bool, float]:
    return one.ratio is None, sign * (one.ratio.ratio if one.ratio else one.level)


def group_by_setting(found: Sequence[Measured]) -> dict[Places, dict[Places, Measured]]:
    """Group cells by setting and by workload.

    Workloads on files and on devices are equal if they have one name and agree on all common axes: the number of files
    means nothing for devices. They stay separate if one name would then cover several workloads of a setting.
    """
    common: dict[str, set[str]] = {}
    for one in found:
        axes = {axis for axis in one.cell.axes if kind_of(axis) == "workload"}
        common[_name(one)] = common.get(_name(one), axes) & axes
    keys = [(_set(one), _work(one, common[_name(one)])) for one in found]
    counts = Counter(keys)
    unclear = {_name(one) for one, key in zip(found, keys, strict=True) if counts[key] > 1}
    settings: dict[Places, dict[Places, Measured]] = {}
    for one, (setting, work) in zip(found, keys, strict=True):
        settings.setdefault(setting, {})[_work(one) if _name(one) in unclear else work] = one
    return settings


def _name(one: Measured) -> str:
    return one.cell.axes.get("workload", "")


def _set(one: Measured) -> Places:
    return tuple((axis, value) for axis, value in one.cell.axes.items() if kind_of(axis) != "workload")


def _work(one: Measured, axes: Collection[str] | None = None) -> Places:
    done = ((axis, value) for axis, value in one.cell.axes.items() if kind_of(axis) == "workload")
    return tuple((axis, value) for axis, value in done if axes is None or axis in axes)


def _describe(work: Places) -> str:
    return ", ".join(f"{axis.removeprefix('workload.')}={value}" for axis, value in work)


def _together(several: Mapping[Places, Measured], metric: Metric) -> dict[int, float]:
    """Return the figure by round; for several workloads the geometric mean, so that each has equal weight."""
    figures = [one.rounds(metric) for one in several.values()]
    shared = set.intersection(*(set(one) for one in figures))
    return {round_number: geometric_mean(one[round_number] for one in figures) for round_number in sorted(shared)}


def _setting(
    place: Places,
    several: Mapping[Places, Measured],
    samples: Mapping[Places, Mapping[int, float]],
    best: Places,
    confidence: float,
    *,
    candidate: bool,
    more_is_better: bool,
) -> Setting:
    ratio = None if place == best else paired_ratio(samples[best], samples[place], confidence)
    lost = max(one.lost_share for one in several.values())
    if ratio and lost:
        candidate |= could_be_as_good(ratio, lost, more_is_better=more_is_better)
    return Setting(
        place,
        tuple(one.cell.id for one in several.values()),
        geometric_mean(samples[place].values()),
        ratio,
        candidate,
        sum(one.host_limited for one in several.values()),
    )
