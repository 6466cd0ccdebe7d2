"""`matrix disks calibrate`: simdisks/calibration.py fits the model, answers/disk_jobs.py reads the jobs."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from matrix_runner.base.errors import BadInput
from matrix_runner.base.files import RECORDED, read_input, write_output
from matrix_runner.base.quantities import parse_size
from matrix_runner.cli.screen import echo, echo_whole, first_notes, print_sheet, slow_start

if TYPE_CHECKING:
    from matrix_runner.simdisks.measured import Job

_EPILOG = """\b
Examples:
  matrix disks calibrate --from old/fio --to mine.yaml          from fio's JSON below a folder
  matrix disks calibrate --from results/nas-local-1 --to mine.yaml  from a run on a physical disk
  matrix disks calibrate --from old/fio --to mine.yaml --rpm 7200 --size 4TB

\b
It fits the model to a part of the jobs, and predicts the others. It prints each key with an interval, the keys that the
jobs do not identify, and how far the predictions are from the jobs that the fit did not see.
Then use it:  disks: {count: 6, size: 8GiB, model: mine.yaml}
"""


@click.command("calibrate", epilog=_EPILOG)
@click.option(
    "--from",
    "folder",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder with JSON of fio (`--output-format=json+`, or json) of one disk, or the folder of a run.",
)
@click.option("--to", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The model file to write.")
@click.option("--force", is_flag=True, help="Replace the file of --to.")
@click.option("--size", help="The size of the disk, if the jobs name offsets in bytes.  [default: that of the run]")
@click.option("--rpm", type=click.IntRange(60, 100_000), help="Revolutions per minute, if you know them.")
def command(folder: Path, to: Path, force: bool, size: str | None, rpm: int | None) -> None:
    """Fit a disk model to what fio measured on a disk."""
    from matrix_runner.language.disks import physics_of
    from matrix_runner.pages import calibration as page
    from matrix_runner.simdisks.calibration import calibrate
    from matrix_runner.simdisks.clib import build_library, load_library

    if to.exists() and not force:
        raise BadInput(f"{to} exists", resolution="choose another file, or replace it with --force")
    bytes_, name = _disk_of(folder, size)
    jobs, skipped = _read(folder, bytes_)
    for note in first_notes([f"{count:,} left out: {why}" for why, count in skipped.most_common()]):
        echo(f"note: {note}", err=True)
    if not jobs:
        raise BadInput(
            f"{folder} has no job that shows a disk",
            details="\n".join(f"  {count:,}: {why}" for why, count in skipped.most_common(5)),
            resolution="it reads JSON of fio with direct=1, of whole devices; `matrix help your-disk-as-a-model`",
        )
    slow_start.begin("fitting the model")
    library = load_library(asyncio.run(build_library()))
    found = calibrate(library, jobs, bytes_ or page.USUAL_SIZE, physics_of, {"rpm": rpm} if rpm else {})
    write_output(to, page.model_file(found, to.stem, name, datetime.now(UTC).date().isoformat()).encode())
    for title, sheet in page.sheets(found):
        if sheet.rows:
            echo_whole(f"\n{title}")
            print_sheet(sheet, sys.stdout)
    echo("")
    echo(page.trust(found))
    echo_whole(f"\nwritten to {to}")


def _disk_of(folder: Path, size: str | None) -> tuple[int | None, str]:
    """Return the size of the disk, if it is known, and its name."""
    from matrix_runner.records.run_folder import load

    try:
        known = parse_size(size) if size else None
    except ValueError as error:
        raise BadInput(f"--size {size}: {error}") from None
    if not (folder / "manifest.json").exists():
        return known, folder.resolve().name
    manifest = load(folder).manifest
    if manifest.synthetic:
        raise BadInput(f"{folder} is synthetic, so it shows no disk", resolution="name a run on a physical disk")
    if len(manifest.disks) != 1:
        raise BadInput(
            f"{folder} has measured {len(manifest.disks)} disks", resolution="calibrate with a run on one disk"
        )
    (disk,) = manifest.disks
    if disk.digest:
        raise BadInput(
            f"{folder} has measured a simulated disk, which has a model", resolution="name a run on a physical disk"
        )
    return known or disk.size, " ".join(filter(None, (disk.model, disk.serial))) or folder.resolve().name


def _read(folder: Path, size: int | None) -> tuple[list[Job], Counter[str]]:
    from matrix_runner.answers.disk_jobs import Unfit, disk_job
    from matrix_runner.answers.fio_import import parse_groups

    jobs: list[Job] = []
    skipped = Counter[str]()
    for file in sorted(one for one in folder.rglob("*.json") if one.is_file()):
        try:
            groups = parse_groups(read_input(file, RECORDED), file.name)
        except BadInput:
            skipped["files that are no JSON of fio"] += 1
            continue
        for group in groups:
            try:
                jobs.append(disk_job(group, str(file.relative_to(folder)), size))
            except Unfit as why:
                skipped[str(why)] += 1
    return jobs, skipped
