"""Selection of cells for more trials until guidelines are decided.

A test after every trial that stops at the first verdict stops too often by chance. Two rules limit this: looks are rare
(at the minimum, then whenever the number of trials has grown by half), and each look uses a part of the stated error
rate (`verdicts.SHARE`). Ten looks, from 3 to 94 trials, then err together as often as one look may; `bench.guidelines`
shows the rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.guidelines.samples import Verdict, measured_cell
from runner.guidelines.verdicts import SHARE, judge_guidelines
from runner.statistics.stopping import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.guidelines.verdicts import Judgement
    from runner.language.guidelines import Guideline
    from runner.results.record import CellRow, Trial

#: The most trials of a cell, for any budget.
MOST = 200
#: The stopping rule of cells that guidelines stop, not their own precision.
UNWATCHED = Rule(1, MOST)


def looks(least: int) -> Iterator[int]:
    rounds = max(least, 2)
    while rounds <= MOST:
        yield rounds
        rounds += max(1, rounds // 2)


class Steering:
    def __init__(self, guidelines: Sequence[Guideline], cells: Iterable[CellRow], least: int) -> None:
        self._open = list(guidelines)
        self._cells = {cell.id: cell for cell in cells}
        self._trials: dict[str, list[Trial]] = {}
        self._columns = {column for one in guidelines for column in one.claimed.figure.columns}
        self._looks = frozenset(looks(least))
        self._wanted: dict[str, float] = {}
        #: The round before which the last look took place.
        self._looked = 0

    @property
    def rounds(self) -> range:
        return range(1, MOST + 1)

    def add(self, trial: Trial) -> None:
        self._trials.setdefault(trial.cell, []).append(trial)

    def wanted(self, round_number: int) -> dict[str, float]:
        """Return the cells to measure in a round, with weights; the highest weight is closest to a verdict.

        Empty if all guidelines are decided or cannot be. Trials of the round itself do not count: a verdict in its
        midst would be one more look. So a resumed run decides as before.
        """
        if not self._looked or (round_number - 1 in self._looks and round_number != self._looked):
            self._looked = round_number
            undecided = [one for one in self._judged_before(round_number) if one.verdict is Verdict.INCONCLUSIVE]
            self._open = [one.guideline for one in undecided]
            self._wanted = _weighed(undecided)
        return self._wanted

    def _judged_before(self, round_number: int) -> list[Judgement]:
        found = (
            measured_cell("", cell, self._before(round_number, id_), UNWATCHED, self._columns)
            for id_, cell in self._cells.items()
        )
        return judge_guidelines(self._open, found, share=SHARE)

    def _before(self, round_number: int, cell: str) -> list[Trial]:
        return sorted((one for one in self._trials.get(cell, ()) if one.round < round_number), key=_round)


def _weighed(undecided: Iterable[Judgement]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for judgement in undecided:
        weight = 1 / (judgement.more or MOST)
        for answer in judgement.answers:
            if answer.verdict is not Verdict.INCONCLUSIVE:
                continue
            for cell in answer.question.cells:
                weights[cell] = max(weight, weights.get(cell, 0.0))
    return weights


def _round(trial: Trial) -> int:
    return trial.round
