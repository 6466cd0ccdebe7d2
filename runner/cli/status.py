"""`matrix status`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.options import results
from runner.cli.screen import echo

if TYPE_CHECKING:
    from runner.analysis.run_status import RunStatus
    from runner.results.run_folder import RunFolder

_EPILOG = """\b
Examples:
  matrix status                                what is running below results/
  watch matrix status                          again and again
  matrix status chunk-sweep-qemu-20260304-050607
  matrix status --json                         for a program

\b
It only reads, so it never disturbs the run. RUN is a folder below results/, or `latest`.
Exit codes: 0 it is running, 1 it is not, or no run is, 2 bad input.
"""


@click.command("status", epilog=_EPILOG)
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@results
def command(run: Path | None, as_json: bool, results: Path) -> None:
    """Show how far a run is that is under way, from another terminal; without RUN, every run that is."""
    import orjson

    from runner.analysis.run_status import document

    found, running = _named(run, results) if run else _running_or_last(results)
    if as_json:
        documents = [document(one) for one in found]
        click.echo(orjson.dumps({"running": running, "runs": documents}, option=orjson.OPT_INDENT_2).decode())
    else:
        if not running and not run:
            echo(f"no run is under way below {results}/; {'the last one:' if found else 'there is none at all'}")
        for one in found:
            _show(one)
    if not running:
        raise click.exceptions.Exit(1)


def _named(run: Path, results: Path) -> tuple[list[RunStatus], bool]:
    from runner.cli.report import folder_of
    from runner.results.run_folder import load

    found = _status(load(folder_of(run, results)))
    return [found], found.running


def _running_or_last(results: Path) -> tuple[list[RunStatus], bool]:
    """Every run that a process is at, the latest first; if there is none, the one that began last."""
    from runner.results.observe import holder_of, readable_runs

    runs, unreadable = readable_runs(results)
    if unreadable:
        echo(f"note: cannot be read, so not looked at: {', '.join(unreadable)}", err=True)
    held = [_status(run) for run in runs if not run.manifest.finished and holder_of(run.path)]
    running = [one for one in held if one.running]
    return running or [_status(run) for run in runs[:1]], bool(running)


def _status(folder: RunFolder) -> RunStatus:
    from runner.analysis.run_status import RunStatus
    from runner.base.errors import MatrixError
    from runner.results.observe import observed, progress_of
    from runner.results.run_progress import Progress, state_of_run

    folder, holder = observed(folder)
    manifest = folder.manifest
    state = state_of_run(finished=manifest.finished, exit=manifest.exit, held=holder is not None)
    try:
        progress = progress_of(folder, holder.since if holder else None)
    except MatrixError as problem:
        echo(f"note: {problem.brief}", err=True)
        progress = Progress()
    return RunStatus(folder, state, holder, progress, datetime.now(UTC))


def _show(status: RunStatus) -> None:
    from runner.analysis.run_status import facts

    click.secho(status.folder.path.name, bold=True)
    rows = list(facts(status))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        echo(f"{name:<{width}}  {text}")
