"""`--budget` as a user meets it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_commands import ROOT

MATRIX = """\
name: small
disks: {count: 1, size: 64MiB}
layouts: {disk: [disk]}
workloads: {work: {rw: [read, write], bs: 4KiB, runtime: 1s}}
repeat: {min: 2, max: 4, until: 0.0001%}
"""


def run(folder: Path, *words: str) -> tuple[int, str]:
    (folder / "budget.yaml").write_text(MATRIX)
    command = [sys.executable, "-m", "runner.cli", "run", "--on", "dry", *words, "budget.yaml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_run_whose_budget_is_used_up_before_its_minimum_is_not_finished(tmp_path: Path) -> None:
    status, said = run(tmp_path, "--bytes-budget", "1kB")
    assert status == 3
    assert "2 trials of the minimum are missing; a larger one, or none, goes on with them" in said
    status, said = run(tmp_path)
    assert status == 0
    assert "budget" not in said
    assert len([one for one in (tmp_path / "results").iterdir() if one.is_dir()]) == 1


def test_what_programs_and_the_quiet_are_told_of_it(tmp_path: Path) -> None:
    status, said = run(tmp_path, "--bytes-budget", "1kB", "--json")
    (end,) = [row for row in map(json.loads, said.splitlines()) if row["event"] == "end"]
    assert (status, end["exit"], end["finished"]) == (3, 3, False)
    status, said = run(tmp_path, "--bytes-budget", "1kB", "--quiet")
    assert status == 3
    assert "trials of the minimum are missing" in said


def test_one_after_the_minimum_is_and_says_so(tmp_path: Path) -> None:
    status, said = run(tmp_path, "--bytes-budget", "500MB")
    assert status == 0
    assert "the budget is used up: every cell has its minimum, and " in said


def test_a_plan_tells_how_far_it_goes(tmp_path: Path) -> None:
    (tmp_path / "budget.yaml").write_text(MATRIX)
    told = {}
    for much in ("1ms", "1h"):
        command = [sys.executable, "-m", "runner.cli", "plan", "--on", "dry", "--budget", much, "budget.yaml"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        told[much] = done.stdout.splitlines()[-1].strip()
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
def test_what_is_no_budget_is_bad_input(tmp_path: Path, words: tuple[str, str], said: str) -> None:
    status, output = run(tmp_path, *words)
    assert status == 2
    assert said in output
