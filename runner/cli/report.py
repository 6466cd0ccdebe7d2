"""`matrix report`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report", epilog="Example:  matrix report results/chunk-sweep-qemu-20260304-050607")
@click.argument("run", type=click.Path(path_type=Path))
def command(run: Path) -> None:
    """Write trials.csv, summary.csv and junit.xml of RUN, a folder below results/, anew from its journal."""
    from runner.cli.closing import report
    from runner.store.journal import Journal
    from runner.store.run import load

    folder = load(run)
    with folder.locked(), Journal.existing(folder.journal) as journal:
        end = report(folder, journal, interrupted=not folder.manifest.finished)
    for line in end.lines():
        click.echo(line)
