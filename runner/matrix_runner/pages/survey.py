"""One pass over the journal of a large run: it writes the CSV files and counts, with little memory for any run."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from matrix_runner.answers.cell_figures import CellFigures, summarize_cell
from matrix_runner.base.files import replacing
from matrix_runner.pages import csv_files
from matrix_runner.pages.concerns import ConcernCounter
from matrix_runner.pages.plain_csv import (
    COLUMNS,
    Place,
    PlainLines,
    Row,
    figures_of,
    host_of,
    is_plain,
    outcome_of,
    seconds_of,
    start_of,
)
from matrix_runner.pages.run_data import MOST_REASONS, RunData, Survey, Tally, without_gc
from matrix_runner.pages.table import BOOLS
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Trial

_AT_ONCE = 1000  # cells that are read at once


def read_trials(
    journal: Journal, cells: Sequence[CellRow]
) -> Iterator[tuple[Sequence[CellRow], dict[str, list[Trial]]]]:
    """Read some cells at a time, with the trials of each."""
    return ((several, _trials_of(journal, several)) for several in _batches(cells))


def every_summary(journal: Journal, recorded: RunData) -> Iterator[CellFigures]:
    """Return the summaries of all cells, also of those that the pages do not show."""
    if not recorded.part:
        yield from recorded.summaries
        return
    for cells, trials in read_trials(journal, recorded.every):
        yield from (summarize_cell(cell, trials.get(cell.id, []), recorded.rule) for cell in cells)


def _trials_of(journal: Journal, cells: Sequence[CellRow]) -> dict[str, list[Trial]]:
    found: dict[str, list[Trial]] = {}
    if cells:
        for trial in sorted(journal.trials_of_cells({cell.id for cell in cells}), key=lambda one: one.round):
            found.setdefault(trial.cell, []).append(trial)
    return found


def _batches(cells: Sequence[CellRow]) -> Iterator[Sequence[CellRow]]:
    return (cells[start : start + _AT_ONCE] for start in range(0, len(cells), _AT_ONCE))


@without_gc()
def survey(folder: Path, journal: Journal, part: RunData) -> Survey:
    """Write trials.csv, summary.csv and jobs.csv of all cells. `part` has the facts of the run."""
    with ExitStack() as files:
        run = _Pass(folder, files, journal, part)
        for cells in _batches(part.every):
            run.read(cells)
        return run.result()


class _Pass:
    def __init__(self, folder: Path, files: ExitStack, journal: Journal, part: RunData) -> None:
        self._journal, self._part = journal, part
        self._axes = csv_files.axis_names(part.every)
        self._shared = (part.machine, BOOLS[part.synthetic])
        self._plain = PlainLines(self._shared, part.confidence, part.until, part.rule)
        self._has_jobs = journal.has_jobs()
        names = ("trials.csv", "summary.csv", *(("jobs.csv",) if self._has_jobs else ()))
        self._paths = tuple(folder / name for name in names)
        self._trials, self._summary, *more = (files.enter_context(replacing(path)) for path in self._paths)
        self._jobs: BinaryIO | None = more[0] if more else None
        _write(self._trials, csv_files.as_lines([csv_files.trials_header(self._axes)]))
        _write(self._summary, csv_files.as_lines([csv_files.summary_header(self._axes)]))
        if self._jobs:
            _write(self._jobs, csv_files.as_lines([csv_files.jobs_header(self._axes)]))
        self._tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
        self._concerns, self._imprecise, self._last = ConcernCounter(), list[str](), ""
        self._reasons: dict[str, None] = {}
        self._hosts = Counter[str]()

    def read(self, cells: Sequence[CellRow]) -> None:
        rows = self._journal.plain_rows(COLUMNS, {cell.id for cell in cells})
        by_cell = {cell: list(several) for cell, several in groupby(rows, key=itemgetter(0))}
        plain = {cell for cell, several in by_cell.items() if len(several) == 1 and is_plain(several[0])}
        plain = set() if self._has_jobs else plain
        others = _trials_of(self._journal, [cell for cell in cells if cell.id not in plain])
        trials, summary = list[str](), list[str]()
        for cell in cells:
            several, place = by_cell.get(cell.id, []), self._plain.place_of(cell, self._axes)
            figures = [*map(figures_of, several)]
            trials += [self._plain.of_trial(place, *one) for one in zip(several, figures, strict=True)]
            if cell.id in plain:
                summary.append(self._of_plain_cell(cell, place, several[0], figures[0]))
            else:
                summary += csv_files.as_lines([self._of_cell(cell, others.get(cell.id, []))])
        _write(self._trials, trials)
        _write(self._summary, summary)
        self._hosts.update(filter(None, map(host_of, rows)))
        self._last = max([self._last, *map(start_of, rows)])
        if self._jobs:
            for cell in cells:
                where = csv_files.places_of(cell, self._axes)
                job_rows = csv_files.job_rows(cell, others.get(cell.id, []), self._shared, where)
                _write(self._jobs, csv_files.as_lines(job_rows))

    def _tally(self, cell: CellRow) -> Tally:
        return self._tallies[cell.layout, cell.workload]

    def _of_plain_cell(self, cell: CellRow, place: Place, row: Row, figures: str) -> str:
        self._tally(cell).add_single(outcome_of(row), seconds_of(row), start_of(row))
        if self._plain.reaches(row) is False:
            self._imprecise.append(cell.name)
        return self._plain.of_cell(place, row, figures)

    def _of_cell(self, cell: CellRow, trials: Sequence[Trial]) -> list[Any]:
        part = self._part
        found: CellFigures = summarize_cell(cell, trials, part.rule)
        self._tally(cell).add(cell.name, trials)
        self._concerns.add(cell.name, trials)
        if found.reaches(part.until) is False:
            self._imprecise.append(cell.name)
        if len(self._reasons) < MOST_REASONS:
            self._reasons |= dict.fromkeys(found.reasons)
        where = csv_files.places_of(cell, self._axes)
        return csv_files.summary_row(found, self._shared, where, part.confidence, part.until)

    def result(self) -> Survey:
        return Survey(
            tallies=self._tallies,
            last=self._last,
            concerns=self._concerns.concerns(),
            imprecise=self._imprecise,
            reasons=tuple(self._reasons),
            has_jobs=self._has_jobs,
            hosts=self._hosts,
            paths=self._paths,
        )


def _write(file: BinaryIO, lines: Iterable[str]) -> None:
    file.write("".join(lines).encode())
