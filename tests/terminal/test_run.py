"""`matrix run`, watched on a real pseudo-terminal."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.screen import READABLE, ROOT, SHIPPED, too_long
from tests.support.terminal import Terminal

CTRL_C = "\x03"
COLOURS = {str(number) for first in (30, 40, 90, 100) for number in range(first, first + 10)}

LONG = """
name: long
disks: {count: 4, size: 64MiB}
layouts:
  raid5:  [md: {level: 5, chunk: [64KiB, 512KiB]}]
  raid10: [md: {level: 10, layout: n2, chunk: [64KiB, 512KiB]}]
workloads:
  sequential: {rw: [read, write], bs: 1MiB}
repeat: 10
"""
#: A status line that says that some of its trials are done, and others not.
UNDER_WAY = r"\b[1-9]\d*/80\b"

TINY = """
name: tiny
disks: {count: 6, size: 64MiB}
layouts:
  raid1: [disks: {count: 2}, md: {level: 1}]
workloads:
  sequential: {rw: [read, write], bs: 1MiB, runtime: 200ms}
repeat: 2
"""


def run(matrix: Path, results: Path, *words: str) -> list[str]:
    return ["matrix", "run", "--results", str(results), *words, str(matrix)]


@pytest.fixture
def long(tmp_path: Path) -> list[str]:
    """The command of a run that somebody has time to interrupt."""
    (tmp_path / "long.yaml").write_text(LONG)
    return run(tmp_path / "long.yaml", tmp_path / "results", "--on", "dry")


def continues(command: list[str]) -> None:
    """The same command goes on, to the end."""
    with Terminal(command, cwd=ROOT) as terminal:
        assert terminal.wait() == 0, terminal.transcript
        assert "continuing the run of" in terminal.transcript
        assert terminal.transcript.replace("\n", " ").endswith("under cells/")


@pytest.mark.parametrize("columns", [60, 80, 110, 200])
def test_a_run_fits_the_terminal_to_its_last_line(columns: int, tmp_path: Path) -> None:
    with Terminal(run(SHIPPED, tmp_path, "--on", "dry"), columns=columns, cwd=ROOT) as terminal:
        assert terminal.wait() in {0, 1}
        assert too_long(terminal.written, columns) == []
        assert "raid10/chunk=512KiB" in terminal.transcript
        assert "report.html" in terminal.transcript
        assert terminal.transcript.replace("\n", " ").endswith("under cells/")
        assert "/96" not in terminal.transcript, "the status line is gone at the end"
        assert terminal.styles <= READABLE
        assert terminal.styles & COLOURS or columns < 110


def test_no_color_is_respected(long: list[str]) -> None:
    with Terminal(long, cwd=ROOT, env={"NO_COLOR": "1"}) as terminal:
        terminal.wait()
        assert not terminal.styles & COLOURS


def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path) -> None:
    with Terminal(run(SHIPPED, tmp_path, "--on", "dry"), columns=60, cwd=ROOT, env={"TERM": "dumb"}) as terminal:
        assert terminal.wait() in {0, 1}
        assert b"\x1b" not in terminal.raw
        assert "[96/96]" in terminal.transcript
        assert too_long(terminal.written, 60) == []


def test_the_terminal_may_become_narrower(long: list[str]) -> None:
    with Terminal(long, columns=200, cwd=ROOT) as terminal:
        terminal.wait_for_match(UNDER_WAY)
        terminal.resize(60, 40)
        assert terminal.wait() == 0
        said = terminal.written
        assert too_long(said[said.index(next(line for line in said if line.startswith("long on dry"))) :], 60) == []


def test_ctrl_c_ends_a_run_in_order_and_the_same_command_continues(long: list[str]) -> None:
    with Terminal(long, columns=80, cwd=ROOT) as terminal:
        terminal.wait_for_match(UNDER_WAY)
        terminal.type(CTRL_C)
        assert terminal.wait() == 130
        assert not re.search(UNDER_WAY, terminal.transcript), "no status line is left behind"
        assert terminal.transcript.count("stopping: the rigs end") == 1
        assert "this command continues" in terminal.transcript.replace("\n", " ")
        assert f"  {shlex.join(long)}" in terminal.written, "a command to copy"
        assert re.search(r"long on dry.*; incomplete: [1-9]\d? of 80 trials", terminal.transcript)
        assert "Fastest stack by workload, so far" in terminal.transcript
        assert "MB/s: 10⁶ bytes per second" in terminal.transcript
        assert "Traceback" not in terminal.transcript
        assert terminal.left_behind == []
    continues(long)


def test_ctrl_c_twice_ends_it_too(long: list[str]) -> None:
    with Terminal(long, cwd=ROOT) as terminal:
        terminal.wait_for_match(UNDER_WAY)
        terminal.type(CTRL_C)
        terminal.type(CTRL_C)
        assert terminal.wait() == 130
        assert "Traceback" not in terminal.transcript
        assert terminal.left_behind == []
    continues(long)


def test_a_terminal_that_is_closed_leaves_nothing_behind(long: list[str]) -> None:
    with Terminal(long, cwd=ROOT) as terminal:
        terminal.wait_for_match(UNDER_WAY)
        assert terminal.hang_up() == 130
        assert terminal.left_behind == []
    continues(long)


@pytest.mark.vm
def test_ctrl_c_on_qemu_leaves_nothing_behind_and_the_same_command_continues(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    command = run(tmp_path / "tiny.yaml", tmp_path / "results")
    with Terminal(command, columns=80, cwd=ROOT) as terminal:
        terminal.wait_for_match(r"\b[1-3]/4\b", patience=250)
        terminal.type(CTRL_C)
        assert terminal.wait() == 130
        assert terminal.left_behind == []
    with Terminal(command, columns=80, cwd=ROOT) as terminal:
        assert terminal.wait(250) == 0
        assert too_long(terminal.written, 80) == []
        assert "raid1" in terminal.transcript
        assert terminal.transcript.replace("\n", " ").endswith("under cells/")
