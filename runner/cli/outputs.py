"""The files that a run leaves, made from its journal; the same whether it ended or was stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.reports.csv import summary_csv, trials_csv
from runner.reports.junit import junit
from runner.reports.recorded import Recorded
from runner.reports.summary import summarise
from runner.reports.terminal import table
from runner.store.files import write_atomically

if TYPE_CHECKING:
    from rich.table import Table

    from runner.store.journal import Journal
    from runner.store.run import RunFolder


def recorded(folder: RunFolder, journal: Journal) -> Recorded:
    """All that a run has recorded so far."""
    manifest = folder.manifest
    return Recorded(
        matrix=manifest.matrix,
        machine=manifest.machine,
        made_up=manifest.made_up,
        cells=journal.cells(),
        trials=list(journal.trials()),
        attempts=journal.attempts(),
    )


def write_outputs(folder: RunFolder, journal: Journal, confidence: float) -> None:
    """junit.xml, trials.csv, summary.csv."""
    everything = recorded(folder, journal)
    summaries = summarise(everything, confidence)
    write_atomically(folder.path / "trials.csv", trials_csv(everything).encode())
    write_atomically(folder.path / "summary.csv", summary_csv(everything, confidence, summaries).encode())
    write_atomically(folder.path / "junit.xml", junit(everything, summaries))


def closing_table(folder: RunFolder, journal: Journal, confidence: float) -> Table:
    """What is shown at the end."""
    everything = recorded(folder, journal)
    return table(everything, summaries=summarise(everything, confidence))
