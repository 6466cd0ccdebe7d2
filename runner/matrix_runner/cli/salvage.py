"""New runs from recorded ones: `matrix salvage` (records/salvage.py) and `matrix merge` (session/merge.py)."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import BadInput, HarnessBroken, MatrixError
from matrix_runner.base.files import check_regular
from matrix_runner.cli.options import PATH, results, run_argument
from matrix_runner.cli.screen import echo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matrix_runner.records.run_folder import RunFolder
    from matrix_runner.records.salvage import Salvaged


@click.command("salvage", epilog="Example:  matrix salvage results/nas-qemu-20260304-050607")
@run_argument("run", type=PATH)
@results
def command(run: Path, results: Path) -> None:
    """Write what can be read of the damaged journal of RUN into a new run. The damaged run stays as it is."""
    from matrix_runner.cli.report import folder_of
    from matrix_runner.records.databases import translate_errors
    from matrix_runner.records.observe import find_holder
    from matrix_runner.records.run_folder import load
    from matrix_runner.records.salvage import salvage

    damaged = load(folder_of(run, results))
    if damaged.journal.exists():
        with translate_errors(damaged.journal):
            check_regular(damaged.journal, damaged.journal.stat())
    else:
        raise BadInput(f"{damaged.path} has no journal", resolution="`matrix run` starts a new run")
    if find_holder(damaged.path):
        raise BadInput(f"{damaged.path} is in use", resolution="wait until that process has ended")
    found = salvage(damaged.journal)
    if found.is_whole and _is_readable(damaged):
        raise BadInput(
            f"the journal of {damaged.path} is not damaged", resolution="`matrix report RUN` writes its reports again"
        )
    saved = _write(damaged, found, results)
    for table, count in sorted(found.dropped.items()):
        echo(f"dropped: {count:,} row{'s' if count != 1 else ''} of {table}")
    for table in sorted(found.lost):
        echo(f"damaged: the table {table}; rows of it may be missing")
    echo(f"saved: {len(found.trials):,} trials of {len(found.cells):,} cells in {saved.path}/")
    if not saved.manifest.finished:
        echo("`matrix run` with the same matrix continues it, and measures what is missing")


def _is_readable(run: RunFolder) -> bool:
    from matrix_runner.records.journal import Journal

    try:
        with Journal.existing(run.journal) as journal:
            return bool(journal.cells()) and all(trial.cell for trial in journal.trials())
    except MatrixError:
        return False


def _write(damaged: RunFolder, found: Salvaged, results: Path) -> RunFolder:
    from matrix_runner.records.files import ARCHIVE
    from matrix_runner.records.journal import Journal
    from matrix_runner.records.run_folder import OLD_KERNEL, create

    finished = damaged.manifest.finished and found.is_whole
    changes = {"id": token_hex(8), "finished": finished, "exit": damaged.manifest.exit if finished else None}
    saved = create(results, damaged.manifest.model_copy(update=changes))
    for name in ("cells", "imported", OLD_KERNEL):  # folders of trials
        _copy_folder(damaged.path / name, saved.path / name)
    for suffix in ("", "-wal"):
        if (archive := damaged.path / f"{ARCHIVE}{suffix}").is_file():
            shutil.copyfile(archive, saved.path / archive.name, follow_symlinks=False)
    with Journal.open(saved.journal, synthetic=saved.manifest.synthetic, run=saved.manifest.id) as journal:
        journal.add_cells(found.cells)
        journal.record_many(found.trials)
        for table, rows in found.others.items():
            journal.add_rows(table, rows)
    return saved


def _copy_folder(folder: Path, target: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():  # a link may lead to any large folder
        return
    try:
        shutil.copytree(folder, target, symlinks=True, ignore=_special_files, dirs_exist_ok=True)
    except shutil.Error as error:
        raise HarnessBroken(f"{folder} cannot be copied", details=f"{error.args[0][0][-1]}") from error


def _special_files(folder: str, names: Sequence[str]) -> list[str]:
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return [name for name in names if not any(kind(Path(folder, name).lstat().st_mode) for kind in kinds)]


_EPILOG = """\b
Examples:
  matrix merge results/sweep-dry-2026* --to sweep      all shards of a night as results/sweep
  matrix merge one/run two/run --to sweep              runs of --shard 1/2 and 2/2, copied from two hosts
"""


@click.command("merge", epilog=_EPILOG)
@run_argument("runs", nargs=-1, required=True, metavar="RUN...", type=PATH)
@click.option("--to", "name", required=True, metavar="NAME", help="The name of the new run, a folder in --results.")
@results
def merge_command(runs: tuple[Path, ...], name: str, results: Path) -> None:
    """Join the finished runs of all shards of a matrix into one new run, with reports. The runs stay as they are."""
    from matrix_runner.cli.report import folder_of, write_report
    from matrix_runner.records.run_folder import load
    from matrix_runner.session.merge import Merger

    merger = Merger.of([load(folder_of(run, results)) for run in runs])
    merged = merger.write(results, name)
    end = write_report(merged.path)
    merged.update_manifest(exit=int(end.exit))
