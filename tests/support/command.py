"""The command in this very process: what it says and how it ends."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest

from matrix_runner.base import process
from matrix_runner.cli import main
from tests.support.matrices import SMALL
from tests.support.prepared import run_once

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Said:
    out: str
    err: str
    status: int


Call = Callable[..., Said]
Matrix = Callable[..., subprocess.CompletedProcess[str]]


@cache
def _answer(argv: tuple[str, ...], stdin: str, _path: str) -> subprocess.CompletedProcess[str]:
    return process.run(argv, stdin=stdin)


def _run_once(argv: Sequence[str], *, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Ask for the facts of this host once in a process of tests: it takes 0.1 s."""
    return process.run(argv, timeout=timeout) if argv[0] == "git" else _answer(tuple(argv), stdin, os.environ["PATH"])


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MATRIX_STORE", raising=False)
    monkeypatch.setattr("matrix_runner.scripts.cell.run", run_once)
    monkeypatch.setattr("matrix_runner.session.host_facts.run", _run_once)
    # Estimates name the load of a busy host: the tests beside this one are none of its business.
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))

    def called(*arguments: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["matrix", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        gc.enable()  # which those that only answer do without
        said = capfd.readouterr()
        return Said(said.out, said.err, int(ended.value.code or 0))

    return called


@pytest.fixture
def matrix(call: Call, tmp_path: Path) -> Matrix:
    """`matrix ARGUMENT ...` beside a small matrix, in the words of `subprocess.run`."""
    (tmp_path / "small.yaml").write_text(SMALL)

    def completed(*arguments: str) -> subprocess.CompletedProcess[str]:
        said = call(*arguments)
        return subprocess.CompletedProcess(arguments, said.status, said.out, said.err)

    return completed
