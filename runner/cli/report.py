"""`matrix report`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report", epilog="Example:  matrix report results/chunk-sweep-qemu-20260304-050607")
@click.argument("run", type=click.Path(path_type=Path))
def command(run: Path) -> None:
    """Write the CSV files and junit.xml of RUN, a folder below results/, anew from its journal."""
    from runner.cli.closing import report
    from runner.expand.published import MATRIX, PUBLISHED, study_beside
    from runner.history.advice import declared_by
    from runner.store.journal import Journal
    from runner.store.run import load

    folder = load(run)
    # Older matrices need not be ones that are understood today: only of those with guidelines or a study it matters.
    judged = "guidelines" in folder.manifest.text or (folder.path / PUBLISHED).is_file()
    space = declared_by(folder.manifest).space if judged else None
    guidelines = space.matrix.guidelines if space else ()
    study = study_beside(folder.path / MATRIX, space) if space else None
    with folder.locked(), Journal.existing(folder.journal) as journal:
        end = report(folder, journal, guidelines, study, interrupted=not folder.manifest.finished)
    for line in end.lines():
        click.echo(line)
