"""The trials of some runs from the store, for the page to explore them."""

from __future__ import annotations

import os
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING
from urllib.parse import quote

from matrix_runner.answers.stored_samples import declared_order
from matrix_runner.pages.explore import COLUMNS, Explored
from matrix_runner.records.names import ARCHIVE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matrix_runner.records.record import CellRow
    from matrix_runner.records.store import RunRow, SharedStore


def read_explored(store: SharedStore, runs: Sequence[RunRow], results: Path, beside: Path) -> list[Explored]:
    """Read the runs. Links from a page in the folder `beside` lead to those that have a folder below `results`."""
    return store.read_undamaged(lambda some: _read(store, some, results, beside), runs)


def _read(store: SharedStore, runs: Sequence[RunRow], results: Path, beside: Path) -> list[Explored]:
    ids = {run.id for run in runs}
    rows = {run: list(several) for run, several in groupby(store.trials(("run", *COLUMNS), ids), key=itemgetter(0))}
    cells: dict[str, list[CellRow]] = {}
    for one in store.cells(ids):
        cells.setdefault(one.run, []).append(one.cell)
    return [
        Explored(
            run.name,
            run.synthetic,
            sorted(cells[run.id], key=declared_order),
            [row[1:] for row in rows[run.id]],
            _link(results / run.name, beside),
        )
        for run in runs
        if run.id in rows
    ]


def _link(folder: Path, beside: Path) -> str | None:
    if not folder.is_dir() or (folder / ARCHIVE).exists():  # an archive has no folders of cells
        return None
    path = os.path.relpath(folder.resolve(), beside.resolve())
    return "" if path == "." else f"{quote(path, errors='replace')}/"


def title_of(runs: Sequence[RunRow]) -> str:
    """Name a run as its report does, and several runs by their matrices."""
    if len(runs) == 1:
        return f"{runs[0].matrix} on {runs[0].machine}"
    return f"{len(runs)} runs of {', '.join(dict.fromkeys(run.matrix for run in runs))}"
