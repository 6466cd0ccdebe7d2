"""Options and functions of the commands that read the shared store, and runs by the path of a folder elsewhere."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from matrix_runner.base.errors import BadInput, Damaged
from matrix_runner.base.text import printable
from matrix_runner.cli.options import FILE, OF_FOLDER, combined, results, store
from matrix_runner.cli.screen import Ending, columns_of, echo, sheet_text, wrap_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from matrix_runner.base.errors import MatrixError
    from matrix_runner.pages.change_files import Checked
    from matrix_runner.pages.table import Grid
    from matrix_runner.records.address import Address
    from matrix_runner.records.store import RunRow, SharedStore


FORMATS = ("table", "csv", "json", "md", "parquet")
_BY_SUFFIX = {".csv": "csv", ".json": "json", ".md": "md", ".parquet": "parquet", ".txt": "table"}


@dataclass(frozen=True)
class Source:
    results: Path
    store: str | None
    home: Path | None = None  # where pages of several runs go, if `results` is temporary


@dataclass(frozen=True)
class Output:
    form: str
    to: Path | None = None  # the file to write; None for standard output

    @property
    def is_table(self) -> bool:
        return self.form == "table"

    @property
    def is_text(self) -> bool:
        """Return whether it is for people. The other formats have numbers in base units."""
        return self.form in {"table", "md"}


def _choose_format(context: click.Context, _: click.Parameter, name: str | None) -> str:
    to: Path | None = context.params.get("to")
    if name is not None or to is None:
        return name or "table"
    found = _BY_SUFFIX.get(to.suffix.lower())
    if found is None:
        raise BadInput(
            f"--to {to}: no format for {f'the suffix `{to.suffix}`' if to.suffix else 'a name without a suffix'}",
            resolution=f"use {', '.join(_BY_SUFFIX)}, or name the format: --format {'|'.join(FORMATS)}",
        )
    return found


form = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    callback=_choose_format,
    help="The format of the output. If not given: by the suffix of `--to`, else table.",
)
_to = click.option(
    "--to",
    type=FILE,
    is_eager=True,  # `--format` needs its suffix
    help="Write the table to this file (.csv, .json, .md, .parquet, .txt).",
)
output = combined("output", Output, form=form, to=_to)
plain_source = combined("source", Source, results=results, store=store)


def source(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the store. Runs may also be named by the path of their folder."""

    @wraps(command)
    def call(*args: Any, source: Source, **values: Any) -> Any:
        meant, where = with_folders_elsewhere(values, source)
        return command(*args, source=where, **meant)

    return plain_source(call)


accepted = click.option(
    "--accepted",
    type=OF_FOLDER,
    default=Path(),
    help="The folder of baselines.yaml and known-changes.yaml.  [default: the current folder]",
)


_junit = click.option("--junit", type=FILE, help="Also write JUnit XML: a slower figure is a failure.")
_prom = click.option("--prom", type=FILE, help="Also write OpenMetrics, for Prometheus.")
change_files = combined("files", lambda junit, prom: (junit, prom), junit=_junit, prom=_prom)


def write_change_files(files: tuple[Path | None, Path | None], title: str, checks: Sequence[Checked]) -> None:
    from matrix_runner.base.files import write_output
    from matrix_runner.pages.change_files import junit_of_changes, metrics_of_changes

    junit, prom = files
    contents = ((junit, junit_of_changes(title, checks)), (prom, metrics_of_changes(checks)))
    for path, content in contents:
        if path:
            write_output(path, content)
            echo(f"written to {path}", err=True)


@contextmanager
def open_store(source: Source) -> Iterator[SharedStore]:
    """Open the store, and add the runs below `results` that it lacks. Prints a note on runs that cannot be added."""
    from matrix_runner.records.address import IN_MEMORY, VARIABLE, address_of, is_named
    from matrix_runner.records.run_folder import run_folders
    from matrix_runner.records.store_sync import bring_up_to_date

    # A short-lived process with a hundred thousand rows only loses time in garbage collection.
    gc.disable()
    address = address_of(source.store, source.results)
    is_missing = address.file is not None and not address.file.exists()
    if is_missing and is_named(source.store):
        raise BadInput(
            f"there is no store at {address}" + ("" if source.store is not None else f", named by {VARIABLE}"),
            resolution=f"`matrix run` and `matrix import` create it; `touch {address}` creates an empty one, which is "
            "filled from the runs below `--results`",
        )
    if is_missing and not run_folders(source.results):
        raise BadInput(
            f"no results: there is no store at {address}, and no run below {source.results}/",
            resolution="`matrix run` creates both; `--store` and `--results` name other places",
        )
    if address.file and is_missing and not os.access(address.file.parent, os.W_OK):
        address = IN_MEMORY  # read-only: the journals have all runs
    with _opened(address, is_missing=is_missing) as shared:
        try:
            for note in bring_up_to_date(shared, source.results):
                echo(f"note: {note}", err=True)
            yield shared
        finally:
            report_damage(shared.damage)


def _opened(address: Address, *, is_missing: bool) -> SharedStore:
    """Open a store. Instead of a damaged one, use one in memory: the journals have the runs with a folder."""
    from matrix_runner.records.address import IN_MEMORY
    from matrix_runner.records.store import SharedStore

    if is_missing:
        return SharedStore.open(address)
    try:
        return SharedStore.existing(address)
    except Damaged as problem:
        store = SharedStore.open(IN_MEMORY)
        store.damage[str(address)] = problem
        return store


def report_damage(damage: Mapping[str, MatrixError]) -> None:
    """Name the runs that are left out. The command ends with 3 then."""
    for name, problem in damage.items():
        why = f"{problem.brief} ({' '.join(problem.details.split())})" if problem.details else problem.brief
        echo(f"damaged: {name} is left out: {why}\n{problem.advice}", err=True)
    context = click.get_current_context(silent=True)
    if context and damage:
        context.ensure_object(Ending).is_damaged = True


def select_runs(store: SharedStore, words: Sequence[str]) -> list[RunRow]:
    from matrix_runner.answers.selectors import explain_passed_over, runs_named

    runs = store.runs()
    if note := explain_passed_over(words, runs):
        echo(f"note: {note}", err=True)
    matches = {run.id for word in words for run in runs_named(word, runs)}
    return [run for run in runs if not words or run.id in matches]


def select_or_default(store: SharedStore, words: Sequence[str]) -> tuple[list[RunRow], str]:
    """Return the named runs; without names, those that count by default, and a note on the others."""
    from matrix_runner.answers.selectors import default_runs

    return (select_runs(store, words), "") if words else default_runs(store.runs())


def write_grid(grid: Grid, output: Output) -> None:
    from matrix_runner.pages.table import FORMATS as FORMATTERS

    to = output.to
    if output.is_table:
        _write(_table(grid, 0 if to else columns_of(sys.stdout)).encode(), to)
        return
    if output.form == "parquet" and to is None and sys.stdout.isatty():
        raise BadInput("parquet is binary and cannot go to a terminal", resolution="name a file with --to FILE")
    if output.form == "csv":  # a CSV file has no place for notes
        for note in grid.notes:
            echo(f"note: {note}", err=True)
    content = FORMATTERS[output.form](grid)
    # A file gets every character as it is.
    _write(printable(content.decode()).encode() if to is None and sys.stdout.isatty() else content, to)


def _table(grid: Grid, columns: int) -> str:
    from matrix_runner.pages.table import as_sheet

    rows = sheet_text(as_sheet(grid), sys.stdout, columns).splitlines() if grid.rows else []
    lines = [*rows, *(wrap_text(printable(note), columns) for note in grid.notes)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _write(content: bytes, to: Path | None) -> None:
    if to is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    from matrix_runner.base.files import write_output

    write_output(to, content)
    echo(f"written to {to}", err=True)


#: The parameters of commands that name runs.
_NAMES = ("runs", "among", "run", "against", "a", "b")
_OF_ANY_KIND = {"a", "b"}  # with `--by`, the sides of `compare` are no runs


def with_folders_elsewhere(values: Mapping[str, Any], source: Source) -> tuple[Mapping[str, Any], Source]:
    """Return parameters and the source that they mean. Without a path of a run folder, both stay as they are."""
    names = [name for name in _NAMES if name not in _OF_ANY_KIND or values.get("by", "run") == "run"]
    parts = [part for name in names for word in _words(values.get(name)) for part in word.split(",")]
    if not any(_elsewhere(part, source.results) for part in parts):
        return values, source
    view = _View(source.results)
    changed = {name: _changed(values[name], view.name_of) for name in names if values.get(name)}
    home = source.results if source.results.is_dir() else Path()
    return {**values, **changed}, Source(view.folder, None, home=home)


def _words(value: object) -> Iterable[str]:
    return value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ()


def _changed(value: Any, name_of: Callable[[str], str]) -> Any:
    if isinstance(value, tuple):
        return tuple(map(name_of, value))
    return name_of(value) if isinstance(value, str) else value


def _elsewhere(word: str, results: Path) -> list[Path]:
    """Return the run folders that a path means: itself, or those in it."""
    from matrix_runner.records.run_folder import MANIFEST, run_folders

    folder = Path(word)
    if "/" not in word or not (folder / MANIFEST).is_file():
        return run_folders(folder) if "/" in word else []
    return [folder] if folder.resolve().parent != results.resolve() else []


class _View:
    """A temporary results folder of links to run folders."""

    def __init__(self, results: Path) -> None:
        from matrix_runner.base.files import scratch_folder

        context = click.get_current_context()
        self.folder = context.with_resource(scratch_folder("matrix-runs"))
        self._results = results
        self._linked: dict[Path, str] = {}

    def name_of(self, word: str) -> str:
        """Return a word for the runs that a word means: the names of the links."""
        return ",".join(self._link(folder) for part in word.split(",") for folder in self._folders(part))

    def _folders(self, part: str) -> list[Path]:
        from matrix_runner.answers.selectors import runs_named
        from matrix_runner.records.observe import readable_runs
        from matrix_runner.records.store import describe_run

        if found := _elsewhere(part, self._results):
            return found
        own = {folder.manifest.id: folder for folder in readable_runs(self._results)[0]}
        return [own[run.id].path for run in runs_named(part, [describe_run(one) for one in own.values()])]

    def _link(self, folder: Path) -> str:
        target = folder.resolve()
        if target not in self._linked:
            names = (target.name if number == 1 else f"{target.name}-{number}" for number in count(1))
            name = next(name for name in names if name not in self._linked.values())
            (self.folder / name).symlink_to(target)
            self._linked[target] = name
        return self._linked[target]
