"""`--confirm`: after the planned rounds, more rounds of the cells that are slower than the accepted level.

If that level is from another kernel, a second run measures them on it in the same rounds.
"""

from collections.abc import Callable, Collection, Mapping

from matrix_runner.language.matrix import Repeat
from matrix_runner.records.record import Trial

#: The further rounds are as many as the planned ones, at least so many: rounds until a verdict would err more often.
LEAST = 5


class Confirmation:
    """Chooses the cells of the further rounds, by one look at the planned ones."""

    ranking = ()

    def __init__(self, repeat: Repeat, find_slower: Callable[[], Mapping[str, float]]) -> None:
        self.least, self._planned = repeat.min, repeat.max
        self._find_slower = find_slower
        self._slower: Mapping[str, float] | None = None  # None: before the look
        self.beside = ""  # what else the further rounds measure

    @property
    def rounds(self) -> range:
        return range(1, self._planned + max(self._planned, LEAST) + 1)

    def add(self, trial: Trial) -> None:
        """The look reads the records of the run: it is the same after a kill."""

    def wanted(self, round_number: int) -> Mapping[str, float] | None:
        """Return the slower cells, with the logarithms of the differences as weights; None: a planned round."""
        if round_number <= self._planned:
            return None
        if self._slower is None:
            self._slower = self._find_slower()
        return self._slower

    def reason(self) -> str:
        count = len(self._slower or ())
        which = "1 cell is" if count == 1 else f"{count} cells are"
        return f"{which} slower than the accepted level{self.beside}" if count else ""


class OnOldKernel:
    """Chooses the cells of the second run: those of the further rounds whose level is from its kernel."""

    least, ranking = 0, ()

    def __init__(self, first: Confirmation, cells: Collection[str]) -> None:
        self.rounds = first.rounds
        self._first, self._cells = first, cells

    def add(self, trial: Trial) -> None:
        """Its trials decide nothing here."""

    def wanted(self, round_number: int) -> Mapping[str, float]:
        wanted = self._first.wanted(round_number) or {}
        return {cell: weight for cell, weight in wanted.items() if cell in self._cells}

    def reason(self) -> str:
        return self._first.reason()
