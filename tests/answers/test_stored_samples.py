"""The rates that a comparison shows for cells, and the memory of cells with a single trial."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.answers.stored_samples import USUAL_RATES, Samples, rates_of
from matrix_runner.pages.stored import Reader
from matrix_runner.records.address import IN_MEMORY
from matrix_runner.records.record import UNSETTLED, CellRow, Outcome, Trial
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from tests.records import past
from tests.records.past import measured
from tests.support.facts import noted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SMALL, LARGE = 4096.0, 1 << 20


def trial(cell: str, number: int, read: float | None, write: float | None = None) -> Trial:
    """Return a trial with requests of these sizes."""
    found = measured(cell, number, read and 1e8, write and 1e8)
    assert found.figures
    sizes = {"read": read or 0.0, "write": write or 0.0}
    sides: dict[str, Any] = {
        name: replace(side, iops=side.bw / sizes[name]) for name, side in found.figures.sides.items()
    }
    return replace(found, figures=replace(found.figures, **sides))


def read(folder: Path, trials: Iterable[Trial]) -> list[Samples]:
    several = list(trials)
    cells = [CellRow(name, name, {}) for name in dict.fromkeys(one.cell for one in several)]
    past.recorded(folder, several, 1, cells)
    with SharedStore.open(IN_MEMORY) as store:
        bring_up_to_date(store, folder)
        return Reader(store, USUAL_RATES, folder).read(store.runs())


@pytest.mark.parametrize(
    ("trials", "rates"),
    [
        ([trial("a", 1, SMALL)], ["read_iops"]),
        ([trial("a", 1, LARGE), trial("b", 1, None, SMALL)], ["read_bw", "write_iops"]),
        ([trial("a", 1, SMALL, LARGE)], ["total_iops", "read_iops", "write_bw"]),
        ([trial("a", 1, SMALL, SMALL), trial("b", 1, LARGE)], ["total_bw", "read_bw", "write_iops"]),
        ([trial("a", 1, SMALL), trial("a", 2, LARGE), trial("a", 3, LARGE)], ["read_iops"]),
        ([trial("a", 1, 61_440.0), trial("a", 2, LARGE), trial("a", 3, LARGE)], ["read_bw"]),
        ([replace(trial("a", 1, LARGE), **noted({UNSETTLED: "by 9 %"}))], []),
        ([trial("a", 1, LARGE), Trial("a", 2, Outcome.CORRUPT)], []),
    ],
)
def test_rates_follow_from_the_size_of_requests(trials: list[Trial], rates: list[str], tmp_path: Path) -> None:
    assert rates_of(read(tmp_path, trials)) == rates


def test_a_single_trial_is_not_kept_twice(tmp_path: Path) -> None:
    one, several = read(tmp_path, [trial("a", 1, SMALL), trial("b", 1, SMALL), trial("b", 2, SMALL)])
    for cell in (one, several):
        assert cell.rounds("read_bw") == dict.fromkeys(range(1, len(cell.rows) + 1), 1e8)
    assert (len(one._rounds), len(several._rounds)) == (0, 1)
