"""The end of a run: its reports, its exit code and its summary for the user."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from matrix_runner.answers.axes import grouped
from matrix_runner.answers.cell_figures import Measured, measured_cell
from matrix_runner.answers.history import compare_with_level
from matrix_runner.answers.published import ComparedFigure, columns_of, compare_published
from matrix_runner.answers.stored_samples import USUAL_RATES, CellSelection, read_samples
from matrix_runner.answers.verdicts import SHARE, UNWATCHED, judge_guidelines
from matrix_runner.base.errors import Exit, MatrixError
from matrix_runner.base.files import write_atomically
from matrix_runner.base.text import of_planned
from matrix_runner.decide.steering import BisectSteering
from matrix_runner.language.guidelines import Guideline
from matrix_runner.pages.answer import answer_lines, summarize_rankings
from matrix_runner.pages.compare_table import confirmed
from matrix_runner.pages.effects import screen_sections
from matrix_runner.pages.run_data import Past, RunData
from matrix_runner.pages.sections import MOST_ROWS
from matrix_runner.pages.study import section, summary_line
from matrix_runner.pages.terminal import correlation_note, drift_note, host_note, outcome, precision_note, shown_cells
from matrix_runner.pages.terminal_text import legend
from matrix_runner.pages.verdicts import knee_lines
from matrix_runner.pages.write import load_run_data, read_trials, survey, write_reports
from matrix_runner.records.address import Address
from matrix_runner.records.files import ARCHIVE, histogram_errors
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome, count_measured, outcome_of_cell
from matrix_runner.records.run_folder import RunFolder
from matrix_runner.records.store import RunRow, SharedStore, describe_run
from matrix_runner.space.declared_files import PUBLISHED, Study, has_accepted


@dataclass(frozen=True)
class Ending:
    path: Path
    content: RunData
    files: tuple[Path, ...]
    planned: int
    exit: Exit
    finished: bool = True
    comparisons: Sequence[ComparedFigure] = ()
    search: BisectSteering | None = None

    @property
    def outcomes(self) -> Counter[Outcome]:
        return Counter(self.content.counts)

    @property
    def trials(self) -> str:
        return f"{of_planned(self.outcomes.total(), self.planned)} trials"

    @property
    def failure(self) -> str:
        if not self.finished or count_measured(self.outcomes):
            return ""
        reasons = "; ".join(self.content.reasons)
        return f"no trial was measured{f': {reasons}' if reasons else ''}"

    def lines(self, width: int = 100) -> list[str]:
        content = self.content
        unread = f"note: {content.unread}" if content.unread else ""
        part = f"the pages show {content.part.text}; summary.csv and trials.csv have all" if content.part else ""
        doubts = [one.doubt for one in content.concerns] if content.survey else []  # else the table has them
        published = f"published: {summary_line(self.comparisons)} (published.md)" if self.comparisons else ""
        lines = [*knee_lines(content.knees, over=content.over, synthetic=content.synthetic)]
        marks = legend((*map(outcome, shown_cells(content)), *lines, *doubts))
        of_run = (precision_note(content), correlation_note(content), drift_note(content), host_note(content))
        notes = (part, *doubts, *of_run, published)
        lines += filter(None, (self.failure, unread, *notes))
        lines += [line for one in content.added for line in one.lines]
        answer = summarize_rankings(content.rankings, synthetic=content.synthetic, over=content.over)
        lines += [mark for mark in marks if not answer or mark not in answer.notes]
        if answer:
            lines += answer_lines(answer, width)
        if answer and answer.is_cut:
            lines.append("answer.txt has the full list.")
        return [*lines, self.location]

    @property
    def location(self) -> str:
        verdicts = "verdicts.csv, " if self.content.judgements else ""
        added = "".join(f"{name}, " for one in self.content.added for name in one.files)
        answer = "answer.txt, " if self.content.rankings else ""
        jobs = "jobs.csv, " if self.content.has_jobs else ""
        rounds = "rounds.csv, " if any(self.content.rounds.values()) else ""
        found = "found.csv, " if self.content.knees else ""
        files = f"{answer}trials.csv, summary.csv, {jobs}{rounds}{found}{verdicts}{added}junit.xml"
        reports = self.files[0].parent if self.files else self.path
        run = "" if reports == self.path else f"{self.path}/"
        cells = f"in {run}{ARCHIVE} (`matrix show`)" if self.content.archived else f"under {run}cells/"
        return f"{reports}/: report.html, explore.html, {files}, and every script and raw output {cells}"


def exit_code(content: RunData, *, short: bool = False) -> Exit:
    worst = outcome_of_cell(content.counts)
    if worst and worst.is_failure:  # a result about the storage, and worse than the others
        return worst.kind.exit
    if short or not count_measured(content.counts):
        return Exit.BROKEN
    if worst and worst.kind.exit:
        return worst.kind.exit
    return Exit.CLAIM_FAILED if any(one.failed for one in content.judgements) else Exit.ALL_MEASURED


def report(
    folder: RunFolder,
    journal: Journal,
    guidelines: Sequence[Guideline] = (),
    study: Study | None = None,
    *,
    interrupted: bool,
    short: int = 0,
    store: Address | None = None,
) -> Ending:
    """Write the reports of a run, finished or not. `short`: trials of the minimum that the budget did not cover.

    `store` has the history of its cells.
    """
    with histogram_errors(folder.journal):
        return _report(folder, journal, guidelines, study, store, interrupted=interrupted, short=short)


def _report(
    folder: RunFolder,
    journal: Journal,
    guidelines: Sequence[Guideline],
    study: Study | None,
    store: Address | None,
    *,
    interrupted: bool,
    short: int,
) -> Ending:
    over = not interrupted and not short
    content = load_run_data(folder, journal, over=over)
    if content.part:
        content = replace(content, survey=survey(folder.reports, journal, content))
    steered, synthetic = folder.manifest.steered, content.synthetic
    share = SHARE if steered else 1.0

    def measured(columns: Collection[str]) -> Iterator[Measured]:
        rule = UNWATCHED if steered else content.rule
        run = folder.manifest.id
        known = [(content.cells, content.by_cell)]
        for cells, trials in read_trials(journal, content.every) if content.part else known:
            yield from (measured_cell(run, cell, trials.get(cell.id, ()), rule, columns) for cell in cells)
        yield from (knee.measured(run, rule) for knee in content.knees)

    if guidelines:
        figures = measured({column for one in guidelines for column in one.claimed.figure.columns})
        content = replace(content, judgements=judge_guidelines(guidelines, figures, synthetic=synthetic, share=share))
    comparisons: Sequence[ComparedFigure] = ()
    if study:
        write_atomically(folder.reports / PUBLISHED, study.text.encode())
        figures = measured(columns_of(study.published))
        comparisons = compare_published(study.published, figures, synthetic=synthetic, share=share)
        about = content.warning.capitalize()
        content = replace(content, added=(section(study.published.source, comparisons, content.judgements, about),))
    content = replace(content, added=(*content.added, *screen_sections(content, folder.manifest)))
    if store and has_accepted(folder.path):
        with suppress(MatrixError):  # there is no accepted level; the run says so
            content = replace(content, added=(*content.added, *confirmed(compare_with_level(folder, journal, store))))
    summaries = map(content.summary_of, content.cells[:MOST_ROWS])  # not all: `replace` would discard them
    headlines = {one.cell.id: one.headline for one in summaries if one.headline}
    content = replace(content, history=earlier_figures(store, folder, headlines))
    files = write_reports(folder, content)
    end = Exit.INTERRUPTED if interrupted else exit_code(content, short=bool(short))
    return Ending(folder.path, content, tuple(files), folder.manifest.planned, end, over, comparisons)


MOST_RUNS = 20  # earlier runs of a line
MOST_TRIALS = 50_000  # trials of all of them: reading more would take longer than the report


def earlier_figures(store: Address | None, folder: RunFolder, headlines: Mapping[str, str]) -> dict[str, list[Past]]:
    """Return the means of earlier runs on the same machine and host, the oldest first, by cell.

    `headlines` has the figure of each cell. Only a store that is a file is read: the end of a run waits for no server.
    """
    if not (store and store.file and store.file.exists() and headlines):
        return {}
    with suppress(MatrixError), SharedStore.existing(store) as shared:
        runs = _earlier_runs(shared, describe_run(folder))
        metrics = [name for name in USUAL_RATES if name in set(headlines.values())]
        samples = read_samples(shared, runs, metrics, CellSelection(set(headlines)), histograms=False)
        known = ((one, estimate) for one in samples if (estimate := one.estimate(headlines[one.cell.id])))
        return grouped((one.cell.id, Past(one.run.started, estimate.mean)) for one, estimate in known)
    return {}  # a report does not fail for the store


def _earlier_runs(shared: SharedStore, this: RunRow) -> Sequence[RunRow]:
    place = (this.machine, this.host, this.synthetic)
    alike = [
        one for one in shared.runs() if (one.machine, one.host, one.synthetic) == place and one.started < this.started
    ]
    latest = sorted((one for one in alike if one.measured), key=lambda one: one.started)[-MOST_RUNS:]
    counts = shared.trial_counts(latest)
    chosen: list[RunRow] = []
    room = MOST_TRIALS
    for one in reversed(latest):
        room -= counts.get(one.id, 0)
        if room < 0:
            break
        chosen.insert(0, one)
    return chosen
