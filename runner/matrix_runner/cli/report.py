"""`matrix report` (session/finish.py, pages/write.py) and `matrix bug-report` (session/bug_report.py)."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import BadInput, file_errors
from matrix_runner.base.extras import without_statistics
from matrix_runner.base.files import write_output
from matrix_runner.cli.options import FILE, PATH, TO_FOLDER, open_page, results, run_argument
from matrix_runner.cli.screen import WIDTH, columns_of, echo, slow_start

if TYPE_CHECKING:
    from matrix_runner.session.finish import Ending

_EPILOG = """\b
Examples:
  matrix report latest                                             the last run with results
  matrix report chunk-sweep-qemu-20260304-050607                   or results/chunk-sweep-qemu-20260304-050607
  matrix report results/sweep-qemu-20260304-* --junit night.xml    several runs as one document
  matrix report --open latest                                      and show it in the browser
"""


@click.command("report", epilog=_EPILOG)
@run_argument("runs", nargs=-1, required=True, metavar="RUN...", type=PATH)
@click.option("--to", type=TO_FOLDER, help="Write the files to this folder; those of several runs to folders in it.")
@click.option("--junit", type=FILE, help="Write all their junit.xml to this file, as one document.")
@click.option("--open", "opens", is_flag=True, help="Open each report.html in the browser.")
@results
def command(runs: tuple[Path, ...], to: Path | None, junit: Path | None, opens: bool, results: Path) -> None:
    """Write report.html, explore.html, junit.xml and the CSV files of each RUN again from its journal.

    A search by `matrix bisect` gets its bisect.html and bisect.md again, too.

    RUN is a run folder, its name, `latest`, or the name of a matrix (its last run with results); `latest~1` is the run
    before.
    """
    from matrix_runner.pages.junit import merge_documents

    read = [folder_of(run, results) for run in runs]
    folders = [(to if len(read) == 1 else to / folder.name) if to else folder for folder in read]
    for run, folder in zip(read, folders, strict=True):
        write_report(run, folder if to else None)
    if junit:
        write_output(junit, merge_documents([(folder / "junit.xml").read_bytes() for folder in folders]))
        echo(f"written to {junit}", err=True)
    if opens:
        for folder in folders:
            open_page(folder / "report.html", wanted=True)


def folder_of(run: Path, results: Path, *, with_results: bool = True) -> Path:
    """Return the folder of a run by its path or name, by `latest`, or by the name of its matrix."""
    if found := next(filter(Path.exists, (run, results / run)), None):
        return found
    return _latest(results, str(run), with_results=with_results) or run


def _latest(results: Path, text: str, *, with_results: bool) -> Path | None:
    """Return the latest run of a name, or an earlier one of the same matrix and machine: `latest~1`."""
    from matrix_runner.answers.selectors import LATEST, explain_later_run
    from matrix_runner.records.observe import has_results, readable_runs

    name, _, back = text.partition("~")
    every, _ = readable_runs(results)
    among = [one for one in every if name in {LATEST, one.manifest.matrix}]
    if not among:
        if name == LATEST:
            advice = "name the folder of a run, or the folder of all runs by --results"
            raise BadInput(f"{results}: there is no run", resolution=advice)
        return None
    ordered = sorted(among, key=lambda run: run.manifest.synthetic) if with_results else among
    first = next(filter(has_results, ordered), ordered[0]) if with_results else ordered[0]
    if back:
        kind = first.manifest.matrix, first.manifest.machine
        alike = [one for one in ordered if (one.manifest.matrix, one.manifest.machine) == kind]
        fitting = filter(has_results, alike) if with_results else iter(alike)
        found = next(islice(fitting, int(back), None), None) if back.isdecimal() else None
        return found.path if found else None
    if first is not among[0]:
        why = explain_later_run(among[0].path.name, measured=has_results(among[0]))
        echo(f"note: {why}", err=True)
    return first.path


def write_report(run: Path, to: Path | None = None) -> Ending:
    from matrix_runner.pages.bisect import write_search
    from matrix_runner.pages.stored import declared_by
    from matrix_runner.records.address import address_of
    from matrix_runner.records.journal import Journal
    from matrix_runner.records.run_folder import load
    from matrix_runner.session.finish import report
    from matrix_runner.session.version_search import recorded_search
    from matrix_runner.space.declared_files import MATRIX, PUBLISHED, study_beside

    folder = replace(load(run), elsewhere=to)
    if to:
        with file_errors(to):
            to.mkdir(parents=True, exist_ok=True)
    elif not os.access(run, os.W_OK):
        raise BadInput(f"{run} cannot be written", resolution="write the reports to another folder: `--to FOLDER`")
    # An old matrix may be invalid today, so it is only parsed for guidelines or a study.
    needs_matrix = "guidelines" in folder.manifest.text or (folder.path / PUBLISHED).is_file()
    space = declared_by(folder.manifest).space if needs_matrix else None
    guidelines = space.matrix.guidelines if space else ()
    study = study_beside(folder.path / MATRIX, space) if space else None
    with nullcontext() if to else folder.locked(), Journal.existing(folder.journal) as journal:
        interrupted, store = not folder.manifest.finished, address_of(None, folder.path.parent)
        end = report(folder, journal, guidelines, study, interrupted=interrupted, store=store)
        if folder.manifest.search and (why := without_statistics("the answer of a search")):
            echo(f"note: {why}", err=True)
        elif folder.manifest.search:
            write_search(folder, recorded_search(folder, journal))
    if not end.finished:
        echo(f"this run is incomplete: {end.trials}")
    for line in end.lines(columns_of(sys.stdout) or WIDTH):
        echo(line)
    return end


_BUG_REPORT_EPILOG = """\b
Examples:
  matrix bug-report                               of the latest run, finished or not, to bug-report.tar.gz
  matrix bug-report --no-figures results/night    of this run folder, without its figures
  tar -xzOf bug-report.tar.gz | less              read all of it before you publish it
"""


@click.command("bug-report", epilog=_BUG_REPORT_EPILOG)
@run_argument("run", type=PATH, default="latest")
@click.option("--no-figures", is_flag=True, help="Leave the figures of all trials out.")
@click.option("--to", type=FILE, default="bug-report.tar.gz", show_default=True, help="Write the archive to this file.")
@results
def bug_report_command(run: Path, no_figures: bool, to: Path, results: Path) -> None:
    """Write an archive about RUN for a bug report: versions, `matrix doctor`, matrix, manifest, log and journal.

    Names of hosts and users, serial numbers, addresses and paths are replaced. Only reads the run.
    """
    from matrix_runner.records.run_folder import load
    from matrix_runner.session.bug_report import write_bug_report

    folder = load(folder_of(run, results, with_results=False))
    with tempfile.TemporaryFile() as archive:
        found = write_bug_report(
            folder, archive, figures=not no_figures, progress=lambda name: slow_start.begin(f"writing {name}")
        )
        size = archive.tell()
        archive.seek(0)
        write_output(to, iter(lambda: archive.read(1 << 20), b""))
    echo(f"{to}: {folder.path.name}, {size / 1e3:,.0f} kB; replaced: {found.summary}")
    echo(f"→ read it before you publish it: tar -xzOf {to} | less")
