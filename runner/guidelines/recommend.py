"""Which setting is best for some work, which others cannot be told apart from it, and what the rest would cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import geometric_mean
from typing import TYPE_CHECKING

from runner.base.errors import BadInput
from runner.guidelines.evaluate import Level
from runner.guidelines.pairing import kind_of
from runner.statistics.ratios import paired_ratio
from runner.statistics.trend import find_extreme

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from runner.guidelines.samples import Measured
    from runner.language.metrics import Metric
    from runner.statistics.ratios import Ratio

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


def to_choose_from(found: Sequence[Measured]) -> list[Measured]:
    """What somebody can choose: no faults, and no array that has lost a disk unless there are no others.

    BadInput where it is not said which faults are meant.
    """
    faults = sorted({one.cell.axes["faults"] for one in found if "faults" in one.cell.axes})
    if len(faults) > 1:
        raise BadInput(
            f"this was measured with different faults ({', '.join(faults)}), and nobody chooses those",
            resolution=f"say which are meant: --for 'faults={faults[0]}'",
        )
    return [one for one in found if _has_all_disks(one)] or list(found)


def _has_all_disks(one: Measured) -> bool:
    return all(value == "clean" for axis, value in one.cell.axes.items() if axis.endswith(".state"))


def recommended(
    found: Sequence[Measured], metric: Metric, confidence: float = 0.95, share: float = 1.0
) -> Recommendation:
    """What to take, by cells of one run; BadInput if nothing of it has the figure.

    `share`: so much of the stated chance of error is used, as where guidelines are judged.
    """
    having = [one for one in found if one.has(metric)]
    if not any(one.blocks(metric) for one in having):
        raise BadInput(f"nothing that was asked for has {metric.name}", resolution="--metric names another figure")
    settings = by_setting(having)
    works = {work for several in settings.values() for work in several}
    complete = {place: several for place, several in settings.items() if works == set(several)}
    ordered = best_first(complete, metric, Level(confidence, share=share).yes)
    if not ordered:
        raise BadInput(
            f"no setting has {metric.name} of all of this work in the same blocks",
            details=f"work: {'; '.join(sorted(map(_told, works)))}",
            resolution="narrow it with --for",
        )
    told = tuple(sorted(set(map(_name, having))))
    return Recommendation(metric, ordered, told, len(settings) - len(ordered), confidence)


def best_first(
    settings: Mapping[Places, Mapping[Places, Measured]], metric: Metric, sure: float
) -> tuple[Setting, ...]:
    """Order settings that did the same work by a figure; those without it are left out."""
    samples = {place: _together(several, metric) for place, several in settings.items()}
    samples = {place: sample for place, sample in samples.items() if sample}
    extreme = find_extreme(list(samples.values()), sure, lowest=not metric.more_is_better)
    if extreme is None:
        return ()
    places = list(samples)
    best = places[extreme.at]
    found = [
        _setting(place, settings[place], samples, best, sure, candidate=at in extreme.candidates)
        for at, place in enumerate(places)
    ]
    sign = -1 if metric.more_is_better else 1
    return tuple(sorted(found, key=lambda one: (one.places != best, sign * (one.ratio.ratio if one.ratio else 1.0))))


def by_setting(found: Sequence[Measured]) -> dict[Places, dict[Places, Measured]]:
    """What each setting did, by the work.

    Work on files and on devices is the same if it has one name, and all that both have in common is the same: how many
    files there are says nothing of devices. Unless that would be one name for several works of a setting.
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
    """What is set: the stack and its tunables."""
    return tuple((axis, value) for axis, value in one.cell.axes.items() if kind_of(axis) != "workload")


def _work(one: Measured, axes: Collection[str] | None = None) -> Places:
    """What is done there, as far as these axes tell."""
    done = ((axis, value) for axis, value in one.cell.axes.items() if kind_of(axis) == "workload")
    return tuple((axis, value) for axis, value in done if axes is None or axis in axes)


def _told(work: Places) -> str:
    return ", ".join(f"{axis.removeprefix('workload.')}={value}" for axis, value in work)


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
    ratio = None if place == best else paired_ratio(samples[best], samples[place], confidence)
    return Setting(
        place,
        tuple(one.cell.id for one in several.values()),
        geometric_mean(samples[place].values()),
        ratio,
        candidate,
        sum(one.strained for one in several.values()),
    )
