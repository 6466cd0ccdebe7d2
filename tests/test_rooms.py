"""The order of the rooms: each imports rooms below it only, as pyproject.toml declares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from importlinter.cli import lint_imports

if TYPE_CHECKING:
    import pytest


def test_imports_go_down(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])
    assert lint_imports(no_cache=True, no_logo=True) == 0, capsys.readouterr().out
