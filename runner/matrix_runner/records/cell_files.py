"""The scripts and outputs of the cells of a run: a folder for each cell or, in a large run, one archive for all."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from matrix_runner.base.files import RECORDED, read_input, remove_temporaries, write_whole
from matrix_runner.records.file_errors import recorded_file_errors
from matrix_runner.records.names import ARCHIVE, CELLS, LazyFiles, check_file_name, parts_of
from matrix_runner.records.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from matrix_runner.records.archive import Archive
    from matrix_runner.records.run_folder import RunFolder

#: A run of more planned trials has an archive: a trial in folders is a dozen files.
MOST_IN_FOLDERS = 1_000
CellFiles: TypeAlias = "CellFolders | Archive"


class CellFolders(Standing):
    """A folder for each cell of a run."""

    def cell(self, name: str) -> Path:
        """Return the folder of a cell by its hierarchical name. Refuse a name that leads elsewhere."""
        return self.folder.joinpath(CELLS, *parts_of(name))

    def put(self, cell: str, round_number: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str:
        """Save the scripts of a cell and the outputs of a trial. Return its folder, relative to the run."""
        # Files are not synced, which would cost as much as a short trial. But each is complete or absent, because half
        # a script may pass when run by hand. A script that differs from earlier trials goes to the trial's folder.
        folder = self.cell(cell)
        trial = folder / f"trial-{round_number}"
        with recorded_file_errors(trial):
            try:
                trial.mkdir(parents=True)
            except FileExistsError:  # an earlier attempt, perhaps killed here
                remove_temporaries(folder)
                remove_temporaries(trial)
            known = {name: _content(folder / name) for name in scripts}
            other = {name: text for name, text in scripts.items() if known[name] not in {None, _encoded(text)}}
            _write_texts(folder, {name: text for name, text in scripts.items() if known[name] is None})
            _write_texts(trial, {**other, **outputs})
        return str(trial.relative_to(self.folder))

    def add(self, cell: str, files: Mapping[str, bytes]) -> None:
        """Save files of a cell by their paths in its folder."""
        folder = self.cell(cell)
        with recorded_file_errors(folder):
            for path, content in files.items():
                file = folder.joinpath(*parts_of(path))
                file.parent.mkdir(parents=True, exist_ok=True)
                write_whole(file, content)

    def set_aside(self, cell: str, round_number: int, attempts: int) -> None:
        trial = self.cell(cell) / f"trial-{round_number}"
        if trial.is_dir():
            with recorded_file_errors(trial):
                trial.rename(trial.with_name(f"{trial.name}-attempt-{attempts}"))

    def of_cell(self, cell: str) -> LazyFiles:
        """Return the files of a cell by their paths in its folder."""
        folder = self.cell(cell)
        with recorded_file_errors(folder):
            found = sorted(path for path in folder.glob("*") if path.is_file())
            found += sorted(path for path in folder.glob("trial-*/*") if path.is_file())
        return LazyFiles([str(path.relative_to(folder)) for path in found], lambda path: _read(folder / path))

    def read(self, path: str) -> bytes | None:
        """Return a file by its path, relative to the run; None if there is no such file."""
        file = self.folder / path
        return _read(file) if file.is_file() else None

    def check(self) -> None:
        """Raise if files can be missing because of damage, which only an archive can tell."""


def _read(file: Path) -> bytes:
    with recorded_file_errors(file):
        return read_input(file, RECORDED)


def _content(path: Path) -> bytes | None:
    """Return the bytes of a file, or None if it is missing or empty (a host crash can leave it empty)."""
    return (read_input(path, RECORDED) or None) if path.is_file() else None


def _write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        write_whole(folder / check_file_name(name), _encoded(text))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


@contextmanager
def open_files(run: RunFolder, *, writing: bool = False) -> Iterator[CellFiles]:
    """Open the files of a run. An archive that does not exist yet has no files to read."""
    archive = run.path / ARCHIVE
    if not run.manifest.archived or not (writing or archive.exists()):
        yield CellFolders(run.path)
        return
    from matrix_runner.records.archive import Archive  # brings SQLAlchemy along

    with Archive.open(archive) if writing else Archive.existing(archive) as found:
        yield found
