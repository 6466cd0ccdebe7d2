"""`matrix runs`: the table is in pages/runs.py, the state of a run in records/observe.py."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import Damaged, MatrixError
from matrix_runner.cli.options import results, rows, store
from matrix_runner.cli.screen import echo, echo_whole, json_text, print_sheet
from matrix_runner.cli.store_options import report_damage
from matrix_runner.pages.runs import ListedRun, list_table, run_document, select_by_name
from matrix_runner.pages.table import as_sheet
from matrix_runner.records.address import address_of, is_named
from matrix_runner.records.observe import State, derive_state, observe_run, read_progress, readable_runs
from matrix_runner.records.store import RunRow, SharedStore, describe_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matrix_runner.records.run_folder import RunFolder

#: Columns that a narrow terminal drops, in this order: the name of a run holds most of them.
_SPARE = ("matrix", "machine", "started (UTC)", "trials")

_EPILOG = """\b
Examples:
  matrix runs                         the last twenty runs, the latest first
  matrix runs chunk-sweep             the runs of one matrix
  matrix runs 'nightly-*' --rows 100  the runs with such a matrix or folder
  matrix runs --json                  for a program

\b
States of a run:
  running       `matrix status` shows its progress
  interrupted   the same `matrix run` continues it
  finished      `matrix results RUN` shows its results
  broken        complete, with exit code 3
  unfinished    only in the store: it may be running on another host
"""


@click.command("runs", epilog=_EPILOG)
@click.argument("names", nargs=-1, metavar="[MATRIX]...")
@rows(20, "runs")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@results
@store
def command(names: tuple[str, ...], rows: int, as_json: bool, results: Path, store: str | None) -> None:
    """List runs, the latest first: state, start time, cells and verdicts."""
    folders, unreadable = readable_runs(results)
    notes = []
    if unreadable:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(unreadable.items())[:3])
        more = f"; and {len(unreadable) - 3} more" if len(unreadable) > 3 else ""
        notes.append(f"not listed, as it cannot be read: {reasons}{more}")
    with _open_store(store, results, notes) as shared:
        by_id = {folder.manifest.identity: folder for folder in folders}
        elsewhere = [(run, None) for run in shared.runs() if run.id not in by_id] if shared else []
        every = [*((describe_run(folder), folder) for folder in folders), *elsewhere]
        every.sort(key=lambda one: (one[0].started, one[0].name), reverse=True)
        selection = select_by_name([run for run, _ in every], names)
        folder_of = {id(run): folder for run, folder in every}
        damage = shared.damage if shared else {}
        listed = [_list_run(run, folder_of[id(run)], shared, notes, damage) for run in selection[:rows]]
        report_damage(damage)
    left_out = len(selection) - len(listed)
    if as_json:
        document = {"runs": [run_document(one) for one in listed], "left_out": left_out, "notes": notes}
        echo_whole(json_text(document, indent=True))
        return
    for note in notes:
        echo(f"note: {note}", err=True)
    if not listed:
        echo(f"there is no run below {results}/; `matrix run MATRIX` starts one")
        return
    print_sheet(replace(as_sheet(list_table(listed)), spare=_SPARE), sys.stdout)
    if left_out:
        echo(f"{left_out:,} more; `--rows` shows more")


@contextmanager
def _open_store(store: str | None, results: Path, notes: list[str]) -> Iterator[SharedStore | None]:
    address = address_of(store, results)
    opened = None
    try:
        if is_named(store) or not address.file or address.file.exists():
            opened = SharedStore.existing(address)
    except MatrixError as problem:
        if is_named(store):
            raise
        notes.append(f"{problem.brief}: runs without a folder are not listed")
    with opened or nullcontext():
        yield opened


def _list_run(
    run: RunRow,
    folder: RunFolder | None,
    shared: SharedStore | None,
    notes: list[str],
    damage: dict[str, MatrixError],
) -> ListedRun:
    if folder is None:
        state = derive_state(finished=True, exit=run.exit, held=False) if run.finished else State.UNFINISHED
        try:
            return ListedRun(run, state, shared.progress(run.id) if shared else None, {}, "")
        except Damaged as problem:
            damage[run.name] = problem
            return ListedRun(run, state, None, {}, "")
    folder, holder = observe_run(folder)
    manifest = folder.manifest
    state = derive_state(finished=manifest.finished, exit=manifest.exit, held=holder is not None)
    try:
        progress = read_progress(folder, checked=True)
    except Damaged as problem:
        damage[run.name], progress = problem, None
    except MatrixError as problem:
        notes.append(problem.brief)
        progress = None
    return ListedRun(run, state, progress, _verdicts(folder), str(folder.path))


def _verdicts(folder: RunFolder) -> Mapping[str, int]:
    """Count guidelines by their verdict. Verdicts of synthetic runs do not count."""
    if folder.manifest.synthetic:
        return {}
    try:
        with (folder.path / "verdicts.csv").open(newline="", encoding="utf-8") as file:
            return Counter({row["guideline"]: row["verdict"] for row in csv.DictReader(file)}.values())
    except (OSError, ValueError, KeyError, csv.Error):  # missing or edited
        return {}
