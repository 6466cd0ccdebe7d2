"""A run of a hundred cells whose reports are those of a large run."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest

from matrix_runner.pages.run_data import Survey, choose_part
from matrix_runner.pages.write import survey
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow
from tests.pages.samples import direction, measured

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matrix_runner.pages.run_data import RunData

LAYOUTS, DEPTHS = ("raid0", "raid5"), range(1, 51)
CELLS = [
    CellRow(
        f"{layout}-{depth}",
        f"{layout}/random/iodepth={depth}",
        {"layout": layout, "workload": "random", "workload.iodepth": str(depth)},
    )
    for layout, depth in product(LAYOUTS, DEPTHS)
]
TRIALS = [measured(cell.id, 1, direction(1e6 + at, 4096)) for at, cell in enumerate(CELLS)]


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.sqlite") as opened:
        yield opened


def filled(journal: Journal, recorded: RunData) -> Journal:
    journal.add_cells(recorded.cells)
    journal.record_many(recorded.trials)
    return journal


def surveyed(folder: Path, journal: Journal, recorded: RunData) -> Survey:
    most = max((len(trials) for trials in recorded.by_cell.values()), default=0)
    part = replace(recorded, part=choose_part(recorded.cells, 1), cells=(), trials=(), most=most)
    return survey(folder, filled(journal, recorded), part)
