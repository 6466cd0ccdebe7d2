"""The scripts and outputs of the cells of a run: a folder for each cell or, in a large run, one archive for all."""

from __future__ import annotations

import zlib
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from matrix_runner.base.errors import BadInput, Cause, HarnessBroken
from matrix_runner.base.files import MIB, RECORDED, read_input, refuse_way_out, remove_temporaries, write_whole
from matrix_runner.records.databases import (
    Database,
    driver_transaction,
    sqlite_engine,
    sqlite_reader,
)
from matrix_runner.records.files import (
    ARCHIVE,
    CELLS,
    DAMAGED,
    LazyFiles,
    Standing,
    check_file_name,
    parts_of,
    recorded_file_errors,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping

    import sqlalchemy as sa

    from matrix_runner.records.run_folder import RunFolder

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
        """Return the files of a cell by their paths in its folder. To read a pipe or the like is an error."""
        folder = self.cell(cell)
        with recorded_file_errors(folder):
            found = [path for name in ("*", "trial-*/*") for path in sorted(folder.glob(name)) if not path.is_dir()]
        return LazyFiles([str(path.relative_to(folder)) for path in found], lambda path: self._content(folder / path))

    def read(self, path: str) -> bytes | None:
        """Return a file by its path, relative to the run; None if there is no such file."""
        file = self.folder / path
        return self._content(file) if file.is_file() else None

    def _content(self, file: Path) -> bytes:
        """Read a file. Refuse links to others: reports and merged runs would take them to other people."""
        with recorded_file_errors(file):
            refuse_way_out(self.folder, file)
            return read_input(file, RECORDED)

    def check(self) -> None:
        """Raise if files can be missing because of damage, which only an archive can tell."""


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

    with Archive.open(archive) if writing else Archive.existing(archive) as found:
        yield found


# The archive of a large run: scripts and outputs of its cells in one SQLite file, each text once and compressed.
#
# The program `sqlite3` reads it without this one: `SELECT writefile(name, content) FROM contents WHERE name GLOB '…'`.

_BUSY_MS = 30_000
#: Pages of the log between two checkpoints. Each checkpoint waits for the disk.
_CHECKPOINT = 8_000
#: Texts whose numbers are remembered: the scripts of a stack, and read-backs that repeat.
_REMEMBERED = 256
#: `matrix salvage` reads journals only.
_DAMAGED = Cause(
    HarnessBroken,
    "{path} is damaged",
    "move it away: the run keeps its figures, and loses the scripts and outputs of its cells",
)
_REMEDIES = {DAMAGED: _DAMAGED}
#: Stands for the name of the cell in a script, so that equal scripts of different cells are one text.
_NAME = b"\x01"

_TABLES = ("cells", "texts", "files")
_SCHEMA = Path(__file__).with_name("archive.sql").read_text(encoding="utf-8")
_PATHS = "SELECT folder || files.name FROM files JOIN cells ON cells.id = files.cell"
_READ = """
SELECT named, sz, data
FROM files JOIN cells ON cells.id = files.cell JOIN texts ON texts.id = files.text
WHERE cells.name = ? AND folder = ? AND files.name = ?
"""


class Archive(Database, Standing):
    """Create it with `open` or `existing`, then close it or use it as a context manager. For one thread at a time."""

    def __init__(self, engine: sa.Engine, path: Path) -> None:
        Database.__init__(self, engine, path, _REMEDIES)
        Standing.__init__(self, path.parent)
        with self._closed_on_error(), self._explained():
            self._held = engine.connect()
        self._driver: sqlite3.Connection = self._held.connection.driver_connection  # type: ignore[assignment]
        self._number = lru_cache(_REMEMBERED)(self._find_or_add)

    @classmethod
    def open(cls, path: Path) -> Self:
        # Files of a trial are not forced to disk either: that would cost as much as a short trial.
        archive = cls(sqlite_engine(path, _TABLES, busy_ms=_BUSY_MS, durable=False), path)
        with archive._closed_on_error(), archive._explained():
            archive._driver.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
            archive._driver.executescript(_SCHEMA)
        return archive

    @classmethod
    def existing(cls, path: Path) -> Self:
        return cls(sqlite_reader(path, _TABLES), path)

    def close(self) -> None:
        if held := getattr(self, "_held", None):
            held.close()
        super().close()

    def put(self, cell: str, round_number: int, scripts: Mapping[str, str], outputs: Mapping[str, str]) -> str:
        """Save the scripts of a cell and the outputs of a trial. Return its folder, relative to the run."""
        trial = f"trial-{round_number}"
        name, folder = cell.encode(), "/".join((CELLS, *parts_of(cell), trial))
        with self._writing():
            number = self._cell(cell)
            wanted = {file: self._text(_encoded(text), name) for file, text in scripts.items()}
            known = self._files(number) if scripts else {}
            rows = [(file, text) for file, text in wanted.items() if known.get(file) != text]
            # A script that differs from that of earlier trials goes to the folder of the trial.
            several = [(number, f"{trial}/" if file in known else "", file, text) for file, text in rows]
            several += [(number, f"{trial}/", file, self._text(_encoded(text))) for file, text in outputs.items()]
            for _, _, file, _ in several:
                check_file_name(file)
            self._driver.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", several)
        return folder

    def add(self, cell: str, files: Mapping[str, bytes]) -> None:
        """Save files of a cell by their paths in its folder."""
        name = cell.encode()
        with self._writing():
            number = self._cell(cell)
            rows = []
            for path, content in files.items():
                folder, slash, file = path.rpartition("/")
                text = self._text(content, b"" if folder else name)
                rows.append((number, f"{folder}{slash}", check_file_name(file), text))
            self._driver.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", rows)

    def set_aside(self, cell: str, round_number: int, attempts: int) -> None:
        trial = f"trial-{round_number}"
        with self._writing():
            self._driver.execute(
                "UPDATE files SET folder = ? WHERE folder = ? AND cell = (SELECT id FROM cells WHERE name = ?)",
                (f"{trial}-attempt-{attempts}/", f"{trial}/", cell),
            )

    def of_cell(self, cell: str) -> LazyFiles:
        """Return the files of a cell by their paths in its folder."""
        rows = self._explained_rows(f"{_PATHS} WHERE cells.name = ? ORDER BY folder, files.name", cell)
        found = [path for (path,) in rows]
        try:
            for path in found:
                parts_of(f"{cell}/{path}")
        except BadInput as problem:  # an archive of somebody else: bug reports and merged runs have these names, too
            raise self._damage(problem.brief) from None
        return LazyFiles(found, lambda path: self._read(cell, path))

    def _read(self, cell: str, path: str) -> bytes:
        if (found := self._find(cell, path)) is None:
            raise self._damage(f"{path} has no text")
        return found

    def _find(self, cell: str, path: str) -> bytes | None:
        folder, slash, name = path.rpartition("/")
        found = self._explained_rows(_READ, cell, f"{folder}{slash}", name)
        try:
            return _unpacked_content(cell, *found[0]) if found else None
        except (zlib.error, ValueError, TypeError) as problem:
            raise self._damage(str(problem)) from problem

    def read(self, path: str) -> bytes | None:
        """Return a file by its path, relative to the run."""
        cell, _, file = path.removeprefix(f"{CELLS}/").rpartition("/trial-")
        return self._find(cell, f"trial-{file}")

    def check(self) -> None:
        """Raise for damaged pages: rows can be missing without an error while they are read."""
        ((verdict,),) = self._explained_rows("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise self._damage(str(verdict))

    def _cell(self, cell: str) -> int:
        found = self._driver.execute("SELECT id FROM cells WHERE name = ?", (cell,)).fetchone()
        return int(found[0]) if found else self._inserted("INSERT INTO cells (name) VALUES (?)", cell)

    def _files(self, cell: int) -> dict[str, int]:
        return dict(self._driver.execute("SELECT name, text FROM files WHERE cell = ? AND folder = ''", (cell,)))

    def _text(self, content: bytes, cell: bytes = b"") -> int:
        named = bool(cell) and cell in content and _NAME not in content
        return self._number(content.replace(cell, _NAME) if named else content, named)

    def _find_or_add(self, content: bytes, named: bool) -> int:
        digest = blake2b(content, digest_size=16, salt=b"named" if named else b"").digest()
        found = self._driver.execute("SELECT id FROM texts WHERE digest = ?", (digest,)).fetchone()
        if found:
            return int(found[0])
        packed = zlib.compress(content)
        data = packed if len(packed) < len(content) else content
        return self._inserted(
            "INSERT INTO texts (digest, named, sz, data) VALUES (?, ?, ?, ?)", digest, named, len(content), data
        )

    def _inserted(self, statement: str, *values: Any) -> int:
        return self._driver.execute(statement, values).lastrowid or 0

    def _explained_rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with self._explained():
            return self._driver.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with driver_transaction(self._driver, self._name, immediate=True, remedies=_REMEDIES):
                yield
        except BaseException:
            self._number.cache_clear()  # the numbers of this transaction are void
            raise


def _unpacked_content(cell: str, named: int, size: object, data: object) -> bytes:
    if not (isinstance(size, int) and isinstance(data, bytes)):
        raise TypeError("a text of it is no text of matrix")
    if size > RECORDED:
        raise ValueError(f"a text of it is larger than {RECORDED // MIB} MiB")
    text = data if len(data) == size else _unpacked(data, size)
    if not named:
        return text
    if len(text) + text.count(_NAME) * len(cell) > RECORDED:
        raise ValueError(f"a text of it is larger than {RECORDED // MIB} MiB")
    return text.replace(_NAME, cell.encode())


def _unpacked(data: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(data, max(size, 0) + 1)  # 0 would be no limit
    if len(text) != size or not unpacker.eof:
        raise ValueError("a text of it has another size than it says")
    return text
