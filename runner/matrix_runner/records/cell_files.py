"""The scripts and outputs of the cells of a run: a folder for each cell or, in a large run, one archive for all."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matrix_runner.base.files import RECORDED, read_input
from matrix_runner.records.file_errors import recorded_file_errors
from matrix_runner.records.names import ARCHIVE, LazyFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from matrix_runner.records.archive import Archive
    from matrix_runner.records.run_folder import RunFolder

#: A run of more planned trials has an archive: a trial in folders is a dozen files.
MOST_IN_FOLDERS = 1_000


@dataclass(frozen=True, slots=True)
class CellFiles:
    run: RunFolder
    archive: Archive | None = None

    def put(self, cell: str, round_number: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str:
        """Save the scripts of a cell and the outputs of a trial. Return its folder, relative to the run."""
        return (self.archive or self.run).put(cell, round_number, scripts, outputs)

    def add(self, cell: str, files: Mapping[str, bytes]) -> None:
        """Save files as `of_cell` returned them from another run."""
        (self.archive or self.run).add(cell, files)

    def set_aside(self, cell: str, round_number: int, attempts: int) -> None:
        (self.archive or self.run).set_aside(cell, round_number, attempts)

    def keep_tear_down(self, stack: str, tear_down: str) -> None:
        self.run.keep_tear_down(stack, tear_down)

    def forget_tear_down(self, stack: str) -> None:
        self.run.forget_tear_down(stack)

    def of_cell(self, cell: str) -> LazyFiles:
        """Return the files of a cell by their paths in its folder."""
        if self.archive:
            return self.archive.files(cell)
        folder = self.run.cell(cell)
        with recorded_file_errors(folder):
            found = sorted(path for path in folder.glob("*") if path.is_file())
            found += sorted(path for path in folder.glob("trial-*/*") if path.is_file())
        return LazyFiles([str(path.relative_to(folder)) for path in found], lambda path: _read(folder / path))

    def check(self) -> None:
        """Raise if files can be missing because of damage."""
        if self.archive:
            self.archive.check()

    def read(self, path: str) -> bytes | None:
        """Return a file by its path, relative to the run; None if there is no such file."""
        if self.archive:
            return self.archive.read(path)
        file = self.run.path / path
        return _read(file) if file.is_file() else None


def _read(file: Path) -> bytes:
    with recorded_file_errors(file):
        return read_input(file, RECORDED)


@contextmanager
def open_files(run: RunFolder) -> Iterator[CellFiles]:
    """Open the files of a run for writing."""
    if not run.manifest.archived:
        yield CellFiles(run)
        return
    from matrix_runner.records.archive import Archive  # brings SQLAlchemy along

    with Archive.open(run.path / ARCHIVE) as archive:
        yield CellFiles(run, archive)


@contextmanager
def existing_files(run: RunFolder) -> Iterator[CellFiles]:
    """Open the files of a run for reading. An archive that does not exist yet has no files."""
    if not run.manifest.archived or not (run.path / ARCHIVE).exists():
        yield CellFiles(run)
        return
    from matrix_runner.records.archive import Archive

    with Archive.existing(run.path / ARCHIVE) as archive:
        yield CellFiles(run, archive)
