"""The command in this very process: what it says and how it ends."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from runner.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass(frozen=True)
class Said:
    out: str
    err: str
    status: int


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MATRIX_STORE", raising=False)

    def called(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["matrix", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        gc.enable()  # which those that only answer do without
        said = capfd.readouterr()
        return Said(said.out, said.err, int(ended.value.code or 0))

    return called
