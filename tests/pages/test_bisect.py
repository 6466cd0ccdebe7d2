"""The answer of a search: its lines in each state, its table and its chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from matrix_runner.decide.bisect import Rule, Standing, State
from matrix_runner.decide.steering import Bisection, BisectSteering
from matrix_runner.pages.bisect import answer_lines, chart, search_values, table
from matrix_runner.records.record import CellRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES = ("a", "b", "c", "d")


def search(
    rounds: Sequence[Mapping[int, float]], skipped: frozenset[int] = frozenset(), **rule: float
) -> BisectSteering:
    cells = tuple((CellRow(name, name, {"kernel": name}),) for name in NAMES)
    found = BisectSteering(Bisection("kernel", NAMES, cells, None, Rule(worse=-1, **rule)))  # type: ignore[arg-type]
    found.__dict__["standing"] = Standing(3, rounds, skipped, found.bisection.rule)
    return found


def rounds(levels: Mapping[int, float], number: int = 8) -> list[dict[int, float]]:
    chance = np.random.default_rng(4)
    return [{at: 18 + level + 0.01 * chance.standard_normal() for at, level in levels.items()} for _ in range(number)]


@pytest.mark.parametrize(
    ("levels", "state", "text"),
    [
        ({0: 0, 1: 0, 2: -0.1, 3: -0.1}, State.FOUND, "found: c changed it, with odds of >99 %; b is good"),
        ({0: 0, 1: 0, 2: -0.1, 3: -0.2}, State.SEVERAL, "cannot tell: there is more than one change between a and d"),
        ({0: 0, 3: 0.1}, State.REVERSED, "not found: d is better than a"),
        ({0: 0, 3: -0.1}, State.SEARCHING, "cannot tell yet: the odds are b 33 %, c 33 %, d 33 %"),
    ],
)
def test_answers(levels: Mapping[int, float], state: State, text: str) -> None:
    found = search(rounds(levels))
    assert found.standing.state is state
    assert answer_lines(found)[0].startswith(text)
    assert search_values(found)["state"] == state.value


def test_equal_anchors() -> None:
    found = search(rounds({0: 0, 3: 0}, 20), smallest=0.05)
    assert answer_lines(found)[0].startswith("not found: a and d are equal")
    assert [(row[0], *row[-2:]) for row in table(found).rows] == [("a", "good", ""), ("d", "", "")]


def test_a_version_that_one_round_measured_has_an_interval_too() -> None:
    found = search([*rounds({0: 0, 3: -0.1}), *rounds({0: 0, 1: 0, 2: -0.1, 3: -0.1}, 1)])
    drawn = chart(found)
    assert drawn
    assert [row.label.partition(":")[0] for row in drawn.rows] == ["b", "c", "d"]
    assert all((row.dots[0].low or 0) < row.dots[0].x < (row.dots[0].high or 0) for row in drawn.rows)
    assert ["(" in str(row[3]) for row in table(found).rows] == [False, True, True, True]


def test_skipped_versions() -> None:
    found = search(rounds({0: 0, 1: 0, 3: -0.1}), frozenset({2}))
    assert answer_lines(found)[0].startswith("found: one of c to d changed it")
    assert [row[4] for row in table(found).rows][2] == "skipped: no figures"
