"""Scripts that cells of a stack have in common are rendered once, and equal those that are rendered for each cell."""

from pathlib import Path

import pytest

from matrix_runner.scripts.cell import Rendered, cell_scripts, stack_scripts
from matrix_runner.space.load import load

SHIPPED = sorted((Path(__file__).parents[2] / "matrix").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shared_scripts_are_those_of_the_cell(path: Path) -> None:
    space = load(path).space
    rendered: dict[object, Rendered] = {}
    for cell in list(space.cells())[:400:7]:
        disks = tuple(f"/dev/disk/by-id/matrix-{number}" for number in range(len(space.matrix.every_disk())))
        view = stack_scripts(cell.stack, disks, zeroed=True).stack
        shared = rendered.setdefault(cell.stack.key, {})
        alone = cell_scripts(cell, view, None, space.matrix.monitor)
        assert cell_scripts(cell, view, None, space.matrix.monitor, shared) == alone
