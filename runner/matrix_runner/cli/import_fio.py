"""`matrix import`: answers/fio_import.py reads the files; here they become a run."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import click

from matrix_runner.answers.axes import grouped
from matrix_runner.answers.fio_import import Group, count_documents, parse_groups
from matrix_runner.base.errors import BadInput, Exit, UnfitFile
from matrix_runner.base.files import RECORDED, read_input, write_atomically
from matrix_runner.base.model import digest
from matrix_runner.base.text import printable
from matrix_runner.cli.options import results, store, stored_text
from matrix_runner.cli.screen import echo, show_notes
from matrix_runner.records.address import address_of
from matrix_runner.records.databases import translate_errors
from matrix_runner.records.environment import Host
from matrix_runner.records.files import parts_of
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import UNSETTLED, CellRow, Outcome, Trial, TrialFacts
from matrix_runner.records.run_folder import Manifest, RunFolder, create, runs
from matrix_runner.records.store_sync import Feed
from matrix_runner.session.run_request import command_line

MACHINE = "import"
_COPY = "fio.json"
_LATEST = 2**33  # a time of a file, in seconds: later ones are errors
#: The options that go into the name of a cell.
_NAME_OPTIONS = ("rw", "bs", "iodepth", "numjobs", "filename", "directory")
#: The axes of a file, by the names of its folders, from the outermost one.
LAYOUTS: Mapping[str, Callable[[tuple[str, ...]], dict[str, str]]] = {
    "plain": lambda folders: {"folder": "/".join(folders)} if folders else {},
    "fio-plot": lambda folders: {
        **({"host": folders[0]} if len(folders) > 1 else {}),
        **({"drive": "/".join(folders[1:] or folders)} if folders else {}),
    },
    "bench-fio": lambda folders: {"drive": folders[0]} if folders else {},
}
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._=,+@%-]+")
_TEXT = "# Imported from fio's JSON: there was no matrix.\n"

_EPILOG = """\b
Examples:
  matrix import old/*.json --name nas-2019 --axis layout=raid5 --axis md.chunk=64KiB
  matrix import bench.json --host lab2 --kernel 6.1.0-28-amd64
  matrix import benchmark_data/ --layout fio-plot --name drives
  matrix results nas-2019

\b
In a FILE, the jobs up to the next `stonewall` or `new_group` are one cell. Its axes are the jobs' options
(`workload.bs`) and names (`workload`), those of `--axis`, and fio's files or devices, if these differ in a FILE.
Each FILE adds one trial to each of its cells. Figures that fio did not record are empty.

\b
Of a folder, all files NAME.json below it are read. Its folders become axes by `--layout`:
  plain      folder (the whole path)
  fio-plot   host and drive (all folders below that of the host; without such, drive only)
  bench-fio  drive

\b
Exit codes: 0 every file has figures, 2 bad input, 3 all jobs of a file are broken.
"""


def _axis(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise click.BadParameter(f"'{text}' is not AXIS=VALUE")
        stored_text(context, parameter, text)
        found[name.strip()] = value.strip()
    return found


@click.command("import", epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--layout",
    type=click.Choice([*LAYOUTS]),
    default="plain",
    show_default=True,
    help="Which axes the folders below a folder are.",
)
@click.option(
    "--name",
    default="imported",
    show_default=True,
    callback=stored_text,
    help="The name of the run, in place of a matrix name.",
)
@click.option("--axis", "axes", multiple=True, metavar="AXIS=VALUE", callback=_axis, help="An axis of all cells.")
@click.option("--host", default="", callback=stored_text, help="The measured host.")
@click.option("--kernel", default="", callback=stored_text, help="Its kernel (`uname -r`).")
@results
@store
def command(files: tuple[Path, ...], results: Path, store: str | None, layout: str, **options: Any) -> None:
    """Import fio JSON FILES from elsewhere, or all in a folder, as a run, into results/ and the store."""
    address = address_of(store, results)
    axes = dict(_files_of(files, layout))
    asked = ImportRequest(**options, of_file=axes)
    digests = _new_files(axes, frozenset(files), results)
    read: list[tuple[Path, Group]] = []
    documents, skipped = dict[Path, int](), list[str]()
    for file in list(digests):
        content = _read_again(file, digests)
        try:
            read += [(file, group) for group in parse_groups(content, str(file), _written(file))]
        except BadInput as other:
            if file in files:
                raise
            skipped.append(f"{other.brief}: skipped")
            del digests[file]
            continue
        documents[file] = count_documents(content)
    show_notes(skipped)
    if not read:
        raise BadInput(f"there is no JSON of fio below {', '.join(map(str, files))}")
    read.sort(key=lambda one: one[1].started)
    # All refusals come before the first write.
    recorded = list(_trials(asked, read, digests))
    manifest = _manifest(asked, [group for _, group in read], digests.values())
    # A killed import of the same files continues.
    same = (run for run in runs(results) if run.manifest.fingerprint == manifest.fingerprint)
    folder = next((run for run in same if not run.manifest.finished), None) or create(results, manifest)
    with (
        folder.locked(),
        Journal.open(folder.journal, synthetic=folder.manifest.synthetic, run=folder.manifest.id) as journal,
        Feed(address, folder, lambda text: echo(text, err=True)) as feed,
    ):
        for file, digest_ in digests.items():
            copy = folder.path / "imported" / digest_ / _COPY
            with translate_errors(copy):
                copy.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(copy, _read_again(file, digests))
        journal.add_cells({cell.id: cell for cell, _ in recorded}.values())
        done = journal.recorded_identities()
        journal.record_many(trial for _, trial in recorded if (trial.cell, trial.round) not in done)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        is_stored = feed.end(folder.update_manifest(finished=True, ended=now))
    _report(folder, read, recorded, documents)
    measured = {file for file, group in read if group.figures}
    if measured != digests.keys() or not is_stored:
        raise click.exceptions.Exit(Exit.BROKEN)


@dataclass(frozen=True)
class ImportRequest:
    name: str
    axes: Mapping[str, str]
    host: str
    kernel: str
    of_file: Mapping[Path, Mapping[str, str]]

    def axes_of(self, file: Path) -> dict[str, str]:
        return {**self.of_file[file], **self.axes}


def _files_of(named: Iterable[Path], layout: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the files, also those of folders, each with the axes that its folders are."""
    for path in named:
        if not path.is_dir():
            yield path, {}
            continue
        found = sorted(one for one in path.rglob("*.json") if one.is_file())
        if not found:
            raise BadInput(f"there is no file NAME.json below {path}")
        for file in found:
            yield file, LAYOUTS[layout](tuple(map(printable, file.relative_to(path).parent.parts)))


def _new_files(files: Iterable[Path], named: Collection[Path], results: Path) -> dict[Path, str]:
    """Return the digests of files that are not imported. Their contents together may not fit into memory."""
    imported = _imported(results)
    found: dict[str, Path] = {}
    skipped: list[str] = []
    for file in files:
        try:
            digest_ = _digest(_read(file))
        except BadInput as unfit:
            if file in named:
                raise
            echo(f"note: {unfit.brief}: skipped", err=True)
            continue
        if digest_ in imported:
            skipped.append(f"{file} is imported already, as {imported[digest_]}")
        elif found.setdefault(digest_, file) != file:
            skipped.append(f"{file} is the same as {found[digest_]}")
    if skipped and not found:
        raise BadInput(
            "these files are imported already" if len(skipped) > 1 else skipped[0],
            details="; ".join(skipped) if len(skipped) > 1 else "",
            resolution="every trial counts once; remove that folder to import them again",
        )
    for one in skipped:
        echo(f"note: {one}: skipped", err=True)
    return {file: digest_ for digest_, file in found.items()}


def _read_again(file: Path, digests: Mapping[Path, str]) -> bytes:
    content = _read(file)
    if _digest(content) != digests[file]:
        raise BadInput(f"{file} changes while it is read", resolution="wait until fio has ended")
    return content


def _imported(results: Path) -> dict[str, str]:
    return {
        _digest(_read(kept)): run.path.name
        for run in runs(results)
        if run.manifest.machine == MACHINE and run.manifest.finished
        for kept in sorted(run.path.rglob(_COPY))
    }


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _trials(
    asked: ImportRequest, read: Iterable[tuple[Path, Group]], digests: Mapping[Path, str]
) -> Iterator[tuple[CellRow, Trial]]:
    known: dict[str, CellRow] = {}
    names = set[str]()
    rounds = Counter[str]()
    for file, group in read:
        cell = _cell(group, asked.axes_of(file), known, names)
        rounds[cell.id] += 1
        notes = {"kernel": asked.kernel, UNSETTLED: group.unsettled, "lacks": "; ".join(group.lacks)}
        trial = Trial(
            cell=cell.id,
            round=rounds[cell.id],
            outcome=Outcome.MEASURED if group.figures else Outcome.BROKEN,
            reason=group.failure,
            started=group.started.isoformat(timespec="milliseconds"),
            seconds=group.figures.runtime if group.figures else 0.0,
            figures=group.figures,
            notes={"imported": printable(file.name), **{name: text for name, text in notes.items() if text}},
            folder=f"imported/{digests[file]}",
            facts=TrialFacts(kernel=asked.kernel, settled=not group.unsettled),
        )
        yield cell, trial


def _cell(group: Group, axes: Mapping[str, str], known: dict[str, CellRow], names: set[str]) -> CellRow:
    all_axes = {**axes, "workload": group.name, **{f"workload.{key}": value for key, value in group.options.items()}}
    id_ = digest([MACHINE, group.name, dict(group.options), dict(axes)]).hex()[:16]
    if id_ not in known:
        place = [f"{key.rpartition('.')[2]}={value}" for key, value in axes.items()]
        work = [f"{key}={group.options[key]}" for key in _NAME_OPTIONS if key in group.options]
        parts = [_FORBIDDEN.sub("_", part).strip(".")[:200] for part in (",".join(place), group.name, ",".join(work))]
        name = "/".join(filter(None, parts)) or "job"
        name = f"{name}+{id_[:6]}" if name in names else name
        names.add(name)
        parts_of(name)
        known[id_] = CellRow(id_, name, all_axes)
    return known[id_]


def _manifest(asked: ImportRequest, read: Sequence[Group], digests: Iterable[str]) -> Manifest:
    versions = sorted({group.version for group in read if group.version})
    fingerprint = digest([MACHINE, sorted(digests), dict(asked.axes), asked.host, asked.kernel]).hex()
    return Manifest(
        id=fingerprint[:16],  # the same files are the same run in every store
        matrix=asked.name,
        fingerprint=fingerprint,
        machine=MACHINE,
        synthetic=False,
        seed=0,
        command=command_line(["matrix", *sys.argv[1:]]),
        text=_TEXT,
        versions={asked.kernel: {"fio": ", ".join(versions)}} if versions else {},
        host=Host(kernel="", cpu="", cores=0, memory=0, hostname=asked.host or None),
        started=min(group.started for group in read).isoformat(timespec="seconds"),
        planned=len(read),
    )


def _written(file: Path) -> datetime:
    with translate_errors(file):
        return datetime.fromtimestamp(min(max(file.stat().st_mtime, 0), _LATEST), UTC)


def _read(file: Path) -> bytes:
    with translate_errors(file):
        try:
            return read_input(file, RECORDED)
        except UnfitFile as error:
            raise BadInput(f"{file}: cannot be read", details=str(error)) from None


def _report(
    folder: RunFolder,
    read: Sequence[tuple[Path, Group]],
    recorded: Sequence[tuple[CellRow, Trial]],
    documents: Mapping[Path, int],
) -> None:
    cells = len({cell.id for cell, _ in recorded})
    trials = f"{len(recorded)} trial{'s' * (len(recorded) != 1)}"
    echo(f"{folder.path}/: {trials} of {cells} cell{'s' * (cells != 1)}")
    lacks = Counter(trial.notes["lacks"] for _, trial in recorded if "lacks" in trial.notes)
    notes = [f"{file}: {n} JSON documents: the last whole one is used" for file, n in documents.items() if n > 1]
    notes += [f"{count} of them lack {lack}" for lack, count in sorted(lacks.items())]
    notes += [f"{trial.notes['imported']}: {trial.reason}" for _, trial in recorded if trial.reason]
    # Options alone do not separate trials of several devices.
    places = grouped((cell.name, group.where) for (_, group), (cell, _) in zip(read, recorded, strict=True))
    for name, found in places.items():
        if len({*found}) > 1:
            devices = ", ".join(sorted({*filter(None, found)})[:3])
            notes.append(f"the cell {name} has trials from {devices}: `--axis` separates imports")
    show_notes(notes)
