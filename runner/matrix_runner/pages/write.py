"""Writes every report file of a run folder: `junit.xml`, CSV files, the answer and the pages."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

from matrix_runner.base.errors import MatrixError
from matrix_runner.base.files import RECORDED, write_atomically
from matrix_runner.language.find import Find
from matrix_runner.pages.answer import full_answer
from matrix_runner.pages.csv_files import found_csv, jobs_csv, summary_csv, trials_csv
from matrix_runner.pages.junit import junit
from matrix_runner.pages.pts import PRESET, rounds_csv
from matrix_runner.pages.run_data import RunData, choose_part, without_gc
from matrix_runner.pages.table import as_csv
from matrix_runner.pages.use import choose_trials
from matrix_runner.pages.verdicts import verdict_rows
from matrix_runner.records.cell_files import CellFiles, open_files
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Trial
from matrix_runner.records.run_folder import RunFolder
from matrix_runner.records.usage import OF_FIO, SAMPLES, SIMULATED, Usage, usage
from matrix_runner.work.pts.output import ROUNDS, TESTS

#: Reports that a run may have or not: those that the last report does not write are removed. An older `rounds.csv`
#: stays, because it may be all that is left of lost raw outputs.
_OPTIONAL = ("jobs.csv", "found.csv", "verdicts.csv", "answer.txt", "next.yaml")
_OF_MANIFEST = (
    *("matrix", "machine", "synthetic", "confidence", "until", "least", "most", "steered", "losses", "stacks"),
    *("weights", "archived"),
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
            used = _usage(outputs, cells, trials)
    except MatrixError as error:
        if not run.manifest.archived:
            raise
        older = f"; {_OLDER_ROUNDS}" if (run.path / ROUNDS).exists() else ""
        unread = f"{error.brief}: the reports lack what only it has, such as the use of disks{older}"
        return replace(recorded, unread=unread)
    missing = not any(rounds.values()) and (run.path / ROUNDS).exists()
    lost = f"the raw outputs of its tests are missing; {_OLDER_ROUNDS}" if missing else ""
    unread = "; ".join(filter(None, (outputs.unread, lost)))
    return replace(recorded, courses=courses, rounds=rounds, usage=used, unread=unread)


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


@without_gc()
def render_reports(content: RunData) -> dict[str, bytes]:
    return {name: b"".join(parts) for name, parts in rendered(content)}


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
        paths += [_put(run.path / name, parts) for name, parts in rendered(content)]
    for name in _OPTIONAL:
        if run.path / name not in paths:
            (run.path / name).unlink(missing_ok=True)
    # The pages are last, so that an error in them does not prevent the files for programs.
    paths.append(_put(run.path / "report.html", [html.page(content, run.manifest, run.path.name)]))
    title = f"{content.matrix} on {content.machine}"
    path = run.path / "explore.html"
    library = explore.shared_library(path, run.path.parent)
    parts = explore.parts_of_page([explore.explored(content, run.path.name)], title, report=True, library=library)
    return [*paths, _put(path, parts)]


def _put(path: Path, parts: Iterable[bytes]) -> Path:
    write_atomically(path, parts)
    return path
