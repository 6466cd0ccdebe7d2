"""How a run ends: its reports, then that it is finished, then what became of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.errors import Exit
from runner.guidelines.judge import SHARE, judged
from runner.guidelines.measured import measured
from runner.guidelines.steering import UNWATCHED
from runner.reports.write import recorded, write_reports
from runner.store.record import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from runner.guidelines.judge import Judgement
    from runner.model.guidelines import Guideline
    from runner.reports.recorded import Recorded
    from runner.store.journal import Journal
    from runner.store.run import RunFolder


@dataclass(frozen=True)
class Ending:
    """What a run has come to so far."""

    path: Path
    content: Recorded
    files: tuple[Path, ...]
    planned: int
    exit: Exit
    #: Nothing more will be measured.
    finished: bool = True

    @property
    def outcomes(self) -> Mapping[Outcome, int]:
        """Trials by what became of them."""
        return Counter(trial.outcome for trial in self.content.trials)

    @property
    def trials(self) -> str:
        """How many trials there are of how many."""
        return f"{len(self.content.trials):,} of {self.planned:,} trials"

    @property
    def unsure(self) -> list[str]:
        """Cells that are not known as well as `until:` asks for."""
        return [one.cell.name for one in self.content.summaries if one.reached(self.content.until) is False]

    def lines(self) -> list[str]:
        """What is left to be said below the table."""
        said = []
        if self.exit is Exit.INTERRUPTED:
            said.append(f"{self.trials} done")
        if self.unsure and self.content.until is not None:
            count, of = len(self.unsure), len(self.content.summaries)
            said.append(
                f"±{self.content.until * 100:g} % was asked for and is not reached by {count} of {of} cells "
                "(`reached` in summary.csv); a larger `max:` buys more trials"
            )
        return [*said, *self._drifted(), self.where]

    def _drifted(self) -> Iterator[str]:
        """That the machine was not the same all the time; blocks keep that from looking like a difference of cells."""
        from runner.reports.terminal import percent  # brings what draws tables along

        drift = self.content.drift
        if drift and drift.p <= 1 - drift.confidence:
            bounds = sorted(abs(bound - 1) for bound in (drift.low, drift.high))
            yield (
                f"from the first block to the last, rates {'rose' if drift.change > 1 else 'fell'} by "
                f"{percent(abs(drift.change - 1))} ({percent(bounds[0])} to {percent(bounds[1])}): cells that stopped "
                "early were measured in other times than the rest; compare them over the blocks that they share"
            )

    @property
    def where(self) -> str:
        """Where everything is."""
        verdicts = "verdicts.csv, " if self.content.judgements else ""
        return (
            f"{self.path}/: trials.csv, summary.csv, {verdicts}junit.xml, and every script and raw output under cells/"
        )


def verdict(content: Recorded) -> Exit:
    """3 if any trial broke; 1 if none did, and a guideline fails."""
    if any(trial.outcome is Outcome.BROKEN for trial in content.trials):
        return Exit.BROKEN
    return Exit.CLAIM_FAILED if any(one.failed for one in content.judgements) else Exit.ALL_MEASURED


def report(
    folder: RunFolder, journal: Journal, guidelines: Sequence[Guideline] = (), *, interrupted: bool, short: int = 0
) -> Ending:
    """Write the reports of a run, as far as it is. `short`: trials of the minimum that a budget was too small for."""
    over = not interrupted and not short
    content = recorded(folder, journal, over=over)
    content = replace(content, judgements=judgements(folder, content, guidelines))
    files = write_reports(folder, content)
    end = Exit.INTERRUPTED if interrupted else Exit.BROKEN if short else verdict(content)
    return Ending(folder.path, content, tuple(files), folder.manifest.planned, end, over)


def judgements(folder: RunFolder, content: Recorded, guidelines: Sequence[Guideline]) -> list[Judgement]:
    """What the trials of a run say of guidelines."""
    if not guidelines:
        return []
    columns = {column for one in guidelines for column in one.claimed.figure.columns}
    rule, share = (UNWATCHED, SHARE) if folder.manifest.steered else (content.rule, 1.0)
    found = measured(folder.manifest.identity, content.cells, content.by_cell, rule, columns)
    return judged(guidelines, found, made_up=content.made_up, share=share)
