"""Which cells are measured on, so that guidelines are decided.

Whoever looks at a verdict after every trial and stops when there is one, stops above all when chance looked like one.
Two things keep that in bounds: it is looked seldom, at the minimum and then whenever there are half as many trials
again, and each look uses a part of the stated chance of error (`judge.SHARE`). Ten looks, which reach from 3 trials to
94, then err together as often as one look is allowed to; `bench.guidelines` shows how often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.guidelines.samples import of_cell
from runner.guidelines.verdict import Verdict
from runner.guidelines.verdicts import SHARE, judged
from runner.statistics.stopping import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.guidelines.verdicts import Judgement
    from runner.language.guidelines import Guideline
    from runner.results.record import CellRow, Trial

#: No cell is measured more often, whatever the budget.
MOST = 200
#: How cells are judged that stopped for what guidelines said, not for their own doubt.
UNWATCHED = Rule(1, MOST)


def looks(least: int) -> Iterator[int]:
    """After so many blocks it is looked."""
    blocks = max(least, 2)
    while blocks <= MOST:
        yield blocks
        blocks += max(1, blocks // 2)


class Steering:
    """Keeps what was measured, and says where more of it would decide something."""

    def __init__(self, guidelines: Sequence[Guideline], cells: Iterable[CellRow], least: int) -> None:
        self._open = list(guidelines)
        self._cells = {cell.id: cell for cell in cells}
        self._trials: dict[str, list[Trial]] = {}
        self._columns = {column for one in guidelines for column in one.claimed.figure.columns}
        self._looks = frozenset(looks(least))
        self._wanted: dict[str, float] = {}
        #: The block before which it was looked last.
        self._looked = 0

    @property
    def blocks(self) -> range:
        """At most so many, counted from 1."""
        return range(1, MOST + 1)

    def add(self, trial: Trial) -> None:
        """One more trial is recorded."""
        self._trials.setdefault(trial.cell, []).append(trial)

    def wanted(self, block: int) -> dict[str, float]:
        """The cells that are to be measured in a block, those that would soon decide something with the most weight.

        Nothing is left of it once all is decided, or nothing more can be. What the block itself adds changes nothing of
        that: a verdict given in its midst would be one more look. So whoever goes on after a kill looks as before.
        """
        if not self._looked or (block - 1 in self._looks and block != self._looked):
            self._looked = block
            undecided = [one for one in self._judged_before(block) if one.verdict is Verdict.INCONCLUSIVE]
            self._open = [one.guideline for one in undecided]
            self._wanted = _weighed(undecided)
        return self._wanted

    def _judged_before(self, block: int) -> list[Judgement]:
        found = (
            of_cell("", cell, self._before(block, id_), UNWATCHED, self._columns) for id_, cell in self._cells.items()
        )
        return judged(self._open, found, share=SHARE)

    def _before(self, block: int, cell: str) -> list[Trial]:
        """What a cell had when the block before was over."""
        return sorted((one for one in self._trials.get(cell, ()) if one.block < block), key=_block)


def _weighed(undecided: Iterable[Judgement]) -> dict[str, float]:
    """By cell, the weight of the guideline that would be decided first."""
    weights: dict[str, float] = {}
    for judgement in undecided:
        weight = 1 / (judgement.more or MOST)
        for answer in judgement.answers:
            if answer.verdict is not Verdict.INCONCLUSIVE:
                continue
            for cell in answer.question.cells:
                weights[cell] = max(weight, weights.get(cell, 0.0))
    return weights


def _block(trial: Trial) -> int:
    return trial.block
