"""Writes every report file of a run folder: `junit.xml`, CSV files, the answer and the pages.

The CSV files of a large run come from one pass over its journal, with little memory for any run."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby
from math import inf
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from matrix_runner.answers.axes import grouped
from matrix_runner.answers.cell_figures import CellFigures, summarize_cell
from matrix_runner.base.errors import MatrixError
from matrix_runner.base.files import RECORDED, replacing, write_atomically
from matrix_runner.language.find import Find
from matrix_runner.pages.answer import full_answer
from matrix_runner.pages.csv_files import (
    AT,
    COLUMNS,
    JOBS,
    SUMMARY,
    TRIALS,
    Lines,
    Row,
    figures_of,
    found_csv,
    is_plain,
    jobs_csv,
    summary_csv,
    trials_csv,
)
from matrix_runner.pages.junit import junit
from matrix_runner.pages.pts import PRESET, rounds_csv
from matrix_runner.pages.run_data import MOST_REASONS, RunData, Survey, choose_part, without_gc
from matrix_runner.pages.table import as_csv
from matrix_runner.pages.use import choose_trials
from matrix_runner.pages.verdicts import verdict_rows
from matrix_runner.records.cell_files import CellFiles, open_files
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.records.run_folder import RunFolder
from matrix_runner.records.usage import OF_FIO, SAMPLES, SIMULATED, Usage, usage
from matrix_runner.work.profilers import PROFILED, PROFILERS, profile_file
from matrix_runner.work.pts.output import ROUNDS, TESTS

#: Reports that a run may have or not: those that the last report does not write are removed. An older `rounds.csv`
#: stays, because it may be all that is left of lost raw outputs.
_OPTIONAL = ("jobs.csv", "found.csv", "verdicts.csv", "answer.txt", "next.yaml")
_OF_MANIFEST = (
    *("matrix", "machine", "synthetic", "confidence", "until", "least", "most", "steered", "losses", "stacks"),
    *("weights", "practical", "archived"),
)
_OLDER_ROUNDS = f"{ROUNDS} is of an earlier report"
#: A run of more cells is large: its pages show a part of them.
MOST_CELLS = 10_000
MOST_SHOWN = 2_000  # cells of that part
_MOST_OUTPUTS = RECORDED  # bytes of raw outputs that reports read; one may have as many


@without_gc()
def load_run_data(run: RunFolder, journal: Journal, *, over: bool) -> RunData:
    """Load a run. Of a large one, load the trials of a part of its cells."""
    cells, found = journal.cells(), dict[str, Any]()
    found |= {name: getattr(run.manifest, name) for name in _OF_MANIFEST}
    found["emulated"] = any(tools.get("accel") == "tcg" for tools in run.manifest.versions.values())
    found["designed"] = bool(run.manifest.requested.design)
    found["raced"] = run.manifest.requested.race is not None
    found["finds"] = {name: Find.model_validate(find) for name, find in run.manifest.finds.items()}
    needs_all = found["finds"] or any(cell.axes.get(PRESET) in TESTS for cell in cells)  # searches and tests of SNIA
    part = choose_part(cells, MOST_SHOWN) if len(cells) > MOST_CELLS and not needs_all else None
    if part:
        cells, trials = list(part.cells), journal.trials_of_cells({cell.id for cell in part.cells})
        found |= {"part": part, "most": found["most"] or journal.most_trials_of_a_cell()}
    else:
        trials = list(journal.trials())
    recorded = RunData(**found, cells=cells, trials=trials, attempts=journal.attempts(), over=over)
    return _with_outputs(recorded, run)


def _with_outputs(recorded: RunData, run: RunFolder) -> RunData:
    """Add what only raw outputs have. All figures are in the journal, so a damaged archive costs no figure."""
    cells, trials = recorded.cells, recorded.trials
    try:
        with open_files(run) as files:
            outputs = _Outputs(files)
            profiled = [cell.id for cell in cells if "workload.profile" in cell.axes]
            courses = _texts(outputs, "profile.csv", profiled, (trial for trial in trials if trial.counted))
            tested = [cell.id for cell in cells if cell.axes.get(PRESET) in TESTS]
            rounds = _texts(outputs, ROUNDS, tested, (trial for trial in trials if trial.outcome.counts))
            used, profiles = _usage(outputs, cells, trials), _profiles(outputs, cells, trials)
    except MatrixError as error:
        if not run.manifest.archived:
            raise
        older = f"; {_OLDER_ROUNDS}" if (run.path / ROUNDS).exists() else ""
        unread = f"{error.brief}: the reports lack what only it has, such as the use of disks{older}"
        return replace(recorded, unread=unread)
    missing = not any(rounds.values()) and (run.path / ROUNDS).exists()
    lost = f"the raw outputs of its tests are missing; {_OLDER_ROUNDS}" if missing else ""
    unread = "; ".join(filter(None, (outputs.unread, lost)))
    return replace(recorded, courses=courses, rounds=rounds, usage=used, profiles=profiles, unread=unread)


class _Outputs:
    """Raw outputs of trials, up to a size: they have no limit of their own, and become objects."""

    def __init__(self, files: CellFiles) -> None:
        self._files, self._left = files, _MOST_OUTPUTS
        self.unread = ""

    def read(self, path: str) -> bytes | None:
        text = self._files.read(path)
        size = len(text or b"")
        if size > self._left:
            self.unread = f"the reports lack raw outputs: {path} is too large, or all together are"
            return None
        self._left -= size
        return text


def _texts(files: _Outputs, name: str, cells: Iterable[str], trials: Iterable[Trial]) -> dict[str, dict[int, str]]:
    """Return a file of these trials of some cells, by cell and round."""
    found: dict[str, dict[int, str]] = {cell: {} for cell in cells}
    for trial in trials if found else ():
        if trial.cell in found and (text := files.read(f"{trial.folder}/{name}")):
            found[trial.cell][trial.round] = text.decode()
    return found


def _profiles(files: _Outputs, cells: Sequence[CellRow], trials: Sequence[Trial]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for cell, trial in choose_trials(cells, [one for one in trials if PROFILED in one.notes]):
        texts = {name: files.read(f"{trial.folder}/{profile_file(name)}") for name in PROFILERS}
        found[cell.name] = {name: text.decode(errors="replace") for name, text in texts.items() if text}
    return found


def _usage(files: _Outputs, cells: Sequence[CellRow], trials: Sequence[Trial]) -> dict[str, Usage]:
    found: dict[str, Usage] = {}
    for cell, trial in choose_trials(cells, trials):
        names = (SAMPLES, SIMULATED) if trial.folder else ()
        texts = {name: text for name in names if (text := files.read(f"{trial.folder}/{name}")) is not None}
        if texts:
            if "fs.type" in cell.axes and (text := files.read(f"{trial.folder}/{OF_FIO}")):
                texts[OF_FIO] = text
            decoded = {name: text.decode(errors="replace") for name, text in texts.items()}
            runtime = trial.counted.runtime if trial.counted else inf
            used = usage(decoded, trial.readings, trial.facts.slow, runtime)
            found[cell.id] = replace(used, is_host_limited=trial.facts.is_host_limited)
    return found


def rendered(content: RunData) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Make one report after the other, the largest by lines: those of a large run would need much memory."""
    if not content.survey:  # which writes them too
        for name, lines in (("trials.csv", trials_csv(content)), ("summary.csv", summary_csv(content))):
            yield name, (line.encode() for line in lines)
    for name, whole in _short(content):
        yield name, [whole]


def _short(content: RunData) -> Iterator[tuple[str, bytes]]:
    yield "junit.xml", junit(content)
    if not content.survey and (jobs := jobs_csv(content)):
        yield "jobs.csv", jobs.encode()
    if rounds := rounds_csv(content):
        yield ROUNDS, rounds.encode()
    if found := found_csv(content):
        yield "found.csv", found.encode()
    if content.judgements:
        yield "verdicts.csv", as_csv(verdict_rows(content.judgements))
    if content.rankings:
        text = full_answer(
            content.rankings,
            content.decision,
            synthetic=content.synthetic,
            over=content.over,
            part=content.part.text if content.part else "",
        )
        yield "answer.txt", text.encode()
    for one in content.added:
        yield from one.files.items()


def write_reports(run: RunFolder, content: RunData) -> list[Path]:
    from matrix_runner.pages import explore, html  # bring templates and tables along

    with without_gc():
        paths = [*(content.survey.paths if content.survey else ())]
        paths += [_put(run.reports / name, parts) for name, parts in rendered(content)]
    for name in _OPTIONAL:
        if run.reports / name not in paths:
            (run.reports / name).unlink(missing_ok=True)
    # The pages are last, so that an error in them does not prevent the files for programs.
    paths.append(_put(run.reports / "report.html", [html.page(content, run.manifest, run.path.name)]))
    title = f"{content.matrix} on {content.machine}"
    path = run.reports / "explore.html"
    library = explore.shared_library(path, run.path.parent)
    parts = explore.parts_of_page([explore.explored(content, run.path.name)], title, report=True, library=library)
    return [*paths, _put(path, parts)]


def _put(path: Path, parts: Iterable[bytes]) -> Path:
    write_atomically(path, parts)
    return path


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
    trials = journal.trials_of_cells({cell.id for cell in cells}) if cells else ()
    return grouped((trial.cell, trial) for trial in sorted(trials, key=attrgetter("round")))


@without_gc()
def survey(folder: Path, journal: Journal, part: RunData) -> Survey:
    """Write trials.csv, summary.csv and jobs.csv of all cells. `part` has the facts of the run."""
    has_jobs = journal.has_jobs()
    columns = {"trials.csv": TRIALS, "summary.csv": SUMMARY, **({"jobs.csv": JOBS} if has_jobs else {})}
    found = Survey(has_jobs, tuple(folder / name for name in columns))
    with ExitStack() as opened:
        files = [opened.enter_context(replacing(path)) for path in found.paths]
        run = _Pass(journal, part, files, found)
        for file, of_file in zip(files, columns.values(), strict=True):
            _write(file, [run.lines.head(of_file)])
        for start in range(0, len(part.every), _AT_ONCE):
            run.read(part.every[start : start + _AT_ONCE])
    return found


class _Pass:
    def __init__(self, journal: Journal, part: RunData, files: Sequence[BinaryIO], found: Survey) -> None:
        self._journal, self._part, self._files, self._found = journal, part, files, found
        self.lines = Lines(part, part.every)

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
        self._found.hosts.update(host for row in rows if (host := row[AT["host"]]))
        self._found.last = max([self._found.last, *(row[AT["started"]] for row in rows)])
        for file in jobs_file:
            _write(file, (line for cell in cells for line in self.lines.of_jobs(cell, others.get(cell.id, []))))

    def _count_plain(self, cell: CellRow, row: Row) -> None:
        outcome, seconds, started = (row[AT[name]] for name in ("outcome", "seconds", "started"))
        self._found.tallies[cell.layout, cell.workload].add_single(Outcome(outcome), float(seconds), started)
        if self.lines.reaches(row) is False:
            self._found.imprecise.append(cell.name)

    def _of_cell(self, cell: CellRow, trials: Sequence[Trial]) -> str:
        found: CellFigures = summarize_cell(cell, trials, self._part.rule)
        self._found.tallies[cell.layout, cell.workload].add(cell.name, trials)
        self._found.concerns.add(cell.name, trials)
        if found.reaches(self._part.until) is False:
            self._found.imprecise.append(cell.name)
        if len(self._found.reasons) < MOST_REASONS:
            self._found.reasons |= dict.fromkeys(found.reasons)
        return self.lines.of_cell(found)


def _write(file: BinaryIO, lines: Iterable[str]) -> None:
    file.write("".join(lines).encode())
