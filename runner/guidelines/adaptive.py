"""Selection of cells for more trials until guidelines are decided.

A test after every trial would stop too often by chance. So looks are rare, and each uses a part of the error rate.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from runner.guidelines.samples import Verdict, measured_cell
from runner.guidelines.verdicts import SHARE, Judgement, judge_guidelines
from runner.statistics.stopping import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.language.guidelines import Guideline
    from runner.results.record import CellRow, Trial

MOST = 200  # the most trials of a cell, for any budget
UNWATCHED = Rule(1, MOST)  # the stopping rule of cells that guidelines stop, not their own precision


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
        """Return the cells to measure in a round, with weights. Its own trials do not count: that is one more look."""
        if not self._looked or (round_number - 1 in self._looks and round_number != self._looked):
            self._looked = round_number
            found = (
                measured_cell("", cell, self._before(round_number, id_), UNWATCHED, self._columns)
                for id_, cell in self._cells.items()
            )
            judged = judge_guidelines(self._open, found, share=SHARE)
            undecided = [one for one in judged if one.verdict is Verdict.INCONCLUSIVE]
            self._open = [one.guideline for one in undecided]
            self._wanted = _weighed(undecided)
        return self._wanted

    def _before(self, round_number: int, cell: str) -> list[Trial]:
        earlier = (one for one in self._trials.get(cell, ()) if one.round < round_number)
        return sorted(earlier, key=attrgetter("round"))


def _weighed(undecided: Iterable[Judgement]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for judgement in undecided:
        weight = 1 / (judgement.more or MOST)
        open_ = [one.question for one in judgement.answers if one.verdict is Verdict.INCONCLUSIVE]
        for cell in (cell for question in open_ for cell in question.cells):
            weights[cell] = max(weight, weights.get(cell, 0.0))
    return weights
