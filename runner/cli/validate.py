"""`matrix validate`."""

from __future__ import annotations

from pathlib import Path

import click

from runner.cli.inputs import MatrixPath, asked, check_jobs, check_kernels
from runner.errors import Exit, MatrixError


@click.command("validate", epilog="Example:  matrix validate matrix/*.yaml")
@click.argument("matrices", nargs=-1, required=True, type=MatrixPath(path_type=Path))
def command(matrices: tuple[Path, ...]) -> None:
    """Check matrices: every error at once, each with file, line and column. Starts nothing."""
    from runner.cli import show
    from runner.expand.published import study_beside

    bad = False
    for path in matrices:
        try:
            request = asked(path)
            study_beside(path, request.space)
            check_kernels(request, "qemu")
            unchecked = check_jobs(request)
        except MatrixError as error:
            show(error)
            bad = True
            continue
        count = request.selection.count()
        click.echo(
            f"{path}: good: {count:,} cell{'s' if count != 1 else ''}" + (f" ({unchecked})" if unchecked else "")
        )
        for note in request.selection.notes():
            click.echo(f"{path}: note: {note}")
    if bad:
        raise click.exceptions.Exit(Exit.BAD_INPUT)
