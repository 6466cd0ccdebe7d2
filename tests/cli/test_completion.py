"""What a shell completes: commands, names of runs, topics of `matrix help`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Call

Typed = Callable[[str], list[str]]


@pytest.fixture
def completed(tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> Typed:
    for number in (1, 2):
        past.recorded(tmp_path / "results", [past.measured("c1", 1, 1e8)], number, exit=0)
    past.recorded(tmp_path / "elsewhere", [past.measured("c1", 1, 1e8)], 7, exit=0)
    monkeypatch.setenv("_MATRIX_COMPLETE", "bash_complete")

    def typed(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        return call().out.splitlines()

    return typed


RUNS = ["plain,latest", "plain,run-1", "plain,run-2"]


@pytest.mark.parametrize(
    "command",
    [
        *("report", "results", "compare run-1", "compare", "runs rm", "runs tag", "runs exclude", "runs list"),
        *("bug-report", "summary", "explore", "chart", "site", "accept", "merge", "salvage", "status", "recommend"),
        *("guidelines check", "show x --run", "history --runs", "summary run-1 --against", "study x --run"),
    ],
)
def test_names_of_runs(completed: Typed, command: str) -> None:
    assert completed(f"matrix {command} ") == RUNS
    assert completed(f"matrix {command} run-2") == RUNS[2:]


def test_runs_of_another_folder_and_paths(completed: Typed) -> None:
    assert completed("matrix results --results elsewhere ") == ["plain,latest", "plain,run-7"]
    assert completed("matrix results else") == ["dir,else"]


def test_topics_of_help(completed: Typed) -> None:
    assert completed("matrix help ba") == ["plain,back-up"]
    assert completed("matrix help runs pr") == ["plain,prune"]
    assert completed("matrix help nigh") == ["plain,nightly-runner", "plain,nightly-without-github", "plain,nightly"]


@pytest.mark.parametrize(
    "command",
    [
        *("report", "bug-report", "results", "compare", "runs rm", "runs tag", "show x --run"),
        *("summary", "accept", "merge", "salvage", "recommend", "guidelines check", "explore", "history --runs"),
    ],
)
def test_names_are_there_at_once(completed: Typed, command: str) -> None:
    assert _completed_alone(f"matrix {command} ", most=400) == RUNS


@pytest.mark.usefixtures("completed")
@pytest.mark.parametrize("command", ["validate", "render", "run"])
def test_paths_are_there_at_once(command: str) -> None:
    assert _completed_alone(f"matrix {command} sw", most=200) == ["file,sw"]


def _completed_alone(line: str, *, most: int) -> list[str]:
    """Complete in a new process without heavy libraries, and with few modules."""
    code = (
        "import os, sys\n"
        f"os.environ.update(_MATRIX_COMPLETE='bash_complete', COMP_WORDS='{line}', COMP_CWORD='{line.count(' ')}')\n"
        "from matrix_runner.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'sqlalchemy', 'numpy', 'jinja2', 'ruamel'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        f"assert len(sys.modules) < {most}, len(sys.modules)"
    )
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.splitlines()
