"""Runs in the store: samples of their cells and searches (`find:`), and guidelines on them.

A search is a cell with one figure, which comes from the folder of its run.
"""

import csv
import io
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from matrix_runner.answers.axes import is_workload_axis
from matrix_runner.answers.cell_figures import Measured
from matrix_runner.answers.knee import Found, Knee
from matrix_runner.answers.selectors import select_cells
from matrix_runner.answers.stored_samples import CellSelection, Samples, read_samples, samples_of
from matrix_runner.answers.verdicts import SHARE, UNWATCHED, Judgement, judge_guidelines
from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import RECORDED, read_input
from matrix_runner.language.guidelines import Guideline
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import round_of
from matrix_runner.records.run_folder import Manifest, load
from matrix_runner.records.store import RunRow, SharedStore
from matrix_runner.space.load import Declared, parse
from matrix_runner.work.metrics import FOUND


def columns_of(guidelines: Iterable[Guideline]) -> list[str]:
    """Return the columns of trials that they need. The result of a search is not such a column."""
    figures = (one.claimed.figure for one in guidelines if one.claimed.metric not in FOUND)
    return list(dict.fromkeys(column for figure in figures for column in figure.columns))


def read_for(
    guidelines: Sequence[Guideline], store: SharedStore, runs: Sequence[RunRow], results: Path, only: Sequence[str] = ()
) -> list[Samples]:
    """Read what guidelines need: cells, and searches if a guideline is about them."""
    cells = select_cells(None, only, store.different_cells() if only else ())
    found = read_samples(store, runs, columns_of(guidelines), cells)
    searched = any(one.claimed.metric in FOUND for one in guidelines)
    return [*found, *(read_searches(runs, results, only=only) if searched else ())]


def judged_in_store(guidelines: Sequence[Guideline], found: Sequence[Samples]) -> list[Judgement]:
    synthetic = {one.run.synthetic for one in found}
    if len(synthetic) > 1:
        raise BadInput(
            "some of these runs are synthetic, from the dry machine",
            resolution="name only measured runs, or only synthetic ones",
        )
    return judge_guidelines(guidelines, map(as_measured, found), synthetic=True in synthetic, share=share_of(found))


def share_of(found: Iterable[Samples]) -> float:
    """Return the part of the error rate for each look at a verdict: smaller if guidelines steered trials."""
    return SHARE if any(one.run.steered for one in found) else 1.0


def as_measured(samples: Samples) -> Measured:
    """Return a cell of a run with the stopping rule of the run. Steered runs do not use the rule of the matrix."""
    rule = UNWATCHED if samples.run.steered else samples.rule
    return Measured(
        samples.run.id,
        samples.cell,
        {column: samples.rounds(column) for column in samples.metrics},
        rule,
        samples.stopped_by(rule),
        samples.measured,
        samples.host_limited,
        samples.lost_share,
    )


def read_verdicts(folder: Path) -> dict[str, dict[str, str]]:
    """Return the last row of each guideline in the verdicts of a run; none if the file is missing or was edited."""
    try:
        text = read_input(folder / "verdicts.csv", RECORDED).decode()
        rows = csv.DictReader(io.StringIO(text, newline=""))
        return {row["guideline"]: row for row in rows if row["verdict"]}
    except (OSError, ValueError, KeyError, csv.Error):
        return {}


def declared_by(manifest: Manifest) -> Declared:
    def used(name: str) -> str:
        return _used_file(name, manifest.used)

    return parse("matrix.yaml", manifest.text, used, bytes_of=lambda name: used(name).encode())


def _used_file(name: str, files: Mapping[str, str]) -> str:
    """Return the content of a used file. The end of its path identifies it."""
    plain = re.sub(r"^(\.\./)+", "", posixpath.normpath(name))
    # Shipped files may have another path today.
    for ending in (plain, "/".join(plain.split("/")[-2:])):
        for path, text in files.items():
            if path == ending or path.endswith(f"/{ending}"):
                return text
    raise FileNotFoundError(name)


_OF_SEARCHES = tuple(column for one in FOUND.values() for column in one.columns)


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
        if others := [one for one in self.metrics if one not in _OF_SEARCHES]:
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
            first = partial(self._first_cells, most=max(1, most - len(found)))
            for cells, count in self.store.read_undamaged(first, [run]):
                found += self.read([run]) if cells is None else self._read([run], CellSelection(set(cells)))
                left += 0 if cells is None else count - len(cells)
        return found, (left, 0)

    def _first_cells(self, runs: Sequence[RunRow], most: int) -> list[tuple[Sequence[str] | None, int]]:
        chosen = self.is_of_searches or self.cell or self.only
        return [(None, 0) if chosen else self.store.first_cells(run.id, most) for run in runs]

    @property
    def is_of_searches(self) -> bool:
        return not {*self.metrics}.isdisjoint(_OF_SEARCHES)

    @cached_property
    def _chosen(self) -> CellSelection | None:
        return select_cells(self.cell, self.only, self.store.different_cells() if self.cell or self.only else ())


def read_searches(
    runs: Sequence[RunRow], results: Path, *, cell: str | None = None, only: Sequence[str] = ()
) -> list[Samples]:
    known = ((run, knee) for run in runs for knee in knees_of(run, results / run.name))
    found = [_search_samples(run, knee) for run, knee in known if knee.found is not Found.UNKNOWN]
    chosen = select_cells(cell, only, [one.cell for one in found]) if found else None
    return [one for one in found if chosen is None or chosen.takes(one.cell)]


def knees_of(run: RunRow, folder: Path) -> Sequence[Knee]:
    """Return the results of the searches of a run, from its folder."""
    if not (folder / "manifest.json").is_file() or not (loaded := load(folder)).manifest.finds:
        return ()
    from matrix_runner.pages.write import load_run_data  # slow to import, and most results are not of searches

    with Journal.existing(loaded.journal) as journal:
        return load_run_data(loaded, journal, over=run.finished).knees


def measured_again(one: Measured, knees: Sequence[Knee]) -> Measured | None:
    """Return the trials of a cell that a search for the best value reports; None if it reports none."""
    owner = next((knee for knee in knees if one.cell in knee.search.cells), None)
    if owner is None:
        return one
    if is_workload_axis(owner.search.find.axis) and one.cell != owner.recommended:
        return None  # settings are compared at their best work
    columns = {
        column: {block: value for block, value in values.items() if round_of(block) > owner.explored}
        for column, values in one.columns.items()
    }
    return replace(one, columns=columns) if any(columns.values()) else None


def _search_samples(run: RunRow, knee: Knee) -> Samples:
    """Return the work of a search by round. A limit that is above or below the axis is no figure."""
    column = next(one for one in _OF_SEARCHES if one.endswith(knee.search.find.metric.name.rpartition(".")[2]))
    values = knee.values if knee.found.is_figure else dict.fromkeys(knee.values)
    return samples_of(run, knee.search.row, _OF_SEARCHES, column, values, host_limited=bool(knee.host_limited))
