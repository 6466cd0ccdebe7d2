"""`matrix import`."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.cli.inputs import results, store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.history.foreign import Group
    from runner.store.record import CellRow, Trial
    from runner.store.run import Manifest, RunFolder

MACHINE = "import"
_NEVER = re.compile(r"[^A-Za-z0-9._=,+@%-]+")
_TEXT = "# Imported from fio's JSON: there was no matrix.\n"

_EPILOG = """\b
Examples:
  matrix import old/*.json --name nas-2019 --axis layout=raid5 --axis md.chunk=64KiB
  matrix import bench.json --host lab2 --kernel 6.1.0-28-amd64
  matrix results nas-2019

\b
Every group of jobs is a cell: its axes are the job's options (`workload.bs`), its name (`workload`), and what `--axis`
says. The same cell in several files is so many trials. What fio was not told to write down (percentiles) is empty.
"""


def _axis(context: click.Context, parameter: click.Parameter, told: tuple[str, ...]) -> dict[str, str]:  # noqa: ARG001
    found = {}
    for text in told:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise click.BadParameter(f"'{text}' is not AXIS=VALUE")
        found[name.strip()] = value.strip()
    return found


@click.command("import", epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--name", default="imported", show_default=True, help="What the run is called, as a matrix would be.")
@click.option("--axis", "axes", multiple=True, metavar="AXIS=VALUE", callback=_axis, help="Where all of it stands.")
@click.option("--host", default="", help="Where it was measured.")
@click.option("--kernel", default="", help="Under which kernel (`uname -r`).")
@results
@store
def command(
    files: tuple[Path, ...],
    name: str,
    axes: Mapping[str, str],
    host: str,
    kernel: str,
    results: Path,
    store: str | None,
) -> None:
    """Make a run of fio's JSON FILES that were measured elsewhere, in results/ and in the store."""
    from runner.history.foreign import groups
    from runner.store.address import address_of
    from runner.store.feed import Feed
    from runner.store.journal import Journal
    from runner.store.run import create

    address = address_of(store, results)
    texts = {file: _text(file) for file in files}
    read = sorted(
        ((file, group) for file, text in texts.items() for group in groups(text, str(file))),
        key=lambda one: one[1].started,
    )
    manifest = _manifest(name, [group for _, group in read], texts.values(), axes, host, kernel)
    folder = _begun_before(results, manifest) or create(results, manifest)
    with (
        folder.locked(),
        Journal.open(folder.journal) as journal,
        Feed(address, folder, lambda text: click.echo(text, err=True)) as feed,
    ):
        recorded = list(_trials(folder, read, texts, axes, kernel))
        journal.remember({cell.id: cell for cell, _ in recorded}.values())
        done = journal.finished()
        for _, trial in recorded:
            if (trial.cell, trial.block) not in done:
                journal.record(trial)
            feed.add(trial)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        feed.end(folder.with_manifest(finished=True, ended=now))
    _tell(folder, recorded)


def _trials(
    folder: RunFolder,
    read: Iterable[tuple[Path, Group]],
    texts: Mapping[Path, str],
    axes: Mapping[str, str],
    kernel: str,
) -> Iterable[tuple[CellRow, Trial]]:
    """Every group with its cell; the raw file goes beside, as fio's output of a trial of ours does."""
    from runner.store.record import Outcome, Trial

    known: dict[str, CellRow] = {}
    blocks: dict[str, int] = {}
    for file, group in read:
        cell = _cell(group, axes, known)
        block = blocks[cell.id] = blocks.get(cell.id, 0) + 1
        notes = {"imported": file.name, **({"kernel": kernel} if kernel else {})}
        if group.lacks:
            notes["lacks"] = "; ".join(group.lacks)
        yield (
            cell,
            Trial(
                cell=cell.id,
                block=block,
                outcome=Outcome.MEASURED if group.figures else Outcome.BROKEN,
                reason=group.failure,
                started=group.started.isoformat(timespec="milliseconds"),
                seconds=group.figures.runtime if group.figures else 0.0,
                figures=group.figures,
                notes=notes,
                folder=folder.put(cell.name, block, {}, {"fio.json": texts[file]}),
            ),
        )


def _cell(group: Group, axes: Mapping[str, str], known: dict[str, CellRow]) -> CellRow:
    """The cell that a group is a trial of: its id is that of the options that say what was done, and of the axes."""
    from runner.expand.variants import digest
    from runner.store.record import CellRow

    all_axes = {**axes, "workload": group.name, **{f"workload.{key}": value for key, value in group.options.items()}}
    id_ = digest([MACHINE, dict(group.options), dict(axes)]).hex()[:16]
    if id_ not in known:
        said = [f"{key.rpartition('.')[2]}={value}" for key, value in axes.items()]
        work = [f"{key}={group.options[key]}" for key in ("rw", "bs", "iodepth", "numjobs") if key in group.options]
        parts = [",".join(said), group.name, ",".join(work)]
        name = "/".join(_NEVER.sub("_", part).strip(".")[:200] for part in parts if part)
        taken = {cell.name for cell in known.values()}
        known[id_] = CellRow(id_, f"{name}+{id_[:6]}" if name in taken else name, all_axes)
    return known[id_]


def _manifest(
    name: str, read: Sequence[Group], texts: Iterable[str], axes: Mapping[str, str], host: str, kernel: str
) -> Manifest:
    from runner.cli.choice import command_line
    from runner.expand.variants import digest
    from runner.store.environment import Host
    from runner.store.run import Manifest

    versions = sorted({group.version for group in read if group.version})
    fingerprint = digest([MACHINE, sorted(texts), dict(axes), host, kernel]).hex()
    return Manifest(
        id=fingerprint[:16],  # so that the same files are the same run, in whatever store
        matrix=name,
        fingerprint=fingerprint,
        machine=MACHINE,
        made_up=False,
        seed=0,
        command=command_line(sys.argv),
        text=_TEXT,
        versions={kernel: {"fio": ", ".join(versions)}} if versions else {},
        host=Host(kernel="", cpu="", cores=0, memory=0, hostname=host or None),
        started=min(group.started for group in read).isoformat(timespec="seconds"),
        planned=len(read),
    )


def _begun_before(results: Path, wanted: Manifest) -> RunFolder | None:
    """An import of the same files that was killed, to go on with; one that was not is refused."""
    from runner.errors import BadInput
    from runner.store.run import runs

    before = next((run for run in runs(results) if run.manifest.fingerprint == wanted.fingerprint), None)
    if before and before.manifest.finished:
        raise BadInput(
            f"these very files are imported already, as {before.path.name}",
            resolution="every trial counts once; remove that folder to import them anew",
        )
    return before


def _text(file: Path) -> str:
    from runner.store.trouble import named

    with named(file):
        return file.read_text(encoding="utf-8", errors="replace")


def _tell(folder: RunFolder, recorded: Sequence[tuple[CellRow, Trial]]) -> None:
    cells = len({cell.id for cell, _ in recorded})
    click.echo(f"{folder.path}/: {len(recorded)} trial{'s' if len(recorded) != 1 else ''} of {cells} cells")
    for lack in sorted({trial.notes["lacks"] for _, trial in recorded if "lacks" in trial.notes}):
        count = sum(trial.notes.get("lacks") == lack for _, trial in recorded)
        click.echo(f"note: {count} of them lack {lack}", err=True)
    for _, trial in recorded:
        if trial.reason:
            click.echo(f"note: {trial.notes['imported']}: {trial.reason}", err=True)
