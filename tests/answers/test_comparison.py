from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bench.null import halves, main
from matrix_runner.answers.comparison import noise_floor
from matrix_runner.answers.stored_samples import read_samples
from matrix_runner.records.address import address_of
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow
from matrix_runner.records.store import SharedStore
from matrix_runner.statistics.ratios import Ratio
from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path

    from matrix_runner.records.record import Trial

CELLS = [CellRow(f"c{number}", f"cell-{number}", {"number": str(number)}) for number in range(12)]
NOISE, ROUNDS = 0.02, 12


def ratio(value: float, a: int = 5, b: int = 5) -> Ratio:
    return Ratio(value, 0.0, 9.0, a, b, 0.95, 1.0)


def test_the_floor_is_that_of_all_but_a_twentieth() -> None:
    found = [ratio(1 + number / 1000) for number in range(39)]
    assert noise_floor([*found, ratio(5.0), ratio(7.0), None]) == pytest.approx(1.038**0.5**0.5 - 1)
    assert noise_floor([]) is None


def test_which_side_is_larger_does_not_matter() -> None:
    assert noise_floor([ratio(1.1)]) == pytest.approx(noise_floor([ratio(1 / 1.1)]))


def trials(chance: np.random.Generator) -> list[Trial]:
    """Every round has a mood, which half of the noise is."""
    moods = 1 + NOISE * chance.standard_normal(ROUNDS)
    return [
        past.measured(cell.id, round_number, 1e8 * mood * (1 + NOISE * chance.standard_normal()))
        for round_number, mood in enumerate(moods, start=1)
        for cell in CELLS
    ]


@pytest.fixture
def store(tmp_path: Path) -> SharedStore:
    folder = past.recorded(tmp_path, trials(np.random.default_rng(3)), 1, CELLS)
    with (
        SharedStore.open(address_of(str(tmp_path / "store.db"), tmp_path)) as found,
        Journal.open(folder.journal) as journal,
    ):
        found.catch_up(folder, journal)
    return SharedStore.existing(address_of(str(tmp_path / "store.db"), tmp_path))


def test_noise_makes_no_more_alarms_than_is_stated_and_shows_its_floor(
    store: SharedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with store:
        found = read_samples(store, store.runs(), ("read_bw", "write_bw"))
        seen = [halves(found, random.Random(seed)) for seed in range(60)]  # noqa: S311 - a repeatable sample
    assert {figures for figures, _, _ in seen} == {len(CELLS)}
    assert sum(alarms > 0 for _, alarms, _ in seen) <= 0.1 * len(seen)
    # Two whole runs of a dozen rounds with both parts of the noise.
    usual = float(np.median([least for _, _, least in seen]))
    assert usual == pytest.approx(1.96 * NOISE * np.sqrt(2 * 2 / ROUNDS), rel=0.4)
    monkeypatch.setattr("sys.argv", ["null", "--results", str(tmp_path), "--times", "3"])
    main()
    assert "3 null comparisons of run-1, 36 ratios of halves" in capsys.readouterr().out
