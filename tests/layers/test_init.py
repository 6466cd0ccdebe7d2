"""The registry of layers: each kind is found, and imported only for a matrix that uses it."""

import subprocess
import sys
from pathlib import Path

import pytest

from matrix_runner.layers import LAYERS

ROOT = Path(__file__).parents[2]
#: Modules that `scripts/stack.py` needs for each matrix.
ALWAYS = {"base", "geometry", "needs", "bare", "fs", "md", "partition"}


def test_each_kind_is_that_of_its_class() -> None:
    assert {kind: layer.kind for kind, layer in LAYERS.items()} == {kind: kind for kind in LAYERS}


@pytest.mark.parametrize(
    ("matrix", "used"),
    [("chunk-sweep", set()), ("ssd-cache", {"lvm", "dm", "bcache"}), ("two-lost-disks", {"zfs", "dm"})],
)
def test_a_matrix_imports_only_the_layers_that_it_has(matrix: str, used: set[str]) -> None:
    code = (
        "import sys, pathlib; from matrix_runner.space.load import load; "
        "load(pathlib.Path(sys.argv[1])).space; import matrix_runner.scripts.stack; "
        "print(*(name.rpartition('.')[2] for name in sys.modules if name.startswith('matrix_runner.layers.')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, f"matrix/{matrix}.yaml"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) == ALWAYS | used
