"""`matrix render`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.inputs import asked, matrix_file, only, templates
from runner.errors import BadInput

if TYPE_CHECKING:
    from runner.expand.space import Cell


@click.command("render", epilog="Example:  matrix render matrix/chunk-sweep.yaml 'raid5/*' --to /tmp/raid5")
@matrix_file
@click.argument("cells", nargs=-1)
@only
@templates
@click.option("--to", type=click.Path(path_type=Path, file_okay=False), default=Path("rendered"), show_default=True)
@click.option("--disks", help="Paths of the disks, separated by commas, to write into the scripts.")
def command(
    matrix: Path, cells: tuple[str, ...], only: tuple[str, ...], templates: Path | None, to: Path, disks: str | None
) -> None:
    """Write the scripts and fio jobs of CELLS (ids, names, patterns; all if none is given) without running them."""
    request = asked(matrix, only)
    count = len(request.space.matrix.disks.each())
    paths = disks.split(",") if disks else [f"/dev/disk/by-id/matrix-{number}" for number in range(count)]
    if len(paths) != count:
        raise BadInput(f"--disks names {len(paths)} disks, and the matrix declares {count}")
    written = 0
    for cell in request.selection.cells():
        if _meant(cell, cells):
            _write(cell, paths, to, templates, request.space.matrix.seed)
            written += 1
    if not written:
        raise BadInput(
            f"no cell is called {' or '.join(cells)}", resolution="`matrix plan --cells` lists their names and ids"
        )
    click.echo(f"{written} cell{'s' if written != 1 else ''} written to {to}/")


def _meant(cell: Cell, patterns: tuple[str, ...]) -> bool:
    from fnmatch import fnmatchcase

    return not patterns or any(
        pattern in (cell.id, cell.name) or fnmatchcase(cell.name, pattern) for pattern in patterns
    )


def _write(cell: Cell, disks: list[str], to: Path, own: Path | None, seed: int) -> None:
    from runner.render.scripts import array_scripts, cell_scripts, files_of, job, trial_seed
    from runner.store.run import parts_of

    array = array_scripts(cell.array, disks, zeroed=False, own=own)
    files = files_of(array, cell_scripts(cell, array.stack, own))
    folder = to.joinpath(*parts_of(cell.name))
    (folder / "trial-1").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "trial-1" / "job.fio").write_text(job(cell, array.stack, trial_seed(seed, cell.id, 1), own))
