"""`matrix plan --race` and `--detect`: how many trials an answer takes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from matrix_runner.carry.past_timings import pace_of
from matrix_runner.cli import plan
from matrix_runner.decide.steering import forecast
from matrix_runner.statistics.ratios import rounds_to_detect, t_factor
from tests.support.matrices import SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call

FIVE = SMALL.replace("chunk: [16KiB, 64KiB]", "chunk: [4KiB, 16KiB, 64KiB, 256KiB, 1MiB]")


def test_a_race_needs_fewer_trials_than_all_cells_and_noise_costs_more() -> None:
    quiet, loud = (forecast([5, 5], 3, noise, 0.95) for noise in (0.01, 0.05))
    assert 2 * 5 * 3 < quiet.trials < loud.trials < loud.unraced
    assert loud.trials < loud.most


def test_the_rounds_to_detect_show_the_difference_in_nine_of_ten_runs() -> None:
    rounds = rounds_to_detect(0.05, 0.03, 0.95)
    assert rounds
    chance = np.random.default_rng(1)
    apart = np.log(1.05) + 0.03 * np.sqrt(2) * chance.standard_normal((4000, rounds))
    low = apart.mean(axis=1) - t_factor(rounds - 1, 0.95) * apart.std(axis=1, ddof=1) / np.sqrt(rounds)
    assert 0.89 < float((low > 0).mean()) < 0.95
    assert rounds_to_detect(1e-6, 0.5, 0.95) is None


def test_plan_prints_both(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    said = call("plan", "--on", "dry", "--race", "--detect", "5%", "small.yaml")
    assert "race  about " in said.out
    assert "every cell for as many rounds: " in said.out
    assert "if trials scatter by 3 %, an assumption before the first run" in said.out
    assert "show 5 % between two cells in 9 of 10 runs (95 % confidence)" in said.out
    found = json.loads(call("plan", "--on", "dry", "--race", "--detect", "5%", "--format", "json", "small.yaml").out)
    assert found["race"]["trials"] < found["race"]["unraced"]
    assert found["rounds_to_detect"] == rounds_to_detect(0.05, 0.03, 0.95)


def test_the_scatter_of_past_runs_counts(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    monkeypatch.setattr(plan, "pace_of", lambda *words: replace(pace_of(*words), scatter=0.1, scattered=2))
    said = call("plan", "--on", "dry", "--race", "--for", "rw=read", "small.yaml")
    assert "if trials scatter by 10 % as in 2 recorded runs on dry" in said.out


@pytest.mark.parametrize("size", ["5", "0%", "-1%", "much"])
def test_a_difference_is_a_percentage_above_zero(size: str, call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    said = call("plan", "--detect", size, "small.yaml")
    assert said.status == 2
    assert "--detect" in said.err


def test_a_plan_without_a_choice_is_refused(call: Call, tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(FIVE)
    said = call("plan", "--race", "--only", "chunk=4KiB", "small.yaml")
    assert (said.status, "no workload with several stacks" in said.err) == (2, True)
