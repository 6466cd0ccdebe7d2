"""An archive for a bug report: what ran, its log and journal, without names that identify the host or its owner."""

import getpass
import gzip
import os
import socket
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from matrix_runner.base.errors import MatrixError
from matrix_runner.base.files import RECORDED, read_input, refuse_link
from matrix_runner.base.log import LOG_FILE, without_secrets
from matrix_runner.base.process import run
from matrix_runner.base.text import Pseudonyms
from matrix_runner.records.cell_files import open_files
from matrix_runner.records.files import CELLS
from matrix_runner.records.journal import Journal
from matrix_runner.records.journal_reader import sql_lines
from matrix_runner.records.run_folder import MANIFEST, OLD_KERNEL, RunFolder

_MOST_CELLS = 20  # cells with trouble whose logs are included
_NAMES = {"hostname": "host", "host": "host", "serial": "disk", "disk": "disk"}  # fields of a manifest
_ABOUT = """\
{name}: a report of `matrix bug-report`.

These were replaced, each by the same word in all files: names of hosts, serial numbers and names of disks, user
names, addresses and paths. Passwords were removed. Read the files before you publish them: a name in your own words
(a description, a note) stays, and so do paths that do not begin with /.

replaced: {replaced}
{left_out}
{figures}
`sqlite3 journal.sqlite <journal.sql` makes the journal again. Rows with replaced names do not fit their checksums.
"""


def write_bug_report(run: RunFolder, to: IO[bytes], *, figures: bool, progress: Callable[[str], None]) -> Pseudonyms:
    """Write the archive. What cannot be read is named in it: a report is needed most for a damaged run."""
    pseudonyms, left_out = Pseudonyms(known_names([run], _hosts_of(run))), list[str]()
    top = f"bug-report-{pseudonyms.replace(run.path.name)}"
    with (
        gzip.GzipFile("", "wb", fileobj=to, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, lines in _parts(run, figures=figures):
            progress(name)
            with tempfile.TemporaryFile() as file:
                try:
                    for line in lines():
                        file.write(f"{pseudonyms.replace(without_secrets(line))}\n".encode(errors="replace"))
                except (MatrixError, OSError) as error:
                    left_out.append(f"{name} is not whole: {error}")
                _add(archive, f"{top}/{pseudonyms.replace(name)}", file)
        with tempfile.TemporaryFile() as file:
            file.write(_about(top, pseudonyms, left_out, figures=figures).encode(errors="replace"))
            _add(archive, f"{top}/README", file)
    return pseudonyms


def _about(top: str, pseudonyms: Pseudonyms, left_out: Iterable[str], *, figures: bool) -> str:
    return _ABOUT.format(
        name=top,
        replaced=pseudonyms.summary,
        left_out=pseudonyms.replace("\n".join(left_out)),
        figures="" if figures else "The journal has no figures (--no-figures).\n",
    )


def _add(archive: tarfile.TarFile, name: str, file: IO[bytes]) -> None:
    entry = tarfile.TarInfo(name)  # without user and times
    entry.size = file.tell()
    file.seek(0)
    archive.addfile(entry, file)


def _parts(run: RunFolder, *, figures: bool) -> Iterator[tuple[str, Callable[[], Iterable[str]]]]:
    """Yield the name of each file, and a function that reads its lines."""
    yield "versions.txt", lambda: _command("--version")
    yield "doctor.txt", lambda: _command("doctor")
    yield from _parts_of_run(run, figures=figures)
    if (folder := run.path / OLD_KERNEL).is_dir() and not folder.is_symlink():
        for name, lines in _parts_of_run(replace(run, path=folder), figures=figures):
            yield f"{OLD_KERNEL}/{name}", lines


def _parts_of_run(run: RunFolder, *, figures: bool) -> Iterator[tuple[str, Callable[[], Iterable[str]]]]:
    for name in (MANIFEST, "matrix.yaml", f"{LOG_FILE}.2", f"{LOG_FILE}.1", LOG_FILE):
        if (run.path / name).exists():
            yield name, partial(_own, run, name, partial(read_input, run.path / name, RECORDED))
    yield "journal.sql", partial(_own, run, run.journal.name, partial(sql_lines, run.journal, figures=figures))
    with suppress(MatrixError), ExitStack() as stack:
        journal = stack.enter_context(Journal.existing(run.journal))
        files = stack.enter_context(open_files(run))
        names = {cell.id: cell.name for cell in journal.cells()}
        broken = (one.cell for one in journal.trials() if not one.outcome.counts)
        troubled = dict.fromkeys((*broken, *(one.cell for one in journal.attempts())))
        for cell in (*troubled,)[:_MOST_CELLS]:
            for path in (found := files.of_cell(names[cell])):
                name = f"{CELLS}/{names[cell]}/{path}"
                if path.endswith((".log", ".tsv", "job.fio")):
                    yield name, partial(_own, run, name, partial(found.__getitem__, path))


def _own(run: RunFolder, name: str, content: Callable[[], bytes | Iterable[str]]) -> Iterable[str]:
    """Return the lines of a file of the run."""
    refuse_link(run.path, name)
    found = content()
    return found.decode("utf-8", "replace").splitlines() if isinstance(found, bytes) else found


def _command(*words: str) -> list[str]:
    done = run([sys.executable, "-m", "matrix_runner.cli", *words], timeout=120)
    return (done.stdout + done.stderr).splitlines()


def _hosts_of(run: RunFolder) -> set[str]:
    with suppress(MatrixError), Journal.existing(run.journal) as journal:
        return {trial.facts.host for trial in journal.trials()}
    return set()


def known_names(runs: Sequence[RunFolder], hosts: Iterable[str]) -> dict[str, set[str]]:
    """Return the names of this host and of the runs, by their kind. `hosts`: those of their trials."""
    host = socket.gethostname()
    known = {"host": {host, host.partition(".")[0], *hosts}, "disk": set(_disks_of_this_host()), "user": set[str]()}
    places = [Path.home(), Path.cwd(), Path(sys.prefix)]
    for one in runs:
        known["host"] |= set(one.manifest.pools)
        named = (Path(word) for word in one.manifest.command if word.startswith("/"))
        places += (one.path.absolute().parent, *named)
        facts = one.manifest.model_dump(mode="json", include={"host", "disks", "pools", "health"})
        for field, text in _texts_of(facts):
            if field in _NAMES:
                known[_NAMES[field]].add(text)
    with suppress(KeyError, OSError):
        known["user"].add(getpass.getuser())
    known["user"] |= {os.environ.get("SUDO_USER", ""), Path.home().name}
    known["path"] = {str(place) for place in places if len(place.parts) > 1}
    return known


def _texts_of(value: object, field: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _texts_of(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from _texts_of(one, field)
    elif isinstance(value, str):
        yield field, value


def _disks_of_this_host() -> Iterator[str]:
    for pattern in ("*/device/serial", "*/device/wwid", "*/serial", "*/wwid"):
        for file in Path("/sys/block").glob(pattern):
            with suppress(OSError):
                yield file.read_text(errors="replace").strip()
