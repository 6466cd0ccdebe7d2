"""Which setting is best for some work, which others cannot be told apart from it, and what the rest would cost."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

from runner.errors import BadInput
from runner.guidelines.contexts import kind_of
from runner.stats.axis import highest
from runner.stats.compare import paired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from runner.guidelines.measured import Measured
    from runner.model.metrics import Metric
    from runner.stats.compare import Ratio

Places = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """A stack with its tunables, and what it did: the cells of all the work that was asked for."""

    places: Places
    cells: tuple[str, ...]
    #: The figure of a single workload, the geometric mean of several.
    level: float
    #: It, as a part of the best one; None of the best itself, and where they share no block.
    ratio: Ratio | None
    #: Whether it may be the best one in truth.
    candidate: bool
    #: Trials in which the host could not keep up with modelled disks.
    strained: int = 0


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Settings, the best first; and those of which something was not measured."""

    metric: Metric
    settings: tuple[Setting, ...]
    workloads: tuple[str, ...]
    left_out: int
    confidence: float

    @property
    def best(self) -> Setting:
        """The one that looks best."""
        return self.settings[0]

    @property
    def level(self) -> list[Setting]:
        """Others that cannot be told apart from it."""
        return [one for one in self.settings[1:] if one.candidate]


def recommended(found: Sequence[Measured], metric: Metric, confidence: float = 0.95) -> Recommendation:
    """What to take, by cells of one run; BadInput if nothing of it has the figure."""
    by_setting: dict[Places, dict[Places, Measured]] = {}
    for one in found:
        if one.has(metric):
            setting, work = _parted(one.cell.axes)
            by_setting.setdefault(setting, {})[work] = one
    works = {work for several in by_setting.values() for work in several}
    samples = {setting: _together(several, metric) for setting, several in by_setting.items() if works == set(several)}
    samples = {setting: sample for setting, sample in samples.items() if sample}
    if not samples:
        raise BadInput(f"nothing that was asked for has {metric.name}", resolution="--metric names another figure")
    places = list(samples)
    extreme = highest(list(samples.values()), confidence, lowest=not metric.more_is_better)
    assert extreme is not None  # noqa: S101 - there are samples, and only positive figures are looked at
    best = places[extreme.at]
    settings = [
        _setting(place, by_setting[place], samples, best, confidence, candidate=at in extreme.candidates)
        for at, place in enumerate(places)
    ]
    sign = -1 if metric.more_is_better else 1
    ordered = sorted(settings, key=lambda one: (one.places != best, sign * (one.ratio.ratio if one.ratio else 1.0)))
    told = tuple(sorted({dict(work).get("workload", "") for work in works}))
    return Recommendation(metric, tuple(ordered), told, len(by_setting) - len(samples), confidence)


def _parted(axes: Mapping[str, str]) -> tuple[Places, Places]:
    """What is set, and what is done there."""
    work = tuple((axis, value) for axis, value in axes.items() if kind_of(axis) == "workload")
    return tuple(one for one in axes.items() if one not in work), work


def _together(several: Mapping[Places, Measured], metric: Metric) -> dict[int, float]:
    """The figure by block; of several workloads the geometric mean, so that each counts alike."""
    figures = [one.blocks(metric) for one in several.values()]
    shared = set.intersection(*(set(one) for one in figures))
    return {block: geometric_mean(one[block] for one in figures) for block in sorted(shared)}


def _setting(
    place: Places,
    several: Mapping[Places, Measured],
    samples: Mapping[Places, Mapping[int, float]],
    best: Places,
    confidence: float,
    *,
    candidate: bool,
) -> Setting:
    ratio = None if place == best else paired(samples[best], samples[place], confidence)
    return Setting(
        place,
        tuple(one.cell.id for one in several.values()),
        geometric_mean(samples[place].values()),
        ratio,
        candidate,
        sum(one.strained for one in several.values()),
    )
