"""`--budget` as a user meets it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.cli import plan
from matrix_runner.decide.estimate import Pace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.command import Call

    Run = Callable[..., tuple[int, str]]

MATRIX = """\
name: small
disks: {count: 1, size: 64MiB}
layouts: {disk: [disk]}
workloads: {work: {rw: [read, write], bs: 4KiB, runtime: 1s}}
repeat: {min: 2, max: 4, until: 0.0001%}
"""


@pytest.fixture
def run(call: Call, tmp_path: Path) -> Run:
    (tmp_path / "budget.yaml").write_text(MATRIX)

    def ran(*words: str) -> tuple[int, str]:
        said = call("run", "--on", "dry", *words, "budget.yaml")
        return said.status, said.out + said.err

    return ran


def test_a_budget_below_the_minimum_leaves_the_run_unfinished(run: Run, tmp_path: Path) -> None:
    status, said = run("--bytes-budget", "1kB")
    assert status == 3
    assert "2 trials of the minimum are missing; the same command with a larger budget continues the run" in said
    status, said = run()
    assert status == 0
    assert "budget" not in said
    assert len([one for one in (tmp_path / "results").iterdir() if one.is_dir()]) == 1


def test_json_and_quiet_report_a_budget_below_the_minimum(run: Run) -> None:
    status, said = run("--bytes-budget", "1kB", "--json")
    (end,) = [row for row in map(json.loads, said.splitlines()) if row["event"] == "end"]
    assert (status, end["exit"], end["finished"]) == (3, 3, False)
    status, said = run("--bytes-budget", "1kB", "--quiet")
    assert status == 3
    assert "trials of the minimum are missing" in said


def test_a_budget_above_the_minimum_finishes_the_run(run: Run) -> None:
    status, said = run("--bytes-budget", "500MB")
    assert status == 0
    assert "the budget is used up: every cell has its minimum; " in said


def test_a_plan_shows_what_a_budget_covers(call: Call, tmp_path: Path) -> None:
    (tmp_path / "budget.yaml").write_text(MATRIX)
    told = {}
    for much in ("1ms", "1h"):
        told[much] = call("plan", "--on", "dry", "--budget", much, "budget.yaml").out.splitlines()[-1].strip()
    assert told["1ms"] == "budget  enough for 0 trials of each cell; the minimum is 2"
    assert told["1h"].startswith(
        "budget  enough for 4 trials of each cell, the maximum; the width of intervals is unknown"
    )


def test_a_plan_prints_percentages_like_all_other_texts(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "budget.yaml").write_text(MATRIX)
    known = replace(Pace(), scatter=0.0612, runs=3)
    monkeypatch.setattr(plan, "pace_of", lambda *_: known)
    said = " ".join(call("plan", "--on", "dry", "--budget", "1h", "budget.yaml").out.split())
    assert "intervals of ±9.7 % if trials scatter by 6.1 % as in 3 recorded runs on dry" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "soon"), "'soon' is not a time"),
        (("--budget", "0s"), "'0s' must be larger than 0"),
        (("--bytes-budget", "12"), "'12' is no unit"),
    ],
)
def test_a_malformed_budget_is_bad_input(run: Run, words: tuple[str, str], said: str) -> None:
    status, output = run(*words)
    assert status == 2
    assert said in output
