"""A race: which cells it wants in each round, what leaves it, and when it ends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from matrix_runner.decide.steering import Race
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.work.fio.output import Figures
from tests.answers.rankings import _direction, cell

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

READ = "sequential/rw=read"


def trial(one: CellRow, round_number: int, rate: float) -> Trial:
    figures = Figures(_direction(rate, 1 << 20), None, 1.0, 1.0, 1.0, 0)
    return Trial(one.id, round_number, Outcome.MEASURED, figures=figures)


def measured(truth: Mapping[str, float], noise: float = 0.02, works: tuple[str, ...] = (READ,)) -> Iterator[Trial]:
    chance = np.random.default_rng(1)
    for round_number in range(1, 60):
        mood = 0.2 * chance.standard_normal()
        for stack, rate in truth.items():
            for work in works:
                value = rate * np.exp(mood + noise * chance.standard_normal())
                yield trial(cell(stack, work), round_number, float(value))


def run(truth: Mapping[str, float], least: int = 3) -> dict[str, int]:
    """Return the number of trials of each stack at the end of the race."""
    race = Race([cell(stack, READ) for stack in truth], 3, 0.95)
    counts = dict.fromkeys(truth, 0)
    for one in measured(truth, noise=0.06):
        if one.round <= least or one.cell in race.wanted(one.round):
            race.add(one)
            counts[one.cell.partition("/")[0]] += 1
    return counts


def test_a_clear_loser_gets_fewer_trials() -> None:
    counts = run({"raid5": 100.0, "raid6": 98.0, "disk": 40.0})
    assert counts["disk"] < counts["raid5"] == counts["raid6"] < 59


def test_a_race_among_equals_ends() -> None:
    counts = run({"a": 100.0, "b": 100.0, "c": 100.0, "d": 100.0})
    assert 3 < max(counts.values()) < 50


def test_a_larger_practical_difference_ends_a_race_earlier() -> None:
    truth = {"a": 100.0, "b": 100.0, "c": 99.0, "d": 98.0}

    def rounds(practical: float) -> int:
        race, last = Race([cell(stack, READ) for stack in truth], 3, 0.95, practical=practical), 0
        for one in measured(truth, noise=0.03):
            if one.round <= 3 or one.cell in race.wanted(one.round):
                race.add(one)
                last = one.round
        return last

    assert rounds(0.3) < rounds(0.05) < rounds(0.02)


def test_each_workload_has_its_own_race() -> None:
    stacks = {"a": 100.0, "b": 100.0}
    works = (READ, "sequential/rw=write")
    race = Race([cell(stack, work) for stack in stacks for work in works], 3, 0.95)
    for one in measured(stacks, works=works):
        if one.round <= 4:
            slow = "write" in one.cell and one.cell.startswith("b")
            rate = one.figures.total_bw / (1 << 20) if one.figures else 0.0
            race.add(
                trial(CellRow(one.cell, one.cell, {"workload": "sequential"}), one.round, rate / (3 if slow else 1))
            )
    wanted = race.wanted(5)
    assert {one for one in wanted if "write" in one} == set()
    assert {one for one in wanted if "read" in one} == {f"a/{READ}", f"b/{READ}"}
    assert race.reason() == "the race is not decided yet; out for sequential/rw=write: b, 1 left"
    read, write = race.ranking
    assert re.fullmatch(r"sequential/rw=read: (a, b|b, a) 0\.9\d\d×", read)
    assert write == "sequential/rw=write: over, a; 1 out"
    race.wanted(6)
    assert race.reason() == "the race is not decided yet"


def test_weighed_workloads_together_have_a_race_of_their_own() -> None:
    rates = {"a": (300.0, 100.0), "b": (100.0, 300.0), "c": (150.0, 150.0), "d": (60.0, 60.0)}
    works = (READ, "sequential/rw=write")

    def wanted(weights: Mapping[str, float]) -> set[str]:
        race = Race([cell(stack, work) for stack in rates for work in works], 3, 0.95, weights)
        chance = np.random.default_rng(2)
        for number in range(1, 5):
            for stack, several in rates.items():
                for work, rate in zip(works, several, strict=True):
                    race.add(trial(cell(stack, work), number, rate * float(np.exp(0.02 * chance.standard_normal()))))
        found = set(race.wanted(5))
        assert ("out for all together: c, d, 2 left" in race.reason()) == bool(weights)
        assert race.sizes == [4, 4]
        return found

    assert wanted({}) == set(), "each workload is decided"
    assert wanted({"sequential": 1.0}) == {f"{stack}/{work}" for stack in "ab" for work in works}


def test_its_own_trials_do_not_change_a_round() -> None:
    race = Race([cell("a", READ), cell("b", READ)], 3, 0.95)
    for one in measured({"a": 100.0, "b": 97.0}):
        if one.round <= 3:
            race.add(one)
        elif one.round == 4:
            before = race.wanted(4)
            race.add(trial(CellRow(one.cell, one.cell, {}), 4, 1e-3))
            assert race.wanted(4) == before


def test_a_single_stack_has_no_race() -> None:
    assert Race([cell("a", READ), cell("a", "mixed")], 3, 0.95).is_empty


def test_a_workload_without_figures_is_over() -> None:
    race = Race([cell("a", READ), cell("b", READ)], 3, 0.95)
    assert race.wanted(4) == {}


def test_a_round_does_not_decide_about_itself() -> None:
    """After a kill in a round, the same cells are wanted again."""
    clear = {"raid5": 100.0, "raid6": 98.0, "disk": 40.0}
    race, other = (Race([cell(stack, READ) for stack in clear], 3, 0.95) for _ in range(2))
    for one in measured(clear, noise=0.001):
        if one.round <= 6:
            race.add(one)
            other.add(one)
        elif one.round == 7:
            other.add(trial(CellRow(one.cell, one.cell, {}), 7, 1e3 if one.cell.startswith("disk") else 1.0))
    assert race.wanted(7) == other.wanted(7)
