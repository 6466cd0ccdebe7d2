"""`matrix disks calibrate`: simdisks/calibration.py fits the model, answers/disk_jobs.py reads the jobs."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from matrix_runner.base.errors import BadInput, Exit
from matrix_runner.base.files import RECORDED, read_input, scratch_folder, write_output
from matrix_runner.base.quantities import parse_size
from matrix_runner.cli import options
from matrix_runner.cli.run import carry_out
from matrix_runner.cli.screen import echo, echo_whole, print_sheet, show_notes, slow_start
from matrix_runner.hosts import HOSTS_FILE
from matrix_runner.language.suggestions import did_you_mean
from matrix_runner.machines import Where
from matrix_runner.records.files import CELLS

if TYPE_CHECKING:
    from matrix_runner.language.hosts import LabDisk
    from matrix_runner.simdisks.measured import Job

_EPILOG = """\b
Examples:
  matrix disks calibrate wwn-0x5000c500a1b2c3d4 --to mine.yaml  measures this disk of hosts.yaml; only reads
  matrix disks calibrate --destroy wwn-0x5000c500a1b2c3d4 wwn-0x5000c500a1b2c3d4 --to mine.yaml  also writes
  matrix disks calibrate --from old/fio --to mine.yaml          from fio's JSON below a folder
  matrix disks calibrate --from results/nas-local-1 --to mine.yaml  from a run on a physical disk
  matrix disks calibrate --from old/fio --to mine.yaml --rpm 7200 --size 4TB

\b
DISK is measured for 3 to 6 minutes, after the time of --fill. Without --destroy, nothing is written to it, and it may
have any content that is not in use. The same command continues an interrupted measurement.
It fits the model to a part of the jobs, and predicts the others. It prints each key with an interval, the keys that the
jobs do not identify, and how far the predictions are from the jobs that the fit did not see.
Then use it:  disks: {count: 6, size: 8GiB, model: mine.yaml}
"""


@click.command("calibrate", epilog=_EPILOG)
@click.argument("disk", required=False)
@click.option(
    "--from",
    "folder",
    type=options.OF_FOLDER,
    help="A folder with JSON of fio (`--output-format=json+`, or json) of one disk, or the folder of a run.",
)
@click.option("--to", required=True, type=options.FILE, help="The model file to write.")
@click.option("--force", is_flag=True, help="Replace the file of --to.")
@click.option("--size", help="The size of the disk, if the jobs name offsets in bytes.  [default: that of the run]")
@click.option("--rpm", type=click.IntRange(60, 100_000), help="Revolutions per minute, if you know them.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.5),
    default=15.0,
    show_default=True,
    help="The time of a job with random requests on DISK. Sequential ones take a quarter of it.",
)
@click.option("--fill", is_flag=True, help="Write all of DISK once before: a filled SSD is slower. Needs --destroy.")
@options.hosts
@options.destroy
@options.results
def command(
    *, disk: str | None, folder: Path | None, to: Path, force: bool, size: str | None, rpm: int | None, **values: Any
) -> None:
    """Fit a disk model to what fio measures, or has measured, on a disk."""
    if (disk is None) == (folder is None):
        raise BadInput(
            "a model has one source", resolution="name the DISK to measure, or results by --from: one of them"
        )
    if to.exists() and not force:
        raise BadInput(f"{to} exists", resolution="choose another file, or replace it with --force")
    if disk is not None:
        folder = _measure(disk.removeprefix("/dev/disk/by-id/"), **values)
    elif values["destroy"] or values["fill"]:
        raise BadInput("--from measures no disk", resolution="leave --destroy and --fill out, or name the DISK instead")
    if folder:
        _fit(folder, to, size, {"rpm": rpm} if rpm else {})


def _measure(
    disk: str, seconds: float, hosts: Path | None, destroy: tuple[str, ...], results: Path, *, fill: bool
) -> Path:
    """Measure a physical disk, and return the folder of the run."""
    from matrix_runner.answers.disk_jobs import matrix_text
    from matrix_runner.simdisks.calibration import jobs_for

    if fill and not destroy:
        raise BadInput("--fill writes to the disk", resolution=f"add --destroy {disk} to destroy its content")
    declared = _declared(disk, hosts)
    jobs = jobs_for(declared.kind or _kind_of(disk), writes=bool(destroy), seconds=seconds)
    with scratch_folder("matrix-calibrate") as made:
        matrix = made / "calibrate.yaml"
        name = f"calibrate-{re.sub('[^A-Za-z0-9_-]', '-', disk)}"[:80]
        matrix.write_text(matrix_text(name, declared.size, jobs, fill=fill))
        values = {"matrix": matrix, "place": Where("local"), "results": results, "hosts": hosts, "destroy": destroy}
        end, folder = carry_out(values | {"disk": disk, "only_read": not destroy}, quiet=False, as_json=False)
    if end is not Exit.ALL_MEASURED:
        raise click.exceptions.Exit(end)
    return folder


def _declared(disk: str, hosts: Path | None) -> LabDisk:
    """Return the disk of hosts.yaml. A disk that is not there may not be used, not even for reading."""
    from matrix_runner.session.disk_lease import select_hosts
    from matrix_runner.space.declared_files import load_lab

    path = hosts or HOSTS_FILE
    lab = select_hosts(load_lab(path), path, Where("local"))
    known = {one.id: one for host in lab.hosts.values() for one in host.disks}
    if disk not in known:
        raise BadInput(
            f"{path} does not list {disk}, so it may not be used",
            details=did_you_mean(disk, known),
            resolution="add its id, serial and size to a host with `reach: local`; `matrix disks` shows them",
        )
    return known[disk]


def _kind_of(disk: str) -> str:
    """Return what the kernel takes a disk for. If it does not know, the jobs of a hard disk serve both kinds."""
    name = Path("/dev/disk/by-id", disk).resolve().name
    try:
        return "ssd" if Path("/sys/class/block", name, "queue/rotational").read_text().strip() == "0" else "hdd"
    except OSError:
        return "hdd"


def _fit(folder: Path, to: Path, size: str | None, known: dict[str, object]) -> None:
    from matrix_runner.language.disks import physics_of
    from matrix_runner.pages import calibration as page
    from matrix_runner.simdisks.calibration import calibrate
    from matrix_runner.simdisks.clib import build_library, load_library

    bytes_, name = _disk_of(folder, size)
    jobs, skipped = _read(folder, bytes_)
    show_notes([f"{count:,} left out: {why}" for why, count in skipped.most_common()])
    if not jobs:
        raise BadInput(
            f"{folder} has no job that shows a disk",
            details="\n".join(f"  {count:,}: {why}" for why, count in skipped.most_common(5)),
            resolution="it reads JSON of fio with direct=1, of whole devices; `matrix help your-disk-as-a-model`",
        )
    slow_start.begin("fitting the model")
    library = load_library(asyncio.run(build_library()))
    found = calibrate(library, jobs, bytes_ or page.USUAL_SIZE, physics_of, known)
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
    where = folder / CELLS if (folder / "manifest.json").exists() else folder
    for file in sorted(one for one in where.rglob("*.json") if one.is_file()):
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
