"""`matrix show`: the files of a cell come from records/cell_files.py."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import BadInput, file_errors
from matrix_runner.cli.options import Words, results
from matrix_runner.cli.report import folder_of
from matrix_runner.cli.screen import echo, echo_whole
from matrix_runner.records.cell_files import CellFiles, open_files
from matrix_runner.records.files import parts_of
from matrix_runner.records.journal import Journal
from matrix_runner.records.run_folder import load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matrix_runner.records.record import CellRow

_EPILOG = """\b
Examples:
  matrix show 'raid5/*' --to by-hand                 scripts and outputs of these cells, as files
  matrix show raid5/random                           list the files of a cell
  matrix show raid5/random/trial-1/fio.json          print one of them
"""


@click.command("show", epilog=_EPILOG)
@click.argument("cells", nargs=-1, required=True, metavar="CELL...")
@click.option(
    "--run",
    type=click.Path(path_type=Path),
    default="latest",
    help="A folder below results/, or a matrix.  [default: latest]",
)
@click.option("--to", type=click.Path(path_type=Path, file_okay=False), help="Write the files to this folder.")
@results
def command(cells: Words, run: Path, to: Path | None, results: Path) -> None:
    """Show the scripts that ran and the raw output of each CELL (id, name or pattern), or one file of a cell."""
    folder = load(folder_of(run, results))
    with Journal.existing(folder.journal) as journal:
        known = journal.cells()
    with open_files(folder) as files:
        chosen = [cell.name for cell in known if _matches(cell, cells)]
        if not chosen:
            _print_file(files, cells, known, folder.path)
        shown = 0
        for name in chosen:
            found = files.of_cell(name)
            shown += bool(found)
            if to:
                _write(found, to.joinpath(*parts_of(name)))
            else:
                for path, content in found.items():
                    echo(f"{len(content):>9,}  {name}/{path}")
        if shown < len(chosen):
            files.check()
    if chosen and not shown:
        raise BadInput(
            f"{folder.path} has no files of these cells", details="they have no trial yet, or their files were removed"
        )
    if to:
        echo(f"{shown:,} cell{'s' if shown != 1 else ''} written to {to}/")


def _matches(cell: CellRow, patterns: Words) -> bool:
    return any(one in (cell.id, cell.name) or fnmatchcase(cell.name, one) for one in patterns)


def _print_file(files: CellFiles, wanted: Words, known: Sequence[CellRow], run: Path) -> None:
    names = {cell.name for cell in known}
    for path in wanted:
        cell = next((name for at, sign in enumerate(path) if sign == "/" and (name := path[:at]) in names), None)
        content = files.of_cell(cell).get(path.removeprefix(f"{cell}/")) if cell else None
        if content is None:
            if cell:
                files.check()
            raise BadInput(f"no cell of {run} is called {path}", resolution="`summary.csv` lists their names")
        echo_whole(content.decode("utf-8", "replace"))


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    for path, content in files.items():
        target = folder.joinpath(*parts_of(path))
        with file_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
