"""`matrix validate`: the checks are in session/selected_matrix.py."""

from __future__ import annotations

from pathlib import Path

import click

from matrix_runner.base.errors import Exit, MatrixError
from matrix_runner.cli import show_error
from matrix_runner.cli.options import MatrixPath, templates
from matrix_runner.cli.screen import echo, first_notes

_EPILOG = """\b
Example:  matrix validate *.yaml
"""


@click.command("validate", epilog=_EPILOG)
@click.argument("matrices", nargs=-1, required=True, type=MatrixPath(path_type=Path))
@templates
def command(matrices: tuple[Path, ...], templates: Path | None) -> None:
    """Check matrices, and baselines.yaml and known-changes.yaml beside them. Each error has its file, line and column.

    It starts no rig.
    """
    from matrix_runner.scripts.cell import explain_missing_fio
    from matrix_runner.scripts.jinja import check_syntax
    from matrix_runner.session.selected_matrix import Checks, check_names, load_selected
    from matrix_runner.space.declared_files import load_accepted, study_beside

    check_names(templates)
    bad = False
    for path in matrices:
        try:
            selected = load_selected(path, checks=Checks("qemu"))
            study_beside(path, selected.space)
            load_accepted(path.parent).check_cells(selected.space)
            if templates:
                check_syntax(templates)
        except MatrixError as error:
            show_error(error)
            bad = True
            continue
        count = selected.selection.count()
        lacking = f" ({why})" if (why := explain_missing_fio()) else ""
        echo(f"{path}: good: {count:,} cell{'s' if count != 1 else ''}{lacking}")
        for note in first_notes(selected.selection.notes()):
            echo(f"{path}: note: {note}")
    if bad:
        raise click.exceptions.Exit(Exit.BAD_INPUT)
