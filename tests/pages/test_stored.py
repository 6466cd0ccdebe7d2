"""A table of the first cells reads no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from matrix_runner.answers.stored_samples import USUAL_RATES
from matrix_runner.pages.results import display_table
from matrix_runner.pages.stored import Reader
from matrix_runner.records.address import IN_MEMORY
from matrix_runner.records.record import CellRow
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from tests.records import past

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CELLS = [CellRow(f"c{number}", f"raid5/w/{number}", {}) for number in range(30)]
UNTRIED = CellRow("c-untried", "raid5/w/untried", {})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SharedStore]:
    for number in (1, 2):
        trials = [past.measured(cell.id, 1, 2e8) for cell in reversed(CELLS)]
        past.recorded(tmp_path, trials, number, [UNTRIED, *CELLS])
    with SharedStore.open(IN_MEMORY) as opened:
        assert bring_up_to_date(opened, tmp_path) == []
        yield opened


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of trials that were read."""
    counts: list[int] = []
    trials = SharedStore.trials

    def counted(self: SharedStore, *args: Any) -> Iterator[tuple[Any, ...]]:
        found = [*trials(self, *args)]
        counts.append(len(found))
        return iter(found)

    monkeypatch.setattr(SharedStore, "trials", counted)
    return counts


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize("most", [1, 7, 29, 30, 31, 45, 59, 60, 100])
def test_the_table_is_that_of_all_cells(runs: int, most: int, store: SharedStore, tmp_path: Path) -> None:
    reader = Reader(store, USUAL_RATES, tmp_path)
    among = store.runs()[:runs]
    first, unread = reader.read_first(among, most)
    # A run is read whole, and one after the other until there are more cells than rows.
    whole = reader.read(among[: 1 if most < len(CELLS) else 2])
    left = len(among) - len({one.run.id for one in whole})
    expected = display_table(whole, USUAL_RATES, most=most, unread=(0, left))
    assert display_table(first, USUAL_RATES, most=most, unread=unread) == expected


def test_only_the_trials_of_these_cells_are_read(store: SharedStore, read: list[int], tmp_path: Path) -> None:
    found, unread = Reader(store, USUAL_RATES, tmp_path).read_first(store.runs(), 7)
    assert [one.cell.id for one in found] == [cell.id for cell in CELLS[:7]]
    assert (read, unread) == ([7], (23, 1))


def test_without_positions_all_cells_are_read(
    store: SharedStore, read: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(SharedStore, "first_cells", lambda *_: (None, 30))
    _, unread = Reader(store, USUAL_RATES, tmp_path).read_first(store.runs(), 7)
    assert (read, unread) == ([30], (0, 1))


def test_a_selection_is_read_whole(store: SharedStore, tmp_path: Path) -> None:
    found, unread = Reader(store, USUAL_RATES, tmp_path, cell="raid5/w/9").read_first(store.runs()[:1], 7)
    assert ([one.cell.id for one in found], unread) == (["c9"], (0, 0))
