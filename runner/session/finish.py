"""The end of a run: its reports, its exit code and its summary for the user."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.base.errors import Exit
from runner.base.files import write_atomically
from runner.guidelines.samples import measured_cells
from runner.guidelines.verdicts import SHARE, UNWATCHED, judge_guidelines
from runner.reports.write import load_run_data, write_reports
from runner.results.record import Outcome
from runner.space.studies import PUBLISHED
from runner.studies.compare import columns_of, compare_published

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from runner.guidelines.samples import Measured
    from runner.guidelines.verdicts import Judgement
    from runner.language.guidelines import Guideline
    from runner.language.published import Published
    from runner.reports.run_data import RunData
    from runner.results.journal import Journal
    from runner.results.run_folder import RunFolder
    from runner.space.studies import Study
    from runner.studies.compare import ComparedFigure


@dataclass(frozen=True)
class Ending:
    """The reports of a run, and how it ended."""

    path: Path
    content: RunData
    files: tuple[Path, ...]
    planned: int
    exit: Exit
    #: Whether all trials are done.
    finished: bool = True
    #: Published figures beside the measured ones.
    comparisons: Sequence[ComparedFigure] = ()

    @property
    def outcomes(self) -> Counter[Outcome]:
        return Counter(trial.outcome for trial in self.content.trials)

    @property
    def trials(self) -> str:
        return f"{len(self.content.trials):,} of {self.planned:,} trials"

    @property
    def imprecise_cells(self) -> list[str]:
        """Return the cells with a wider interval than `until:` allows."""
        return [one.cell.name for one in self.content.summaries if one.reaches(self.content.until) is False]

    @property
    def failure(self) -> str:
        """Return why a finished run has no measured trial; empty if it has one."""
        if not self.finished or self.outcomes[Outcome.MEASURED]:
            return ""
        reasons = "; ".join(dict.fromkeys(trial.reason for trial in self.content.trials if trial.reason))
        return f"no trial was measured{f': {reasons}' if reasons else ''}"

    def lines(self, width: int = 100) -> list[str]:
        """Return the lines below the table."""
        from runner.reports.terminal import drift_note, precision_note  # imports rich

        done = f"{self.trials} done" if self.exit is Exit.INTERRUPTED else ""
        notes = (done, self.failure, precision_note(self.content), drift_note(self.content), *self._published())
        return [*filter(None, notes), *self._answer(width), self.location]

    def _answer(self, width: int) -> Iterator[str]:
        """Yield the fastest stack for each workload."""
        from runner.reports.answer import answer_lines, summarize_rankings

        content = self.content
        if words := summarize_rankings(
            content.rankings, content.losses, synthetic=content.synthetic, over=content.over
        ):
            yield from answer_lines(words, width)
            if words.is_cut:
                yield "answer.txt has the full list."

    def _published(self) -> Iterator[str]:
        from runner.studies.page import summary_line  # imports rich

        if self.comparisons:
            yield f"published: {summary_line(self.comparisons)} (published.md)"

    @property
    def location(self) -> str:
        verdicts = "verdicts.csv, " if self.content.judgements else ""
        added = "".join(f"{name}, " for one in self.content.added for name in one.files)
        answer = "answer.txt, " if self.content.rankings else ""
        files = f"{answer}trials.csv, summary.csv, {verdicts}{added}junit.xml"
        return f"{self.path}/: report.html, {files}, and every script and raw output under cells/"


def exit_code(content: RunData) -> Exit:
    """Return 3 if any trial broke or no trial was measured; else 1 if a guideline fails; else 0."""
    outcomes = {trial.outcome for trial in content.trials}
    if Outcome.BROKEN in outcomes or Outcome.MEASURED not in outcomes:
        return Exit.BROKEN
    return Exit.CLAIM_FAILED if any(one.failed for one in content.judgements) else Exit.ALL_MEASURED


def report(
    folder: RunFolder,
    journal: Journal,
    guidelines: Sequence[Guideline] = (),
    study: Study | None = None,
    *,
    interrupted: bool,
    short: int = 0,
) -> Ending:
    """Write the reports of a run, finished or not. `short`: trials of the minimum that the budget did not cover."""
    over = not interrupted and not short
    content = load_run_data(folder, journal, over=over)
    content = replace(content, judgements=judge_run(folder, content, guidelines))
    comparisons: Sequence[ComparedFigure] = ()
    if study:
        from runner.studies.page import section  # imports rich

        write_atomically(folder.path / PUBLISHED, study.text.encode())
        comparisons = compare_with_study(folder, content, study.published)
        about = content.warning.capitalize()
        content = replace(content, added=(section(study.published.source, comparisons, content.judgements, about),))
    files = write_reports(folder, content)
    end = Exit.INTERRUPTED if interrupted else Exit.BROKEN if short else exit_code(content)
    return Ending(folder.path, content, tuple(files), folder.manifest.planned, end, over, comparisons)


def judge_run(folder: RunFolder, content: RunData, guidelines: Sequence[Guideline]) -> list[Judgement]:
    if not guidelines:
        return []
    columns = {column for one in guidelines for column in one.claimed.figure.columns}
    found = _figures(folder, content, columns)
    return judge_guidelines(guidelines, found, synthetic=content.synthetic, share=_share(folder))


def compare_with_study(folder: RunFolder, content: RunData, published: Published) -> list[ComparedFigure]:
    found = _figures(folder, content, columns_of(published))
    return compare_published(published, found, synthetic=content.synthetic, share=_share(folder))


def _figures(folder: RunFolder, content: RunData, columns: Collection[str]) -> Iterator[Measured]:
    rule = UNWATCHED if folder.manifest.steered else content.rule
    return measured_cells(folder.manifest.identity, content.cells, content.by_cell, rule, columns)


def _share(folder: RunFolder) -> float:
    """Return the share of the error probability that each look at a verdict uses."""
    return SHARE if folder.manifest.steered else 1.0
