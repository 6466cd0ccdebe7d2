"""Where trials go so that guidelines are decided, and when it is looked whether they are."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.guidelines import drawn
from bench.stated import RATIO, decides_at_the_edge
from matrix_runner.answers.verdicts import MOST, Judgement, Steering, judge_guidelines, looks
from matrix_runner.language.guidelines import Guideline
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.work.fio.output import Direction, Figures
from tests.answers.world import cells, guideline
from tests.support.facts import noted

FIELD = cells(layout=["raid0", "far", "single"])


def compare(other: str, within: str = "10%", name: str = "one") -> Guideline:
    claim = {"metric": "read.bw", "of": {"layout": other}, "to": {"layout": "raid0"}, "within": within}
    return guideline(ratio=claim).model_copy(update={"id": name})


def trial(cell: CellRow, round_number: int, bw: float, **notes: str) -> Trial:
    read = Direction(bw, bw, 1, 1, *[None] * 8)
    return Trial(cell.id, round_number, Outcome.MEASURED, figures=Figures(read, None, 1, 1, 1, 0), **noted(notes))


def steered(*guidelines: Guideline) -> Steering:
    return Steering(guidelines, FIELD, 3)


def feed(steering: Steering, round_number: int, **bw: float) -> None:
    for cell in FIELD:
        steering.add(trial(cell, round_number, bw.get(cell.axes["layout"], 100.0)))


def test_only_cells_of_what_is_open_are_wanted() -> None:
    steering = steered(compare("far"), compare("single", name="other"))
    for round_number, noise in enumerate((0.0, 0.01, -0.01), start=1):
        feed(steering, round_number, raid0=100.0, far=100.0 + noise, single=100.0 * (1 + 20 * noise))
    assert set(steering.wanted(4)) == {"layout=raid0", "layout=single"}


def test_more_trials_are_no_use_for_what_the_host_leaves_open() -> None:
    steering = steered(compare("far"))
    for round_number, noise in enumerate((0.0, 0.2, -0.2), start=1):
        for cell in FIELD:
            lost = {"host_limited": "20% of the time was lost"} if cell.axes["layout"] == "far" else {}
            steering.add(trial(cell, round_number, 100.0 + noise, **lost))
    assert steering.wanted(4) == {}


def test_verdicts_that_the_host_left_open_are_judged_again() -> None:
    steering = steered(compare("far"))
    for round_number in range(1, 40):
        for cell in FIELD:
            slowed = cell.axes["layout"] == "far" and round_number <= 3
            lost = {"host_limited": "20% of the time was lost"} if slowed else {}
            steering.add(trial(cell, round_number, 100.0 + round_number % 3, **lost))
        wanted = steering.wanted(round_number + 1) if round_number >= 3 else {}
        if round_number == 3:
            assert wanted == {}
    assert not steering._open


def test_the_claim_nearest_to_a_decision_has_the_most_weight() -> None:
    steering = steered(compare("far"), compare("single", name="other"))
    for round_number, noise in enumerate((0.0, 0.1, -0.1), start=1):
        feed(steering, round_number, far=100.0 * (1 + noise), single=100.0 * (1 + 3 * noise))
    wanted = steering.wanted(4)
    assert wanted["layout=raid0"] == wanted["layout=far"] > wanted["layout=single"] > 0


def test_it_is_looked_seldom() -> None:
    steering = steered(compare("far"))
    for round_number, noise in enumerate((0.0, 0.2, -0.2, 0.0, 0.0, 0.0), start=1):
        feed(steering, round_number, far=100.0 * (1 + noise) if round_number < 4 else 100.0)
        if round_number >= 3:
            assert steering.wanted(round_number + 1), "it is open at 3 and 4, and at 5 it is seen that it still is"


def test_decided_claims_want_no_more_trials() -> None:
    steering = steered(compare("far"))
    for round_number in (1, 2, 3):
        feed(steering, round_number, far=100.0 + round_number / 100)
    assert steering.wanted(4) == {}


def test_broken_cells_do_not_delay_a_decision() -> None:
    steering = steered(compare("far"))
    for round_number in (1, 2, 3):
        for cell in FIELD:
            broken = cell.axes["layout"] == "far"
            steering.add(
                Trial(cell.id, round_number, Outcome.BROKEN, "x") if broken else trial(cell, round_number, 100.0)
            )
    assert steering.wanted(4) == {}


def test_trials_within_a_round_do_not_change_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counter[int]()

    def counting(*asked: Any, **how: Any) -> list[Judgement]:
        counted[round_number] += 1
        return judge_guidelines(*asked, **how)

    monkeypatch.setattr("matrix_runner.answers.verdicts.judge_guidelines", counting)
    steering = steered(compare("far", within="20%"))
    for round_number, noise in enumerate((0.0, 0.2, -0.2), start=1):
        feed(steering, round_number, far=100.0 * (1 + noise))
    for round_number in (4, 5, 6):
        wanted = dict(steering.wanted(round_number))
        assert set(wanted) == {"layout=raid0", "layout=far"}
        for cell in FIELD:  # by any of these it would be decided, or another number of rounds would do
            steering.add(trial(cell, round_number, 5000.0 if cell.axes["layout"] == "far" else 1e-3))
            assert steering.wanted(round_number) == wanted
    assert counted == {4: 1, 5: 1}, "6 is behind no look"


def test_a_run_resumed_within_a_round_keeps_its_plan() -> None:
    noisy = (0.0, 0.2, -0.2, 0.1, -0.1)
    before, after = steered(compare("far")), steered(compare("far"))
    for steering, rounds in ((before, 3), (after, 5)):
        for round_number, noise in enumerate(noisy[:rounds], start=1):
            feed(steering, round_number, far=100.0 * (1 + noise))
    assert after.wanted(4) == before.wanted(4) != {}


@given(st.integers(1, 30))
def test_looks_lie_farther_and_farther_apart(least: int) -> None:
    found = list(looks(least))
    assert found[0] == max(2, least)
    assert found[-1] <= MOST
    steps = [later - earlier for earlier, later in pairwise(found)]
    assert steps == sorted(steps)
    assert len(found) <= 13


@pytest.mark.parametrize(("correlation", "most"), [(0.0, 0.05), (0.5, 0.08), (0.8, 0.1)])
def test_correlated_rounds_hardly_ever_decide_a_claim_at_its_limit(correlation: float, most: float) -> None:
    """With the scatter of independent trials, 41 % and 87 % are decided."""
    chance = np.random.default_rng(3)
    assert sum(decides_at_the_edge(correlation, rounds=28)(chance) for _ in range(60)) <= most * 60


def test_a_verdict_on_correlated_trials_has_a_note() -> None:
    chance = np.random.default_rng(5)
    for correlation, has_note in ((0.0, False), (0.8, True)):
        (found,) = judge_guidelines([RATIO.claim], drawn(RATIO, RATIO.edge, 0.02, 60, chance, correlation=correlation))
        assert (found.results[0].correlation is not None) is has_note
        assert any("trials are correlated" in note for note in found.notes) is has_note
