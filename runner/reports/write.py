"""Reports from the journal of a run to files in its folder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runner.base.files import write_atomically
from runner.language.find import Find
from runner.language.pts import TESTS
from runner.reports.answer import full_answer
from runner.reports.csv_files import found_csv, jobs_csv, summary_csv, trials_csv
from runner.reports.junit import junit
from runner.reports.pts import PRESET, rounds_csv
from runner.reports.run_data import RunData
from runner.reports.speed import without_gc
from runner.reports.table import as_csv
from runner.reports.use import choose_trials
from runner.reports.verdicts import verdict_rows
from runner.results.pts_output import ROUNDS
from runner.results.record import SLOW, Outcome
from runner.results.usage import SAMPLES, SIMULATED, usage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runner.results.journal import Journal
    from runner.results.record import CellRow, Trial
    from runner.results.run_folder import RunFolder
    from runner.results.usage import Usage


@without_gc()
def load_run_data(run: RunFolder, journal: Journal, *, over: bool) -> RunData:
    cells, trials = journal.cells(), list(journal.trials())
    courses = _courses(run.path, cells, trials)
    rounds = _rounds(run.path, cells, trials)
    fields = ("matrix", "machine", "synthetic", "confidence", "until", "least", "most", "steered", "losses")
    from_manifest = {name: getattr(run.manifest, name) for name in fields}
    from_manifest["finds"] = {name: Find.model_validate(find) for name, find in run.manifest.finds.items()}
    used = _usage(run.path, cells, trials)
    attempts = journal.attempts()
    recorded = RunData(**from_manifest, cells=cells, trials=trials, attempts=attempts, over=over)
    return replace(recorded, courses=courses, rounds=rounds, usage=used)


def _courses(folder: Path, cells: Sequence[CellRow], trials: Sequence[Trial]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {cell.id: [] for cell in cells if "workload.profile" in cell.axes}
    for trial in trials:
        path = folder / trial.folder / "profile.csv"
        if trial.cell in found and trial.counted and path.is_file():
            found[trial.cell].append(path.read_text(encoding="utf-8"))
    return found


def _usage(folder: Path, cells: Sequence[CellRow], trials: Sequence[Trial]) -> dict[str, Usage]:
    found: dict[str, Usage] = {}
    for cell, several in choose_trials(cells, trials):
        trial = several[len(several) // 2]
        paths = [folder / trial.folder / name for name in (SAMPLES, SIMULATED)] if trial.folder else []
        files = {path.name: path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file()}
        if files:
            found[cell.id] = usage(files, trial.readings, int(trial.notes.get(SLOW, 1)))
    return found


def _rounds(folder: Path, cells: Sequence[CellRow], trials: Sequence[Trial]) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {cell.id: {} for cell in cells if cell.axes.get(PRESET) in TESTS}
    for trial in trials:
        path = folder / trial.folder / ROUNDS
        if trial.cell in found and trial.outcome is Outcome.MEASURED and path.is_file():
            found[trial.cell][trial.round] = path.read_text(encoding="utf-8")
    return found


@without_gc()
def render_reports(content: RunData) -> dict[str, bytes]:
    verdicts = {"verdicts.csv": as_csv(verdict_rows(content.judgements))} if content.judgements else {}
    answer = {}
    if content.rankings:
        text = full_answer(content.rankings, content.losses, synthetic=content.synthetic, over=content.over)
        answer = {"answer.txt": text.encode()}
    return {
        "junit.xml": junit(content),
        "trials.csv": trials_csv(content).encode(),
        "summary.csv": summary_csv(content).encode(),
        **({"jobs.csv": jobs.encode()} if (jobs := jobs_csv(content)) else {}),
        **({ROUNDS: rounds.encode()} if (rounds := rounds_csv(content)) else {}),
        **({"found.csv": found.encode()} if (found := found_csv(content)) else {}),
        **verdicts,
        **answer,
        **{name: text for one in content.added for name, text in one.files.items()},
    }


def write_reports(run: RunFolder, content: RunData) -> list[Path]:
    from runner.reports import explore, html  # bring templates and tables along

    paths = [_put(run.path / name, text) for name, text in render_reports(content).items()]
    # The pages are last, so that an error in them does not prevent the files for programs.
    paths.append(_put(run.path / "report.html", html.page(content, run.manifest, run.path.name)))
    title = f"{content.matrix} on {content.machine}"
    page = explore.page([explore.explored(content, run.path.name)], title, report=True)
    return [*paths, _put(run.path / "explore.html", page)]


def _put(path: Path, content: bytes) -> Path:
    write_atomically(path, content)
    return path
