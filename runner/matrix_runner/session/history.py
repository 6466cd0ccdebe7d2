"""Figures of cells in earlier runs, for the report of a run."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from matrix_runner.answers.selectors import CellSelection
from matrix_runner.answers.stored_samples import USUAL_RATES, read_samples
from matrix_runner.base.errors import MatrixError
from matrix_runner.pages.history import Past
from matrix_runner.records.store import SharedStore, describe_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matrix_runner.records.run_folder import RunFolder
    from matrix_runner.records.store import RunRow
    from matrix_runner.records.store_tables import Address

MOST_RUNS = 20  # earlier runs of a line
MOST_TRIALS = 50_000  # trials of all of them: reading more would take longer than the report


def earlier_figures(store: Address | None, folder: RunFolder, headlines: Mapping[str, str]) -> dict[str, list[Past]]:
    """Return the means of earlier runs on the same machine and host, the oldest first, by cell.

    `headlines` has the figure of each cell. Only a store that is a file is read: the end of a run waits for no server.
    """
    if not (store and store.file and store.file.exists() and headlines):
        return {}
    with suppress(MatrixError), SharedStore.existing(store) as shared:
        runs = _earlier(shared, describe_run(folder))
        metrics = [name for name in USUAL_RATES if name in set(headlines.values())]
        samples = read_samples(shared, runs, metrics, CellSelection(set(headlines)), histograms=False)
        found: dict[str, list[Past]] = {}
        for one in samples:
            if estimate := one.estimate(headlines[one.cell.id]):
                found.setdefault(one.cell.id, []).append(Past(one.run.started, estimate.mean))
        return found
    return {}  # a report does not fail for the store


def _earlier(shared: SharedStore, this: RunRow) -> Sequence[RunRow]:
    place = (this.machine, this.host, this.synthetic)
    alike = [
        one for one in shared.runs() if (one.machine, one.host, one.synthetic) == place and one.started < this.started
    ]
    latest = sorted((one for one in alike if one.measured), key=lambda one: one.started)[-MOST_RUNS:]
    counts = shared.trial_counts({one.id for one in latest})
    chosen: list[RunRow] = []
    room = MOST_TRIALS
    for one in reversed(latest):
        room -= counts.get(one.id, 0)
        if room < 0:
            break
        chosen.insert(0, one)
    return chosen
