"""History of figures over all runs: series by cell and place, their changes of level, and the alarms among them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from math import exp, log
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from matrix_runner.answers.alarms import Cause, find_causes
from matrix_runner.answers.axes import grouped, name_key
from matrix_runner.answers.selectors import accepted_factor, baseline_of, changes_of, runs_of_baseline
from matrix_runner.answers.stored_samples import Samples, is_compared, more_is_faster, rates_of
from matrix_runner.statistics.changes import Change, History, read_history

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix_runner.language.references import Baseline, KnownChange
    from matrix_runner.records.record import CellRow
    from matrix_runner.records.store import RunRow
    from matrix_runner.statistics.stopping import Estimate

#: With other hardware, a host of the same name is another host.
_HARDWARE = re.compile(r"host\.(cpu|cores)|disk\d+\.(serial|model)")
#: Steps of one cause are found in the same night, or a few nights apart.
_NIGHTS_APART = 2


@dataclass(frozen=True, slots=True)
class Point:
    samples: Samples
    estimate: Estimate


class Step(NamedTuple):
    at: int  # the first run of the lower level
    move: float  # the logarithm of its speed
    certain: bool


@dataclass(frozen=True)
class Series:
    cell: CellRow
    metric: str
    machine: str
    host: str
    synthetic: bool
    points: Sequence[Point]
    history: History
    speeds: Sequence[float] = ()  # logarithms, without accepted changes; empty if a value is not positive
    known: Sequence[KnownChange] = ()  # the accepted changes of the last run

    @property
    def changes(self) -> Sequence[Change]:
        return self.history.changes

    def _level(self, begin: int, end: int | None) -> float:
        return fmean(self.speeds[begin:end])

    @property
    def step(self) -> Step | None:
        """Return the first step to a lower level of which more than half is left."""
        places = [change.at for change in self.changes]
        for number, change in enumerate(self.changes):
            before = self._level(places[number - 1] if number else 0, change.at)
            after = self._level(change.at, places[number + 1] if number + 1 < len(places) else None)
            if after < before and self._level(places[-1], None) < (before + after) / 2:
                return Step(change.at, after - before, change.certain)
        return None

    @property
    def drift(self) -> float | None:
        """Return the logarithm of the speed at the end, if a straight line leads down to it."""
        trend = self.history.trend
        speed = (log(trend) if more_is_faster(self.metric) else -log(trend)) if trend else 0.0
        return speed if speed < 0 else None

    @property
    def gone(self) -> list[KnownChange]:
        """Return the accepted changes of which the last level has lost more than half."""
        if not self.changes or not self.speeds:
            return []
        moved = self._level(self.changes[-1].at, None) - self._level(0, self.changes[0].at)
        return [one for one in self.known if moved / -log(one.change) > 1 / 2]


@dataclass(frozen=True, slots=True)
class HistoryAlarm:
    """Series that became slower together, by a step or by a drift."""

    series: Sequence[Series]  # the strongest first
    cause: Cause
    speed: float  # how many times as fast as before, on average
    first: RunRow | None  # the first slower run; None: a drift

    @property
    def name(self) -> str:
        return self.cause.name(self.series[0].cell.name)


@dataclass(frozen=True, slots=True)
class Level:
    """The accepted level: runs of baselines, and changes."""

    baselines: Sequence[Baseline] = ()
    changes: Sequence[KnownChange] = field(default=())


def timelines(found: Sequence[Samples], metrics: Sequence[str], level: Level | None = None) -> list[Series]:
    """Return the series. One with a baseline begins with it. Changes are searched without those that are accepted."""
    level = level or Level()
    ordered = sorted(_since_baselines(found, level.baselines), key=lambda one: (one.run.started, one.run.id))
    by_place = grouped(((one.cell.id, *_place(one.run)), one) for one in ordered)
    series = []
    for several in by_place.values():
        for metric in metrics or rates_of(several):
            points = [Point(one, estimate) for one in several if (estimate := one.estimate(metric))]
            if points:
                series.append(_series(points, metric, level.changes))
    return sorted(series, key=lambda one: (name_key(one.cell.name), one.cell.id, one.machine, one.host, one.metric))


def _place(run: RunRow) -> tuple[object, ...]:
    hardware = sorted(fact for fact in run.environment.items() if _HARDWARE.fullmatch(fact[0]))
    return run.machine, run.host, run.synthetic, tuple(hardware)


def _since_baselines(found: Sequence[Samples], baselines: Sequence[Baseline]) -> list[Samples]:
    runs = {one.run.id: one.run for one in found}.values()
    begins: dict[str, str] = {}
    for run in runs if baselines else ():
        baseline = baseline_of(run, baselines)
        named = runs_of_baseline(baseline, runs) if baseline else []
        begins[run.id] = min((one.started for one in named if one.machine == run.machine), default="")
    return [one for one in found if one.run.started >= begins.get(one.run.id, "")]


def _series(points: Sequence[Point], metric: str, changes: Sequence[KnownChange]) -> Series:
    run, cell = points[-1].samples.run, points[-1].samples.cell  # the latest name
    sign = 1 if more_is_faster(metric) or not is_compared(metric) else -1
    means = [point.estimate.mean / accepted_factor(changes, point.samples.run, cell.axes) ** sign for point in points]
    weekdays = [date.fromisoformat(point.samples.run.started[:10]).weekday() for point in points]
    is_positive = min(means) > 0
    history = read_history(means, weekdays) if is_positive else History()
    speeds = [sign * log(mean) for mean in means] if is_positive else []
    known = changes_of(changes, run, cell.axes)
    return Series(cell, metric, run.machine, run.host, run.synthetic, points, history, speeds, known)


def find_history_alarms(series: Sequence[Series]) -> list[HistoryAlarm]:
    """Return steps to a lower level and drifts, one alarm for each cause, the strongest of each night first."""
    found = []
    compared = [one for one in series if is_compared(one.metric)]
    for several in grouped((_place(one.points[-1].samples.run), one) for one in compared).values():
        steps = {id(one): step for one in several if (step := one.step)}
        for nights in _close_nights([one for one in several if id(one) in steps], several):
            moves = [steps[id(one)].move for one in nights]
            alarms = _alarms(nights, moves, [one for one in several if not one.changes], is_step=True)
            # A step that alone may be chance joins a certain one.
            found += [alarm for alarm in alarms if any(steps[id(one)].certain for one in alarm.series)]
        drifts = [one for one in several if one.drift]
        others = [one for one in several if not one.drift]
        found += _alarms(drifts, [one.drift or 0.0 for one in drifts], others, is_step=False)
    return found


def _close_nights(moved: Sequence[Series], every: Sequence[Series]) -> list[list[Series]]:
    starts = sorted({point.samples.run.started for one in every for point in one.points})
    place = {started: at for at, started in enumerate(starts)}
    keyed = sorted(((place[_first(one).started], at) for at, one in enumerate(moved)))
    groups: list[list[Series]] = []
    last = -len(starts)
    for night, at in keyed:
        if night - last > _NIGHTS_APART:
            groups.append([])
        groups[-1].append(moved[at])
        last = night
    return groups


def _first(one: Series) -> RunRow:
    return one.points[one.step.at if one.step else 0].samples.run


def _alarms(
    moved: Sequence[Series], moves: Sequence[float], others: Sequence[Series], *, is_step: bool
) -> list[HistoryAlarm]:
    places = [(one.cell.axes, move) for one, move in zip(moved, moves, strict=True)]
    there = {one.cell.id for one in moved}  # another figure of such a cell may be as before
    return [
        HistoryAlarm(
            [moved[at] for at in cause.members],
            cause,
            exp(fmean(moves[at] for at in cause.members)),
            _first(moved[cause.members[0]]) if is_step else None,
        )
        for cause in find_causes(places, [one.cell.axes for one in others if one.cell.id not in there])
    ]
