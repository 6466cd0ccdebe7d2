"""Ctrl-C while the program starts: it ends with 130 and one word, never with a traceback or a crash."""

from __future__ import annotations

import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.support.screen import ROOT
from tests.support.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

#: Starts the command as its script does, and waits where a module is imported.
START = """
import sys, time
class Waits:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            print("importing", name, flush=True)
            time.sleep(60)
from {module} import {function}
sys.meta_path.insert(0, Waits())
wanted, sys.argv = sys.argv[1], ["matrix", "runs"]
{function}()
"""


@pytest.mark.parametrize(
    "module",
    [
        "matrix_runner.cli",
        "click",
        "inspect",
        "matrix_runner.cli.screen",
        "orjson",
        "json.decoder",  # by orjson, which crashes
        "matrix_runner.cli.runs",
        "matrix_runner.records.store",
        "sqlalchemy",
        "sqlalchemy.dialects.sqlite",
    ],
)
def test_an_interrupted_import_shows_one_word(tmp_path: Path, module: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    where, _, function = project["scripts"]["matrix"].partition(":")
    with Terminal([sys.executable, "-c", START.format(module=where, function=function), module], cwd=tmp_path) as shown:
        shown.wait_for(f"importing {module}")
        shown.type("\x03")
        assert shown.wait() == 130
        assert shown.transcript.splitlines()[-1] == "interrupted"
        assert "Traceback" not in shown.transcript
