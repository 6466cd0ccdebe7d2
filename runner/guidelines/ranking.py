"""Ranking of the stacks of a run at each workload, with those that are as fast or may be."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite
from statistics import fmean
from typing import TYPE_CHECKING

from runner.guidelines.evaluate import Level
from runner.guidelines.recommend import could_be_as_good, group_by_setting, possible_choices, sort_by_figure
from runner.language.metrics import KNOWN, Metric, is_large

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.guidelines.recommend import Places, Setting, Settings
    from runner.guidelines.samples import Measured
    from runner.results.record import CellRow
    from runner.statistics.ratios import Ratio

EQUAL = 0.05  # differences up to this size count as equal
COLUMNS = ("read_bw", "write_bw", "read_iops", "write_iops")  # the figures that a ranking needs


class Standing(StrEnum):
    FASTEST = "fastest"
    EQUAL = "equal"
    UNDECIDED = "cannot tell"
    #: It is slower here, but the host slowed it down: it may be as fast on a faster host.
    HOST_LIMITED = "slower here, but host-limited"
    SLOWER = "slower"
    #: It has no round in common with the fastest one.
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, slots=True)
class Stack:
    cell: CellRow
    level: float  # the mean over its trials, as in tables
    standing: Standing
    behind: Ratio | None  # how many times as fast the fastest one is; None for itself, and without a common round
    #: The share of the time that it lost to a host too slow for its simulated disks; 0 if the host kept up.
    lost_share: float = 0.0
    #: How many times as fast the fastest one would be on a host that slows down neither; None if none is slowed down.
    corrected: tuple[float, float] | None = None

    @property
    def apart(self) -> float | None:
        """Return the largest difference from the fastest one within the interval (0.1: 10 %); None if unlimited."""
        if self.behind is None or not self.behind.low or not isfinite(self.behind.high):
            return None
        return max(self.behind.high, 1 / self.behind.low) - 1


@dataclass(frozen=True, slots=True)
class Ranking:
    metric: Metric
    stacks: tuple[Stack, ...]
    missing: tuple[CellRow, ...]  # cells without figures
    degraded: tuple[CellRow, ...]  # cells whose arrays have lost a disk, while others have all of theirs
    trials: int  # rounds behind the comparison that has the most
    confidence: float

    @property
    def fastest(self) -> Stack:
        return self.stacks[0]

    @property
    def compared(self) -> list[Stack]:
        return [one for one in self.stacks if one.standing is not Standing.NOT_COMPARED]

    @property
    def leaders(self) -> list[Stack]:
        return [one for one in self.compared if one.standing is not Standing.SLOWER]

    @property
    def slower(self) -> list[Stack]:
        return [one for one in self.stacks if one.standing is Standing.SLOWER]


def rank_stacks(found: Iterable[Measured], confidence: float = 0.95, share: float = 1.0) -> list[Ranking]:
    """Rank the stacks of one run by workload. `share` is the used part of the error rate, as for guidelines."""
    workloads: dict[tuple[str, Places], Settings] = {}
    for place, several in group_by_setting(list(found)).items():
        for work, one in several.items():
            workloads.setdefault((one.cell.axes.get("faults", ""), work), {})[place] = {work: one}
    rankings = (_ranking(settings, confidence, share) for settings in workloads.values())
    return [one for one in rankings if one and len(one.stacks) + len(one.missing) > 1]


def _ranking(declared: Settings, confidence: float, share: float) -> Ranking | None:
    kept = {one.cell.id for one in possible_choices([one for several in declared.values() for one in several.values()])}
    settings = {place: work for place, work in declared.items() if all(one.cell.id in kept for one in work.values())}
    cells = {one.cell.id: one for several in settings.values() for one in several.values()}
    metric = headline(cells.values())
    ordered = sort_by_figure(settings, metric, Level(confidence, share=share).yes)
    if not ordered:
        return None
    there = {cell for one in ordered for cell in one.cells}
    rounds = max((one.ratio.n_a for one in ordered if one.ratio), default=0)
    return Ranking(
        metric,
        tuple(_stack(one, ordered[0], cells, metric, fastest=rounds > 0 and one is ordered[0]) for one in ordered),
        tuple(one.cell for one in cells.values() if one.cell.id not in there),
        tuple(one.cell for place in declared if place not in settings for one in declared[place].values()),
        rounds,
        confidence,
    )


def headline(cells: Iterable[Measured]) -> Metric:
    bw, iops = (
        sum(value for one in cells for value in one.rounds(metric).values())
        for metric in (KNOWN["total.bw"], KNOWN["total.iops"])
    )
    return KNOWN["total.bw"] if is_large(bw, iops) else KNOWN["total.iops"]


def _stack(setting: Setting, best: Setting, cells: Mapping[str, Measured], metric: Metric, *, fastest: bool) -> Stack:
    behind = setting.ratio.inverse if setting.ratio else None
    one, first = cells[setting.cells[0]], cells[best.cells[0]]
    standing = Standing.FASTEST if fastest else _standing(setting, one.lost_share)
    corrected = _corrected(behind, one.lost_share, first.lost_share) if behind else None
    return Stack(one.cell, fmean(one.rounds(metric).values()), standing, behind, one.lost_share, corrected)


def _corrected(behind: Ratio, lost: float, lost_by_fastest: float) -> tuple[float, float] | None:
    """Widen the interval: a stack that lost a share of its time could be 1 / (1 - share) times as fast elsewhere."""
    if not lost and not lost_by_fastest:
        return None
    return behind.low * (1 - lost), behind.high / (1 - lost_by_fastest) if lost_by_fastest < 1 else inf


def _standing(setting: Setting, lost_share: float) -> Standing:
    """Call a stack slower only if the test of all stacks and the interval of the pair agree."""
    if setting.ratio is None:
        return Standing.NOT_COMPARED
    behind = setting.ratio.inverse
    equal = behind.low >= 1 / (1 + EQUAL) and behind.high <= 1 + EQUAL
    is_slower_here = behind.low > 1
    if lost_share and (equal or (is_slower_here and could_be_as_good(setting.ratio, lost_share))):
        return Standing.HOST_LIMITED
    if equal:
        return Standing.EQUAL
    return Standing.SLOWER if is_slower_here and not setting.candidate else Standing.UNDECIDED
