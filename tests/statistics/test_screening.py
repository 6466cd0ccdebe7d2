"""Screens: the choice of cells, and the effects that they show."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from matrix_runner.statistics.screening import Factors, Screen, Term, choose, cover_pairs, screen

if TYPE_CHECKING:
    from collections.abc import Sequence

VALUES = (3, *(2,) * 7)
LEVELS = np.array(list(product(*map(range, VALUES))))
PLOTS = (LEVELS[:, 0] * 2 + LEVELS[:, 1]).tolist()


def planted(noise: float = 0.02, seed: int = 1) -> np.ndarray:
    """The first axis changes the rate by 20 % at its last value, the fourth by 30 %, and both depend on each other."""
    logs = 0.2 * (LEVELS[:, 0] == 2) + 0.3 * LEVELS[:, 3] + 0.25 * (LEVELS[:, 0] == 2) * LEVELS[:, 3]
    return np.asarray(logs + noise * np.random.default_rng(seed).standard_normal(len(LEVELS)))


def screened(rows: Sequence[int], logs: np.ndarray, rounds: int = 1) -> Screen:
    """Screen these rows; `logs`: by row, and perhaps by round."""
    table = np.exp(np.reshape(logs, (len(rows), rounds)))
    samples = [dict(enumerate(row)) for row in table.tolist()]
    return screen(LEVELS[rows], samples, [PLOTS[row] for row in rows], 0.95)


def names(found: Screen) -> list[Term]:
    return [one.term for one in (*found.axes, *found.pairs) if one.is_active]


def test_a_screen_names_the_axes_and_the_pair_that_matter() -> None:
    rows = choose(LEVELS, 60, PLOTS, 6, seed=1)
    found = screened(rows, planted()[rows])
    assert [one.term for one in found.axes if one.is_active] == [(3,), (0,)]
    assert [one.term for one in found.pairs] == [(0, 3)]
    assert found.scatter == pytest.approx(0.02, rel=0.4)
    ratio = next(one.ratios[0] for one in found.axes if one.term == (3,))
    assert ratio
    share = float(np.mean(LEVELS[rows][:, 0] == 2))  # an effect is the mean over the cells of the screen
    assert ratio.low < np.exp(0.3 + 0.25 * share) < ratio.high


def test_noise_is_rarely_called_an_effect() -> None:
    rows = choose(LEVELS, 60, PLOTS, 6, seed=1)
    chance = np.random.default_rng(3)
    screens = [screened(rows, chance.standard_normal(60)) for _ in range(60)]
    assert sum(any(one.is_active for one in (*found.axes, *found.pairs)) for found in screens) <= 8


@pytest.mark.parametrize(("seed", "found"), [(217, False), (184, False), (133, True), (387, True)])
def test_axes_and_pairs_have_a_third_of_the_error_each(seed: int, found: bool) -> None:
    """Noise whose smallest p, times the number of axes or of pairs, is 0.019, 0.021, 0.013 and 0.015."""
    rows = choose(LEVELS, 60, PLOTS, 6, seed=1)
    done = screened(rows, np.random.default_rng(seed).standard_normal(60))
    assert any(one.is_active for one in (*done.axes, *done.pairs)) == found


def test_intervals_cover_the_effect() -> None:
    rows, hits = choose(LEVELS, 60, PLOTS, 6, seed=1), 0
    for seed in range(60):
        found = screened(rows, planted(0.05, seed)[rows])
        ratio = next(one.ratios[0] for one in found.axes if one.term == (5,))
        assert ratio
        hits += ratio.low <= 1 <= ratio.high
    assert hits >= 52


@pytest.mark.parametrize("rounds", [1, 3])
def test_set_ups_that_differ_are_no_effects_of_layers(rounds: int) -> None:
    """The cells of a stack share its set-up in each round."""
    rows = choose(LEVELS, 60, PLOTS, 6, seed=1)
    stacks, wrong, hits = np.asarray(PLOTS)[rows], 0, 0
    for seed in range(60):
        chance = np.random.default_rng(seed)
        set_ups = 0.05 * chance.standard_normal((max(PLOTS) + 1, rounds))[stacks]
        logs = planted(0.0)[rows, None] - 0.2 * (LEVELS[rows, 0] == 2)[:, None]
        found = screened(rows, logs + set_ups + 0.01 * chance.standard_normal((len(rows), rounds)), rounds)
        wrong += not {*names(found)} <= {(3,), (0, 3), (0,)}
        hits += (3,) in names(found)
    assert wrong <= 6
    assert hits == 60


def test_more_rounds_show_an_effect_of_a_layer() -> None:
    rows = choose(LEVELS, 60, PLOTS, 6, seed=1)
    stacks = np.asarray(PLOTS)[rows]
    found = {}
    for rounds in (1, 5):
        chance = np.random.default_rng(rounds)
        set_ups = 0.02 * chance.standard_normal((max(PLOTS) + 1, rounds))[stacks]
        logs = 0.2 * (LEVELS[rows, :1] == 2) + set_ups + 0.01 * chance.standard_normal((len(rows), rounds))
        found[rounds] = next(one for one in screened(rows, logs, rounds).axes if one.term == (0,))
    assert found[5].is_active
    assert not found[1].is_active
    first, last = (one.ratios[1] for one in found.values())
    assert first
    assert last
    assert last.high / last.low < first.high / first.low


def test_few_stacks_are_set_up_and_the_cells_repeat() -> None:
    rows = choose(LEVELS, 40, PLOTS, 4, seed=5)
    assert len(set(rows)) == 40
    assert len({PLOTS[row] for row in rows}) == 4
    assert rows == choose(LEVELS, 40, PLOTS, 4, seed=5) != choose(LEVELS, 40, PLOTS, 4, seed=6)


def test_a_design_tells_each_axis_from_the_others() -> None:
    rows = choose(LEVELS, 40, PLOTS, 6, seed=1)
    logs = planted(0.0)[rows] + 1e-3 * np.random.default_rng(1).standard_normal(40)
    assert all(None not in one.ratios for one in screened(rows, logs).axes)


def test_each_pair_of_values_is_covered_by_few_rows() -> None:
    rows = cover_pairs(LEVELS)
    assert len(rows) <= 14
    for one, other in combinations(range(len(VALUES)), 2):
        assert {*map(tuple, LEVELS[rows][:, [one, other]].tolist())} == {
            *product(range(VALUES[one]), range(VALUES[other]))
        }


def test_axes_that_name_the_same_values_are_one() -> None:
    cells = [{"layout": name, "level": level, "bs": bs} for name, level in (("a", "5"), ("b", "6")) for bs in "48"]
    cells[0] |= {"only": "here"}
    found = Factors.of(cells)
    assert found.names == ("layout", "bs", "only")
    assert found.values == (("a", "b"), ("4", "8"), ("here", ""))


def test_one_constant_figure_has_no_effects() -> None:
    found = screened(range(40), np.zeros(40))
    assert not any(one.is_active for one in found.axes)


def test_a_screen_has_all_its_cells_if_stacks_have_few_each() -> None:
    alone = range(len(LEVELS))
    assert len(choose(LEVELS, 40, alone, 10, seed=1)) == 40
    pairs = [at // 2 for at in alone]
    rows = choose(LEVELS, 40, pairs, 10, seed=1)
    assert len(rows) == 40
    assert len({pairs[row] for row in rows}) == 20


def test_cells_that_do_not_differ_are_one_row() -> None:
    assert cover_pairs(Factors.of([{"a": "1"}]).levels) == [0]
