"""What the commands that read the shared store share: how it is opened, brought up to date and answered from."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.screen import broken, columns_of, console_for, echo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.reports.table import Grid
    from runner.results.store import RunRow, SharedStore
    from runner.results.store_address import Address

#: For people; the others are for programs, and hold plain numbers in plain units.
SHOWN = ("table", "md")
FORMATS = ("table", "csv", "json", "md", "parquet")

#: By the ends of names of files; any other is a table, as people read it.
_BY_SUFFIX = {".csv": "csv", ".json": "json", ".md": "md", ".parquet": "parquet", ".txt": "table"}


def _form(context: click.Context, _: click.Parameter, asked: str | None) -> str:
    """The format that was asked for, by its name or by that of a file."""
    to: Path | None = context.params.get("to")
    if asked is not None or to is None:
        return asked or "table"
    found = _BY_SUFFIX.get(to.suffix.lower())
    if found is None:
        from runner.base.errors import BadInput

        raise BadInput(
            f"--to {to}: no format is known for {f'`{to.suffix}`' if to.suffix else 'a name without a suffix'}",
            resolution=f"write {', '.join(_BY_SUFFIX)}, or name the format: --format {'|'.join(FORMATS)}",
        )
    return found


form = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    callback=_form,
    help="If not given: as the name of the file of `--to` says, else table.",
)
to = click.option(
    "--to",
    type=click.Path(path_type=Path, dir_okay=False),
    is_eager=True,  # it says of the format
    help="Write it to this file (.csv, .json, .md, .parquet, .txt) instead of showing it.",
)


@contextmanager
def opened(told: str | None, results: Path) -> Iterator[SharedStore]:
    """The store, with everything in it that the runs here have recorded; what could not be added is said."""
    from runner.base.errors import BadInput
    from runner.results.backfill import bring_up_to_date
    from runner.results.folders import run_folders
    from runner.results.store_address import VARIABLE, address_of, is_named

    # A process that answers once and ends has no garbage worth looking for among a hundred thousand rows.
    gc.disable()
    address = address_of(told, results)
    if address.file and not address.file.exists() and is_named(told):
        raise BadInput(
            f"there is no store at {address}" + ("" if told is not None else f", which {VARIABLE} names"),
            resolution=f"`matrix run` and `matrix import` make one where they are told to; `touch {address}` makes one "
            "that is filled from the runs below `--results`",
        )
    if address.file and not address.file.exists() and not run_folders(results):
        raise BadInput(
            f"there is nothing to look at: no store at {address}, and no run below {results}/",
            resolution="`matrix run` makes both; `--store` and `--results` name others",
        )
    with _there(address) as store:
        for note in bring_up_to_date(store, results):
            echo(f"note: {note}", err=True)
        yield store


def _there(address: Address) -> SharedStore:
    """Where no store can be made, the journals alone are answered from."""
    from runner.results.store import SharedStore
    from runner.results.store_address import IN_MEMORY

    if address.file and not address.file.exists() and not os.access(address.file.parent, os.W_OK):
        return SharedStore.open(IN_MEMORY)
    return SharedStore.open(address) if address.file and not address.file.exists() else SharedStore.existing(address)


def chosen_runs(store: SharedStore, words: Sequence[str]) -> list[RunRow]:
    """The runs that are meant by any of these words, the latest first; all, if there is no word."""
    from runner.analysis.selectors import explain_passed_over, runs_named

    runs = store.runs()
    if told := explain_passed_over(words, runs):
        echo(f"note: {told}", err=True)
    meant = {run.id for word in words for run in runs_named(word, runs)}
    return [run for run in runs if not words or run.id in meant]


def answer(grid: Grid, form: str, to: Path | None) -> None:
    """Show it, or write it where it was asked for."""
    from runner.base.errors import BadInput
    from runner.reports.table import FORMATS as WRITTEN

    if form == "parquet" and to is None and sys.stdout.isatty():
        raise BadInput("parquet is nothing to be read on a terminal", resolution="name a file with --to FILE")
    if form == "table":
        _put(_table(grid, 0 if to else columns_of(sys.stdout)).encode(), to)
        return
    if form == "csv":  # it has no place for notes, and they must not be overlooked
        for note in grid.notes:
            echo(f"note: {note}", err=True)
    _put(WRITTEN[form](grid), to)


def _table(grid: Grid, columns: int) -> str:
    from runner.reports.fit import Fitted
    from runner.reports.table import as_sheet

    sheet = as_sheet(grid)
    console = console_for(sheet, sys.stdout, columns)
    with console.capture() as captured:
        if grid.rows:
            console.print(Fitted(sheet))
    lines = [*captured.get().splitlines(), *(broken(note, columns) for note in grid.notes)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _put(content: bytes, to: Path | None) -> None:
    if to is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    from runner.base.atomic_files import write_atomically
    from runner.base.errors import BadInput

    try:
        write_atomically(to, content)
    except BadInput as problem:
        raise BadInput(
            problem.brief, details=problem.details, resolution="name a file with `--to` in a folder that is yours"
        ) from None
    echo(f"written to {to}", err=True)
