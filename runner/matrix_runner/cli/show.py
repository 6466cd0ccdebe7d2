"""One run: `matrix show`, the files of a cell (records/cell_files.py), and `matrix status` (pages/runs.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import BadInput, MatrixError, file_errors
from matrix_runner.cli.options import PATH, TO_FOLDER, Words, matches, results, run_argument, run_option
from matrix_runner.cli.report import folder_of
from matrix_runner.cli.screen import echo, echo_whole, json_text

if TYPE_CHECKING:
    from matrix_runner.pages.runs import RunStatus
    from matrix_runner.records.cell_files import CellFiles
    from matrix_runner.records.record import CellRow
    from matrix_runner.records.run_folder import RunFolder

_EPILOG = """\b
Examples:
  matrix show 'raid5/*' --to by-hand                 scripts and outputs of these cells, as files
  matrix show raid5/random                           list the files of a cell
  matrix show raid5/random/trial-1/fio.json          print one of them
"""


@click.command("show", epilog=_EPILOG)
@click.argument("cells", nargs=-1, required=True, metavar="CELL...")
@run_option("--run", type=PATH, default="latest", help="A folder below results/, or a matrix.  [default: latest]")
@click.option("--to", type=TO_FOLDER, help="Write the files to this folder.")
@results
def command(cells: Words, run: Path, to: Path | None, results: Path) -> None:
    """Show the scripts that ran and the raw output of each CELL (id, name or pattern), or one file of a cell."""
    from matrix_runner.records.cell_files import open_files
    from matrix_runner.records.files import parts_of
    from matrix_runner.records.journal import Journal
    from matrix_runner.records.run_folder import load

    folder = load(folder_of(run, results))
    with Journal.existing(folder.journal) as journal:
        known = journal.cells()
    with open_files(folder) as files:
        chosen = [cell.name for cell in known if matches(cell, cells)]
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


def _print_file(files: CellFiles, wanted: Words, known: Sequence[CellRow], run: Path) -> None:
    from matrix_runner.records.run_folder import load

    names = {cell.name for cell in known}
    for path in wanted:
        cell = next((name for at, sign in enumerate(path) if sign == "/" and (name := path[:at]) in names), None)
        content = files.of_cell(cell).get(path.removeprefix(f"{cell}/")) if cell else None
        if content is None:
            if cell:
                files.check()
            elif Path(path).is_absolute() or path.startswith("."):
                there = load(Path(path)).path
                raise BadInput(f"{there} is a run, not a cell", resolution=f"`matrix show '*' --run {there}`")
            raise BadInput(f"no cell of {run} is called {path}", resolution="`summary.csv` lists their names")
        echo_whole(content.decode("utf-8", "replace"))


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    from matrix_runner.records.files import parts_of

    for path, content in files.items():
        target = folder.joinpath(*parts_of(path))
        with file_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


_STATUS_EPILOG = """\b
Examples:
  matrix status                                the running runs below results/
  watch matrix status                          the same, repeated
  matrix status chunk-sweep-qemu-20260304-050607
  matrix status --json                         for a program

\b
Only reads. RUN is a folder below results/, or `latest`.

\b
Exit codes: 0 the run (or any run) is running, 1 it is not, 2 bad input.
"""


@click.command("status", epilog=_STATUS_EPILOG)
@run_argument("run", required=False, type=PATH)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@results
def status_command(run: Path | None, as_json: bool, results: Path) -> None:
    """Show the progress of a running run, from another terminal; without RUN, of all running runs."""
    from matrix_runner.pages.runs import status_document, status_lines
    from matrix_runner.records.run_folder import load

    if run:
        found = [_status(load(folder_of(run, results)))]
        running = found[0].running
    else:
        found, running = _running_or_last(results)
    if as_json:
        documents = [status_document(one) for one in found]
        echo_whole(json_text({"running": running, "runs": documents}, indent=True))
    else:
        if not running and not run:
            echo(f"no run is running below {results}/; {'the last run:' if found else 'the folder has no runs'}")
        for one in found:
            echo(one.folder.path.name, bold=True)
            rows = list(status_lines(one))
            width = max(len(name) for name, _ in rows)
            for name, text in rows:
                echo(f"{name:<{width}}  {text}")
    if not running:
        raise click.exceptions.Exit(1)


def _running_or_last(results: Path) -> tuple[list[RunStatus], bool]:
    from matrix_runner.records.observe import find_holder, readable_runs

    runs, unreadable = readable_runs(results)
    if unreadable:
        echo(f"note: skipped, as they cannot be read: {', '.join(unreadable)}", err=True)
    candidates = [_status(run) for run in runs if not run.manifest.finished and find_holder(run.path)]
    running = [one for one in candidates if one.running]
    return running or [_status(run) for run in runs[:1]], bool(running)


def _status(folder: RunFolder) -> RunStatus:
    from matrix_runner.pages.runs import RunStatus
    from matrix_runner.records.observe import Progress, derive_state, observe_run, read_progress

    folder, holder = observe_run(folder)
    state = derive_state(folder.manifest, holder)
    try:
        progress = read_progress(folder, holder.since if holder else None)
    except MatrixError as problem:
        echo(f"note: {problem.brief}", err=True)
        progress = Progress()
    return RunStatus(folder, state, holder, progress, datetime.now(UTC))
