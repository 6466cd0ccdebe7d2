"""Results of searches (`find:`) of several runs, as cells with one figure. They come from the folders of the runs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from matrix_runner.answers.knee import Found
from matrix_runner.answers.selectors import CellSelection, select_cells
from matrix_runner.answers.stored_samples import Samples, read_samples, samples_of
from matrix_runner.base.errors import BadInput
from matrix_runner.records.run_folder import load
from matrix_runner.work.metrics import FOUND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matrix_runner.answers.knee import Knee
    from matrix_runner.records.store import RunRow, SharedStore

_COLUMNS = tuple(column for one in FOUND.values() for column in one.columns)


@dataclass(frozen=True)
class Reader:
    """Reads samples of selected cells, or of searches if the metrics are theirs."""

    store: SharedStore
    metrics: tuple[str, ...]
    results: Path
    cell: str | None = None
    only: Sequence[str] = ()

    def read(self, runs: Sequence[RunRow], *, histograms: bool = True) -> list[Samples]:
        if not self.is_of_searches:
            return self._read(runs, self._chosen, histograms=histograms)
        if others := [one for one in self.metrics if one not in _COLUMNS]:
            raise BadInput(
                f"a search has no {others[0]}", resolution="name figures of searches alone: found_iops or found_bw"
            )
        return read_searches(runs, self.results, cell=self.cell, only=self.only)

    def _read(self, runs: Sequence[RunRow], chosen: CellSelection | None, *, histograms: bool = True) -> list[Samples]:
        return read_samples(self.store, runs, self.metrics, chosen, histograms=histograms)

    def read_first(self, runs: Sequence[RunRow], most: int) -> tuple[list[Samples], tuple[int, int]]:
        """Return the samples of the first cells, `most` or more, and how many cells and runs are left."""
        found: list[Samples] = []
        left = 0
        for number, run in enumerate(runs):
            if len(found) + left > most:
                return found, (left, len(runs) - number)
            cells, count = self._first_cells(run, max(1, most - len(found)))
            found += self.read([run]) if cells is None else self._read([run], CellSelection(set(cells)))
            left += 0 if cells is None else count - len(cells)
        return found, (left, 0)

    def _first_cells(self, run: RunRow, most: int) -> tuple[Sequence[str] | None, int]:
        chosen = self.is_of_searches or self.cell or self.only
        return (None, 0) if chosen else self.store.first_cells(run.id, most)

    @property
    def is_of_searches(self) -> bool:
        return not {*self.metrics}.isdisjoint(_COLUMNS)

    @cached_property
    def _chosen(self) -> CellSelection | None:
        return select_cells(self.cell, self.only, self.store.different_cells() if self.cell or self.only else ())


def read_searches(
    runs: Sequence[RunRow], results: Path, *, cell: str | None = None, only: Sequence[str] = ()
) -> list[Samples]:
    found = [one for run in runs for one in _searches_of(run, results / run.name)]
    chosen = select_cells(cell, only, [one.cell for one in found]) if found else None
    return [one for one in found if chosen is None or chosen.takes(one.cell)]


def _searches_of(run: RunRow, folder: Path) -> Iterator[Samples]:
    if not (folder / "manifest.json").is_file() or not (loaded := load(folder)).manifest.finds:
        return
    from matrix_runner.pages.write import load_run_data  # slow to import, and most results are not of searches
    from matrix_runner.records.journal import Journal

    with Journal.existing(loaded.journal) as journal:
        knees = load_run_data(loaded, journal, over=run.finished).knees
    yield from (_samples(run, one) for one in knees if one.found is not Found.UNKNOWN)


def _samples(run: RunRow, knee: Knee) -> Samples:
    """Return the work of a search by round. A limit that is above or below the axis is no figure."""
    column = next(one for one in _COLUMNS if one.endswith(knee.search.find.metric.name.rpartition(".")[2]))
    values = knee.values if knee.found is Found.BETWEEN else dict.fromkeys(knee.values)
    return samples_of(run, knee.search.row, _COLUMNS, column, values, host_limited=bool(knee.host_limited))
