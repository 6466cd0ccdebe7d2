"""Screens: the choice of cells, and the effects that they show."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from matrix_runner.statistics.screening import Factors, choose, cover_pairs, screen

VALUES = (3, *(2,) * 7)
LEVELS = np.array(list(product(*map(range, VALUES))))
PLOTS = (LEVELS[:, 0] * 2 + LEVELS[:, 1]).tolist()


def planted(noise: float = 0.02, seed: int = 1) -> np.ndarray:
    """The first axis changes the rate by 20 % at its last value, the fourth by 30 %, and both depend on each other."""
    logs = 0.2 * (LEVELS[:, 0] == 2) + 0.3 * LEVELS[:, 3] + 0.25 * (LEVELS[:, 0] == 2) * LEVELS[:, 3]
    return np.asarray(logs + noise * np.random.default_rng(seed).standard_normal(len(LEVELS)))


def test_a_screen_names_the_axes_and_the_pair_that_matter() -> None:
    rows = choose(LEVELS, 60, PLOTS, 6, seed=1)
    found = screen(LEVELS[rows], planted()[rows], 0.95)
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
    screens = [screen(LEVELS[rows], chance.standard_normal(60), 0.95) for _ in range(60)]
    assert sum(any(one.is_active for one in (*found.axes, *found.pairs)) for found in screens) <= 8


@pytest.mark.parametrize(("seed", "found"), [(178, False), (187, False), (143, True), (71, True)])
def test_axes_and_pairs_have_a_third_of_the_error_each(seed: int, found: bool) -> None:
    """Noise whose smallest p, times the number of axes or of pairs, is 0.018, 0.018, 0.014 and 0.016."""
    rows = choose(LEVELS, 60, PLOTS, 6, seed=1)
    done = screen(LEVELS[rows], np.random.default_rng(seed).standard_normal(60), 0.95)
    assert any(one.is_active for one in (*done.axes, *done.pairs)) == found


def test_intervals_cover_the_effect() -> None:
    rows, hits = choose(LEVELS, 60, PLOTS, 6, seed=1), 0
    for seed in range(60):
        found = screen(LEVELS[rows], planted(0.05, seed)[rows], 0.95)
        ratio = next(one.ratios[0] for one in found.axes if one.term == (5,))
        assert ratio
        hits += ratio.low <= 1 <= ratio.high
    assert hits >= 52


def test_few_stacks_are_set_up_and_the_cells_repeat() -> None:
    rows = choose(LEVELS, 40, PLOTS, 4, seed=5)
    assert len(set(rows)) == 40
    assert len({PLOTS[row] for row in rows}) == 4
    assert rows == choose(LEVELS, 40, PLOTS, 4, seed=5) != choose(LEVELS, 40, PLOTS, 4, seed=6)


def test_a_design_tells_each_axis_from_the_others() -> None:
    rows = choose(LEVELS, 40, PLOTS, 6, seed=1)
    logs = planted(0.0)[rows] + 1e-3 * np.random.default_rng(1).standard_normal(40)
    assert all(None not in one.ratios for one in screen(LEVELS[rows], logs, 0.95).axes)


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
    found = screen(LEVELS[:40], np.zeros(40), 0.95)
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
