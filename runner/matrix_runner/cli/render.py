"""`matrix render`: the work is in scripts/cell.py."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.cli.options import TO_FOLDER, Words, matches, matrix_file, on, only, templates
from matrix_runner.cli.screen import echo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matrix_runner.language.matrix import Matrix
    from matrix_runner.space.select import Selection
    from matrix_runner.space.space import Cell

MOST_RENDERED = 500


@click.command("render", epilog="Example:  matrix render raid.yaml 'raid5/*' --to /tmp/raid5")
@matrix_file
@click.argument("cells", nargs=-1)
@only
@on
@templates
@click.option("--to", type=TO_FOLDER, help="The output folder.  [default: rendered/NAME]")
@click.option("--disks", help="Paths of the disks for the scripts, separated by commas.")
def command(
    matrix: Path, cells: Words, only: Words, place: str, templates: Path | None, to: Path | None, disks: str | None
) -> None:
    """Write the scripts and fio jobs of CELLS (ids, names, patterns; default: all) without running them.

    `matrix run` would run these files on the same machine. With --disks, they do not assume that the disks are zeroed.
    """
    from matrix_runner.machines import machine
    from matrix_runner.machines.base import MachineOptions
    from matrix_runner.session.selected_matrix import check_names, load_selected

    check_names(templates)
    selected = load_selected(matrix, only)
    count = len(selected.space.matrix.every_disk())
    paths = disks.split(",") if disks else [f"/dev/disk/by-id/matrix-{number}" for number in range(count)]
    if len(paths) != count:
        raise BadInput(f"--disks names {len(paths)} disks, but the matrix declares {count}")
    # Disks of the user may hold data.
    zeroed = machine(place, MachineOptions()).zeroed and not disks
    to = to or Path("rendered", selected.space.matrix.name)
    chosen = _choose(selected.selection, cells)
    with _writable(to):
        for cell in chosen:
            _write(cell, paths, to, templates, selected.space.matrix, zeroed=zeroed)
    echo(f"{len(chosen)} cell{'s' if len(chosen) != 1 else ''} written to {to}/")


def _choose(selection: Selection, patterns: Words) -> list[Cell]:
    from matrix_runner.space.select import MOST_LISTED, refuse_many

    refuse_many(selection, "search" if patterns else "render", MOST_LISTED if patterns else MOST_RENDERED)
    chosen = [cell for cell in selection.cells() if not patterns or matches(cell, patterns)]
    if not chosen:
        raise BadInput(
            f"no cell is called {' or '.join(patterns)}", resolution="`matrix plan --cells` lists their names and ids"
        )
    if len(chosen) > MOST_RENDERED:
        raise BadInput(
            f"{len(chosen):,} cells are called so: at most {MOST_RENDERED:,} are rendered at once",
            resolution="use patterns that fewer cells match",
        )
    return chosen


@contextmanager
def _writable(to: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadInput(
            f"{to} cannot be written: {error.strerror}", resolution="name another folder with --to"
        ) from None


def _write(cell: Cell, disks: list[str], to: Path, own: Path | None, matrix: Matrix, *, zeroed: bool) -> None:
    from matrix_runner.records.files import parts_of
    from matrix_runner.scripts.cell import cell_scripts, files_of, job, stack_scripts, trial_seed

    scripts = stack_scripts(cell.stack, disks, zeroed=zeroed, own=own)
    files = files_of(scripts, cell_scripts(cell, scripts.stack, own, matrix.monitor, profile=matrix.profile))
    folder = to.joinpath(*parts_of(cell.name))
    (folder / "trial-1").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    if fio_job := job(cell, scripts.stack, trial_seed(matrix.seed, cell.id, 1), own):
        (folder / "trial-1" / "job.fio").write_text(fio_job)
