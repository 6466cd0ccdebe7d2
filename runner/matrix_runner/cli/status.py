"""`matrix status`: the text is in pages/runs.py, the state of a run in records/observe.py."""

from datetime import UTC, datetime
from pathlib import Path

import click

from matrix_runner.base.errors import MatrixError
from matrix_runner.cli.options import results
from matrix_runner.cli.report import folder_of
from matrix_runner.cli.screen import echo, echo_whole, json_text
from matrix_runner.pages.runs import RunStatus, status_document, status_lines
from matrix_runner.records.observe import Progress, derive_state, find_holder, observe_run, read_progress, readable_runs
from matrix_runner.records.run_folder import RunFolder, load

_EPILOG = """\b
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


@click.command("status", epilog=_EPILOG)
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on standard output.")
@results
def command(run: Path | None, as_json: bool, results: Path) -> None:
    """Show the progress of a running run, from another terminal; without RUN, of all running runs."""
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
    runs, unreadable = readable_runs(results)
    if unreadable:
        echo(f"note: skipped, as they cannot be read: {', '.join(unreadable)}", err=True)
    candidates = [_status(run) for run in runs if not run.manifest.finished and find_holder(run.path)]
    running = [one for one in candidates if one.running]
    return running or [_status(run) for run in runs[:1]], bool(running)


def _status(folder: RunFolder) -> RunStatus:
    folder, holder = observe_run(folder)
    manifest = folder.manifest
    state = derive_state(finished=manifest.finished, exit=manifest.exit, held=holder is not None)
    try:
        progress = read_progress(folder, holder.since if holder else None)
    except MatrixError as problem:
        echo(f"note: {problem.brief}", err=True)
        progress = Progress()
    return RunStatus(folder, state, holder, progress, datetime.now(UTC))
