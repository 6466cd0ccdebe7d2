"""The pass over manifests: a sample of it, on one field and few commands."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from bench import run_folders

if TYPE_CHECKING:
    from pathlib import Path


def test_each_place_gets_each_boundary() -> None:
    disks = [{"size": 1}, {"size": 2}]
    manifest = {"id": "a", "disks": disks, "note": {"a": "x", "b": "y"}}
    assert list(run_folders.places(manifest)) == [
        *(("id",), ("disks",), ("disks", 0), ("disks", 0, "size"), ("note",), ("note", "a"))
    ]
    assert run_folders.changed(manifest, ("disks", 0, "size"), ...) == manifest | {"disks": [{}, {"size": 2}]}
    assert disks[0] == {"size": 1}


def test_commands_answer_or_refuse_a_changed_manifest(tmp_path: Path) -> None:
    words = ("--only", "exit", "--values", "1", "--commands", "results,status,resume")
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "bench.run_folders", *words], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "{'refused': 1, 'calls': 4, 'taken': 1}; 0 wrong, 0 kinds\n"
    assert list(tmp_path.iterdir()) == []
