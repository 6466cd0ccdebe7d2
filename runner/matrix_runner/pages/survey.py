"""One pass over the journal of a large run: it writes the CSV files and counts, with little memory for any run."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from matrix_runner.answers.cell_figures import CellFigures, summarize_cell
from matrix_runner.base.files import replacing
from matrix_runner.pages.concerns import ConcernCounter
from matrix_runner.pages.csv_columns import JOBS, SUMMARY, TRIALS
from matrix_runner.pages.csv_files import AT, COLUMNS, Lines, Row, figures_of, is_plain
from matrix_runner.pages.run_data import MOST_REASONS, RunData, Survey, Tally, without_gc
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Outcome, Trial

_AT_ONCE = 1000  # cells that are read at once


def read_trials(
    journal: Journal, cells: Sequence[CellRow]
) -> Iterator[tuple[Sequence[CellRow], dict[str, list[Trial]]]]:
    """Read some cells at a time, with the trials of each."""
    for start in range(0, len(cells), _AT_ONCE):
        several = cells[start : start + _AT_ONCE]
        yield several, _trials_of(journal, several)


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


@without_gc()
def survey(folder: Path, journal: Journal, part: RunData) -> Survey:
    """Write trials.csv, summary.csv and jobs.csv of all cells. `part` has the facts of the run."""
    has_jobs = journal.has_jobs()
    columns = {"trials.csv": TRIALS, "summary.csv": SUMMARY, **({"jobs.csv": JOBS} if has_jobs else {})}
    paths = tuple(folder / name for name in columns)
    with ExitStack() as opened:
        files = [opened.enter_context(replacing(path)) for path in paths]
        run = _Pass(journal, part, files)
        for file, of_file in zip(files, columns.values(), strict=True):
            _write(file, [run.lines.head(of_file)])
        for start in range(0, len(part.every), _AT_ONCE):
            run.read(part.every[start : start + _AT_ONCE])
    return Survey(
        tallies=run.tallies,
        last=run.last,
        concerns=run.concerns.concerns(),
        imprecise=run.imprecise,
        reasons=tuple(run.reasons),
        has_jobs=has_jobs,
        hosts=run.hosts,
        paths=paths,
    )


class _Pass:
    def __init__(self, journal: Journal, part: RunData, files: Sequence[BinaryIO]) -> None:
        self._journal, self._part, self._files = journal, part, files
        self.lines = Lines(part, part.every)
        self.tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
        self.concerns, self.imprecise, self.last = ConcernCounter(), list[str](), ""
        self.reasons: dict[str, None] = {}
        self.hosts = Counter[str]()

    def read(self, cells: Sequence[CellRow]) -> None:
        trials_file, summary_file, *jobs_file = self._files
        rows = self._journal.plain_rows(COLUMNS, {cell.id for cell in cells})
        by_cell = {cell: list(several) for cell, several in groupby(rows, key=itemgetter(0))}
        plain = {cell for cell, several in by_cell.items() if len(several) == 1 and is_plain(several[0])}
        plain = set() if jobs_file else plain
        others = _trials_of(self._journal, [cell for cell in cells if cell.id not in plain])
        trials, summary = list[str](), list[str]()
        for cell in cells:
            several, place = by_cell.get(cell.id, []), self.lines.place_of(cell)
            figures = [*map(figures_of, several)]
            trials += [self.lines.of_trial(place, *one) for one in zip(several, figures, strict=True)]
            if cell.id in plain:
                self._count_plain(cell, several[0])
                summary.append(self.lines.of_plain_cell(place, several[0], figures[0]))
            else:
                summary.append(self._of_cell(cell, others.get(cell.id, [])))
        _write(trials_file, trials)
        _write(summary_file, summary)
        self.hosts.update(host for row in rows if (host := row[AT["host"]]))
        self.last = max([self.last, *(row[AT["started"]] for row in rows)])
        for file in jobs_file:
            _write(file, (line for cell in cells for line in self.lines.of_jobs(cell, others.get(cell.id, []))))

    def _count_plain(self, cell: CellRow, row: Row) -> None:
        outcome, seconds, started = (row[AT[name]] for name in ("outcome", "seconds", "started"))
        self.tallies[cell.layout, cell.workload].add_single(Outcome(outcome), float(seconds), started)
        if self.lines.reaches(row) is False:
            self.imprecise.append(cell.name)

    def _of_cell(self, cell: CellRow, trials: Sequence[Trial]) -> str:
        found: CellFigures = summarize_cell(cell, trials, self._part.rule)
        self.tallies[cell.layout, cell.workload].add(cell.name, trials)
        self.concerns.add(cell.name, trials)
        if found.reaches(self._part.until) is False:
            self.imprecise.append(cell.name)
        if len(self.reasons) < MOST_REASONS:
            self.reasons |= dict.fromkeys(found.reasons)
        return self.lines.of_cell(found)


def _write(file: BinaryIO, lines: Iterable[str]) -> None:
    file.write("".join(lines).encode())
