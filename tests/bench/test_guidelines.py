"""What is promised of verdicts, in few runs of few kinds; `python -m bench.guidelines` has them all."""

import numpy as np
import pytest

from bench.guidelines import CASES, Case, drawn, in_noise, shares, steered, verdict
from matrix_runner.answers.cell_figures import Verdict
from matrix_runner.language.guidelines import SHAPES

RUNS = 200
#: Of 200 runs, each with a chance of 5 %, more than this have it once in a thousand times.
MOST = 0.11


def test_every_shape_is_simulated() -> None:
    assert {case.shape for case in CASES} == set(SHAPES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.shape)
def test_on_the_edge_of_truth_hardly_any_run_gets_a_verdict(case: Case) -> None:
    for noise, rounds in ((0.02, 3), (0.1, 8)):
        assert 1 - shares(case, case.edge, noise, rounds, RUNS, seed=5)[Verdict.INCONCLUSIVE] <= MOST


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.shape)
def test_nor_does_any_in_pure_noise(case: Case) -> None:
    assert in_noise(case, RUNS, seed=5) <= MOST


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.shape)
def test_false_claims_fail(case: Case) -> None:
    said = shares(case, case.false, 0.03, 5, 50, seed=5)
    assert said[Verdict.FAILS] >= 0.9
    assert said[Verdict.HOLDS] == 0


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.shape)
def test_a_single_trial_is_never_enough(case: Case) -> None:
    chance = np.random.default_rng(5)
    for truth in (case.edge, case.false, case.true):
        assert verdict(case, drawn(case, truth, 0.05, 1, chance)) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("case", [CASES[2], CASES[6]], ids=lambda case: case.shape)
def test_looking_until_it_is_decided_errs_no_more(case: Case) -> None:
    assert steered(case, 0.05, 100, seed=5, most=42) <= 0.13
