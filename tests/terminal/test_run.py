"""`matrix run`, watched on a real pseudo-terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "matrix/chunk-sweep.yaml"


@pytest.mark.parametrize("columns", [60, 80, 110, 200])
def test_a_run_ends_and_fits_the_terminal(columns: int, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "runner.cli", "run", "--on", "dry", "--results", str(tmp_path), str(SHIPPED)]
    with Terminal(argv, columns=columns, cwd=ROOT) as terminal:
        assert terminal.wait() in {0, 1}
        assert "results go to" in terminal.transcript
        assert "report.html" in terminal.transcript.replace("\n", "")
