"""`kill -9` of runs whose trials are chosen by their figures: the same command measures the same trials, each once."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.support.choices import BEST, FIVE, SCREEN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.command import Call

COMMAND = (sys.executable, "-m", "matrix_runner.cli")
CASES = {
    "screen": (SCREEN, ("--design", "screen:60")),
    "race": (FIVE, ("--race",)),
    "find": (BEST.replace("VALUES", "default, 256, 512, 1024, 2048, 4096, 8192"), ()),
}
AT_NIGHT = pytest.mark.exhaustive


def trials(folder: Path) -> list[tuple[str, int]]:
    for journal in (folder / "results").glob("*/journal.sqlite"):
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as connection:
            return sorted(connection.execute("select cell, round from trials"))
    return []


def undisturbed(call: Call, folder: Path, case: str) -> list[tuple[str, int]]:
    matrix, options = CASES[case]
    (folder / "whole").mkdir()
    (folder / "m.yaml").write_text(matrix)
    assert call("run", "--on", "dry", "--results", "whole/results", *options, "m.yaml").status == 0
    return trials(folder / "whole")


def killed_once(folder: Path, after: int, *options: str) -> int:
    """Kill the run when it has this many trials, and give its command again; return the trials before that."""
    words = (*COMMAND, "run", "--on", "dry", "--json", *options, "m.yaml")
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as first:
        assert first.stdout
        for _ in first.stdout:  # a line for each trial
            if len(trials(folder)) >= after:
                break
        first.kill()
    before = len(trials(folder))
    again = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    return before


@pytest.mark.parametrize("case", CASES)
def test_jobs_of_a_killed_run_go_on_to_the_same_trials(case: str, call: Call, tmp_path: Path) -> None:
    whole = undisturbed(call, tmp_path, case)
    before = killed_once(tmp_path, len(whole) // 2, "--jobs", "2", *CASES[case][1])
    assert 0 < before < len(whole)
    assert trials(tmp_path) == whole


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with ExitStack() as stack:
        for words in (("cluster", "scheduler"), ("worker", "--host", "a"), ("worker", "--host", "b")):
            member = subprocess.Popen(
                (*COMMAND, *words, "--cluster", address, "--insecure"),
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.callback(member.communicate)
            stack.callback(member.terminate)
            assert member.stdout
            line = "the scheduler listens" if words[0] == "cluster" else "joined"
            assert any(line in one for one in iter(member.stdout.readline, ""))
        yield address


@pytest.mark.parametrize("case", ["race", *(pytest.param(one, marks=AT_NIGHT) for one in ("screen", "find"))])
def test_a_cluster_goes_on_with_a_killed_run_to_the_same_trials(case: str, call: Call, tmp_path: Path) -> None:
    whole = undisturbed(call, tmp_path, case)
    with cluster(tmp_path) as address:
        options = ("--cluster", address, "--insecure", *CASES[case][1])
        before = killed_once(tmp_path, len(whole) // 2, *options)
    assert 0 < before < len(whole)
    assert trials(tmp_path) == whole
