"""`--budget` as a user meets it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

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


def test_a_run_whose_budget_is_used_up_before_its_minimum_is_not_finished(run: Run, tmp_path: Path) -> None:
    status, said = run("--bytes-budget", "1kB")
    assert status == 3
    assert "2 trials of the minimum are missing; the same command with a larger budget continues the run" in said
    status, said = run()
    assert status == 0
    assert "budget" not in said
    assert len([one for one in (tmp_path / "results").iterdir() if one.is_dir()]) == 1


def test_what_programs_and_the_quiet_are_told_of_it(run: Run) -> None:
    status, said = run("--bytes-budget", "1kB", "--json")
    (end,) = [row for row in map(json.loads, said.splitlines()) if row["event"] == "end"]
    assert (status, end["exit"], end["finished"]) == (3, 3, False)
    status, said = run("--bytes-budget", "1kB", "--quiet")
    assert status == 3
    assert "trials of the minimum are missing" in said


def test_one_after_the_minimum_is_and_says_so(run: Run) -> None:
    status, said = run("--bytes-budget", "500MB")
    assert status == 0
    assert "the budget is used up: every cell has its minimum; " in said


def test_a_plan_tells_how_far_it_goes(call: Call, tmp_path: Path) -> None:
    (tmp_path / "budget.yaml").write_text(MATRIX)
    told = {}
    for much in ("1ms", "1h"):
        told[much] = call("plan", "--on", "dry", "--budget", much, "budget.yaml").out.splitlines()[-1].strip()
    assert told["1ms"] == "budget  not enough for 2 times each: for 0"
    assert told["1h"].startswith("budget  enough for 4 times each, the most there are to be; how well they will be")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "soon"), "'soon' is not a time"),
        (("--budget", "0s"), "'0s' buys nothing"),
        (("--bytes-budget", "12"), "'12' is no unit"),
    ],
)
def test_what_is_no_budget_is_bad_input(run: Run, words: tuple[str, str], said: str) -> None:
    status, output = run(*words)
    assert status == 2
    assert said in output
