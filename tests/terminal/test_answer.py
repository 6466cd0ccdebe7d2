"""The answer at the end of `matrix run`, on a real pseudo-terminal."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from matrix_runner.pages.answer import SYNTHETIC
from tests.support.answers import MATRIX
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("columns", [60, 110])
def test_the_answer_is_the_last_text_above_the_files(columns: int, tmp_path: Path) -> None:
    (tmp_path / "three.yaml").write_text(MATRIX)
    argv = ["matrix", "run", "--on", "dry", "--results", str(tmp_path / "r"), "three.yaml"]
    with Terminal(argv, columns=columns, cwd=tmp_path) as terminal:
        assert terminal.wait() == 0
        answer = terminal.transcript[terminal.transcript.rindex("Fastest stack by workload (95 % confidence):") :]
    note = "\n".join(textwrap.wrap(SYNTHETIC, columns, subsequent_indent="  "))
    words, _, files = answer.partition(note)
    assert "workloads" in words or "sequential/rw=write" in words
    assert "answer.txt" in files.replace("\n", "")
    assert "MB/s where" not in answer
