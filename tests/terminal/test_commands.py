"""What each command prints, on terminals of different widths."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO, cast
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from matrix_runner.cli import _ACTIVITIES, _COMMANDS, cli, plan, screen
from matrix_runner.session.selected_matrix import load_selected
from tests.support import forked
from tests.support.screen import READABLE, ROOT, SHIPPED, too_long
from tests.support.terminal import Terminal

BAD = """
name: bad
disks: {count: 4, size: 64MiB}
layouts:
  raid5: [md: {level: 5, chunk: 100KiB, stripe_cache_size: a lot}]
workloads:
  sequential: {rw: read, bs: 1MiB, runtime: 200ms, iodepth: many}
"""
#: With `RESULTS` and `BAD` in place of what they name.
COMMANDS = (
    "plan --results RESULTS --cells --budget 1h MATRIX",
    "validate MATRIX",
    "validate BAD",
    "results --results RESULTS latest",
    "results --results RESULTS latest --pivot md.chunk",
    "results --results RESULTS latest --trials",
    "compare --results RESULTS latest latest",
    "compare --results RESULTS --by md.chunk 64KiB 512KiB --runs latest",
    "history --results RESULTS raid5/chunk=64KiB/sequential/rw=read",
    "report --results RESULTS latest",
    "guidelines list",
    "guidelines check --results RESULTS latest",
    "recommend --results RESULTS latest --for workload=random --script RESULTS/best.sh",
    "render MATRIX --to RESULTS/rendered",
    "runs --results RESULTS",
    "status --results RESULTS latest",
    "disks",
    "disks models",
    "doctor",
    "clean --dry-run",
    "results --results RESULTS a-run-that-does-not-exist",
    "results --no-such-option",
    "nonsense",
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the shipped matrix, synthetic."""
    folder = tmp_path_factory.mktemp("results")
    (folder / "bad.yaml").write_text(BAD)
    argv = ["run", "--on", "dry", "--quiet", "--results", str(folder), str(SHIPPED)]
    assert forked.run(argv, cwd=ROOT).returncode in {0, 1}
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_output_fits_a_narrow_terminal(command: str, results: Path) -> None:
    names = {"RESULTS": str(results), "MATRIX": str(SHIPPED), "BAD": str(results / "bad.yaml")}
    words = [names.get(word, word.replace("RESULTS", str(results))) for word in command.split()]
    with Terminal(["matrix", *words], columns=60, cwd=ROOT) as terminal:
        assert terminal.wait() in {0, 1, 2, 3}
        assert terminal.transcript
        assert too_long(terminal.written, 60) == []
        assert terminal.styles <= READABLE


def test_a_slow_command_shows_what_it_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def load_slowly(*words: Any, **options: Any) -> Any:
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join()
        return load_selected(*words, **options)

    monkeypatch.setattr(screen, "_PATIENCE", 0.0)
    monkeypatch.setattr(plan, "load_selected", load_slowly)
    with Terminal(["matrix", "plan", "--results", str(tmp_path), str(SHIPPED)], columns=60, cwd=ROOT) as terminal:
        assert terminal.wait() == 0
        first, *rest = terminal.transcript.splitlines()
    assert first == "checking the matrix and estimating its run …"
    assert "trials" in "".join(rest)


@pytest.mark.parametrize("command", ["recommend", "summary", "results latest --no-such-option"])
def test_a_usage_error_comes_without_a_note_about_work(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_slowly(name: str) -> Any:
        for thread in threading.enumerate():
            if isinstance(thread, threading.Timer):
                thread.join()
        monkeypatch.setattr(screen, "_PATIENCE", 3600.0)
        return import_module(name)

    monkeypatch.setattr(screen, "_PATIENCE", 0.0)
    monkeypatch.setattr("matrix_runner.cli.importlib.import_module", load_slowly)
    with Terminal(["matrix", *command.split()], columns=60) as terminal:
        assert terminal.wait() == 2
        assert "…" not in terminal.transcript


def test_tables_of_sentences_are_folded_in_a_pipe() -> None:
    printed = forked.run(["disks", "models"], cwd=ROOT).stdout
    assert "st3320620as" in printed
    assert too_long(printed.splitlines(), screen.WIDTH) == []


def test_a_quick_command_shows_only_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "columns_of", lambda _: 80)
    monkeypatch.setattr(screen, "_PATIENCE", 3600.0)
    start = screen.slow_start
    for show in (screen.echo, screen.echo_whole, screen.RunOutput().write):
        start.begin("checking")
        timer = start._timer
        assert timer
        show("text")
        timer.join()
    monkeypatch.setattr(screen, "columns_of", lambda _: 0)
    start.begin("checking")
    assert start._timer is None, "not into a file"


def test_the_output_of_a_run_asks_once_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Mock(return_value=False)
    monkeypatch.setattr(sys.stdout, "isatty", asked)
    output = screen.RunOutput()
    for _ in range(3):
        screen.echo("a trial", stream=cast("TextIO", output))
    assert asked.call_count == 1, "not a system call for each line"


def test_all_slow_commands_have_words() -> None:
    assert {*_ACTIVITIES} <= {*_COMMANDS}
    assert max(map(len, _ACTIVITIES.values())) < 58


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    below = command.list_commands(click.Context(command)) if isinstance(command, click.Group) else []
    found = [(name, command.get_command(click.Context(command), name)) for name in below]  # type: ignore[attr-defined]
    return [path, *(one for name, sub in found for one in commands(sub, (*path, name)))]


def help_of(path: tuple[str, ...], columns: int) -> list[str]:
    # click leaves two columns free.
    shown = CliRunner().invoke(cli, [*path, "--help"], prog_name="matrix", terminal_width=columns - 2)
    assert shown.exit_code == 0
    return shown.output.splitlines()


@pytest.mark.parametrize("path", commands(cli), ids=" ".join)
@pytest.mark.parametrize("columns", [60, 80, 110])
def test_help_fits_the_terminal(path: tuple[str, ...], columns: int) -> None:
    assert [line for line in help_of(path, columns) if cell_len(line) > columns] == []


def test_examples_in_help_can_be_pasted() -> None:
    shown = help_of(("compare",), 60)
    at = next(number for number, line in enumerate(shown) if line.endswith(" \\"))
    assert shown[at].strip().startswith("matrix compare ")
    assert shown[at + 1].startswith(" " * 6)
    beside = next(line for line in shown if "latest~1 latest" in line)
    assert beside.strip() == "matrix compare latest~1 latest", "its comment is on the next line"
