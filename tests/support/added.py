"""A copy of the package with more lines, to see that a line in a table is enough."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import matrix_runner

ROOT = Path(__file__).parents[2]


def run_with_lines(folder: Path, script: str, *added: tuple[str, str, str]) -> dict[str, Any]:
    """Return the JSON that a script prints. `added`: a file, the only place before which lines are added, and these."""
    package = folder / "matrix_runner"
    shutil.copytree(Path(matrix_runner.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, place, lines in added:
        before, after = (package / name).read_text(encoding="utf-8").split(place)
        (package / name).write_text(f"{before}{lines}{place}{after}", encoding="utf-8")
    path = os.pathsep.join((str(folder), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found
