"""A race: beyond the minimum, only stacks that may still be the best of a workload are measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from matrix_runner.answers.ranking import EQUAL, columns_of, headline, stack_name, stacks_by_workload
from matrix_runner.answers.samples import Measured, measured_cell
from matrix_runner.answers.verdicts import MOST, UNWATCHED
from matrix_runner.base.findings import few
from matrix_runner.statistics.race import error_of_pair, simulate, stand

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matrix_runner.records.record import CellRow, Trial


TIMES = 100  # simulated races
_MOST_BEHIND = 0.5  # stacks of a simulated race are up to so far behind


class RaceForecast(NamedTuple):
    trials: int  # the mean
    most: int  # 95 % of races need at most these
    unraced: int  # every cell for as many rounds


def forecast(sizes: Iterable[int], least: int, noise: float, confidence: float) -> RaceForecast:
    """Simulate races of so many stacks each, whose rates are drawn at random and scatter by a share."""
    import numpy as np

    totals, unraced = np.zeros(TIMES), np.zeros(TIMES)
    for heat, size in enumerate(sizes):
        for time in range(TIMES):
            chance = np.random.default_rng([heat, size, time])
            truth = np.log(1 - chance.uniform(0, _MOST_BEHIND, size))
            logs = truth[:, None] + noise * chance.standard_normal((size, MOST))
            ended = simulate(logs, least, confidence, EQUAL)
            totals[time] += ended.trials
            unraced[time] += ended.rounds * size
    return RaceForecast(round(totals.mean()), round(float(np.quantile(totals, 0.95))), round(unraced.mean()))


@dataclass
class _Heat:
    """The race of the stacks at one workload."""

    cells: list[CellRow]
    running: dict[str, float] = field(default_factory=dict)  # cells to measure, with weights
    out: set[str] = field(default_factory=set)
    over: bool = False  # decided, or no more rounds could decide it


class Race:
    def __init__(self, cells: Iterable[CellRow], least: int, confidence: float) -> None:
        found = (Measured("", cell) for cell in cells)
        heats = ([one.cell for one in several.values()] for several in stacks_by_workload(found))
        self._heats = [_Heat(several) for several in heats if len(several) > 1]
        self.least, self._confidence = least, confidence
        self._trials: dict[str, list[Trial]] = {}
        self._looked = 0  # the round before which the last look took place
        self._left: list[str] = []  # what left the race before the last round

    @property
    def rounds(self) -> range:
        return range(1, MOST + 1)

    @property
    def is_empty(self) -> bool:
        return not self._heats

    @property
    def sizes(self) -> list[int]:
        """Return the number of stacks at each workload."""
        return [len(heat.cells) for heat in self._heats]

    def add(self, trial: Trial) -> None:
        self._trials.setdefault(trial.cell, []).append(trial)

    def wanted(self, round_number: int) -> dict[str, float]:
        """Return the cells to measure in a round, the nearest to the best with the largest weight."""
        self._look(round_number)
        return {cell: weight for heat in self._heats for cell, weight in heat.running.items()}

    def reason(self) -> str:
        """Return why another round follows, with the stacks that left the race before it."""
        return "; ".join(["the race is not decided yet", *self._left])

    def _look(self, round_number: int) -> None:
        if round_number <= self._looked:
            return
        self._looked, self._left = round_number, []
        for heat in (one for one in self._heats if not one.over):
            if gone := self._update(heat, round_number):
                running = len(heat.cells) - len(heat.out)
                self._left.append(f"out for {heat.cells[0].work}: {few(gone)}, {running} left")

    def _update(self, heat: _Heat, round_number: int) -> list[str]:
        found = [
            measured_cell("", cell, self._before(cell, round_number), UNWATCHED, columns_of(cell))
            for cell in heat.cells
        ]
        metric = headline(found)
        standings = stand([one.rounds(metric) for one in found], self._confidence, lowest=not metric.more_is_better)
        if standings is None:
            heat.over, heat.running = True, {}
            return []
        running = {found[place].cell.id: place for place in standings.candidates}
        there = {one.cell.id for one in found if one.rounds(metric)}
        gone = [one.cell for one in found if one.cell.id in there - running.keys() - heat.out]
        heat.out |= {cell.id for cell in gone}
        error = error_of_pair(len(found), self._confidence)
        heat.over = standings.is_decided(EQUAL) or standings.is_hopeless(EQUAL, MOST, error)
        ahead = standings.ahead
        weights = {id_: 1 / one.ratio if (one := ahead[place]) else 1.0 for id_, place in running.items()}
        heat.running = {} if heat.over else weights
        return [stack_name(cell) for cell in gone]

    def _before(self, cell: CellRow, round_number: int) -> list[Trial]:
        return [one for one in self._trials.get(cell.id, ()) if one.round < round_number]
