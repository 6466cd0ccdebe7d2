"""The readable rows of a damaged journal: those that this program could have written."""

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from matrix_runner.base.errors import Damaged, HarnessBroken, UnfitFile
from matrix_runner.base.files import check_regular, copy_data, scratch_folder
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import CellRow, Reading, Trial
from matrix_runner.records.rows import cell_of, checker, digest_of, job_of, readings_of, trial_of, with_jobs
from matrix_runner.records.tables import CRC, IN_JOURNAL, PLAIN, data_columns, is_sound
from matrix_runner.work.fio.output import Figures

_MAGIC = b"SQLite format 3\0"
_MOST_QUERIES = 100_000
_GUESSED = 1 << 14  # rows of a table whose last one cannot be read
_RESTORE = "UPDATE sqlite_master SET type = 'table', name = ?1, tbl_name = ?1, sql = ?2 WHERE rowid = ?3"
_ABOUT_A_VALUE = re.compile(rb" value in \w+\.\w+$")  # of `quick_check`: such a row can be read
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Salvaged:
    cells: tuple[CellRow, ...]
    trials: tuple[Trial, ...]
    others: Mapping[Table, Sequence[Mapping[str, Any]]]  # rows of the other tables
    dropped: Counter[str]  # rows by table
    lost: frozenset[str]  # tables with an unknown number of unreadable rows

    @property
    def is_whole(self) -> bool:
        return not (self.dropped.total() or self.lost)


def salvage(journal: Path) -> Salvaged:
    """Read a copy of a journal: the original stays as it is."""
    with journal.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise HarnessBroken(f"nothing can be read of {journal}", details="it does not begin as a file of SQLite")
    with scratch_folder("matrix-salvage") as folder:
        copy = folder / journal.name
        for name in (journal.name, f"{journal.name}-wal"):
            with suppress(FileNotFoundError, UnfitFile):
                check_regular(source := journal.with_name(name), source.stat())  # a copy of a device has no end
                copy_data(source, folder / name)
        with suppress(Damaged, HarnessBroken):  # refuses a journal of another version
            Journal.existing(copy).close()
        try:
            with suppress(sqlite3.Error):  # the other tables may be readable
                _restore_statements(copy)
            with closing(sqlite3.connect(copy)) as connection:
                connection.text_factory = bytes
                connection.execute("PRAGMA writable_schema = ON")  # reads the tables whose statements are whole
                found = _Reader(connection).everything()
        except (sqlite3.Error, UnicodeDecodeError) as problem:
            raise HarnessBroken(f"nothing can be read of {journal}", details=str(problem)) from problem
    if not found.cells:
        raise HarnessBroken(f"nothing can be read of {journal}", details="it has no cell")
    return found


def _restore_statements(copy: Path) -> None:
    """Write damaged statements of tables again: without its statement, SQLite reads no row of a table."""
    tables = IN_JOURNAL.metadata.sorted_tables
    statements = {table.name: CreateTable(table).compile(dialect=sqlite.dialect()) for table in tables}
    ours = {name: str(statement).strip().encode() for name, statement in statements.items()}
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.text_factory = bytes
        connection.execute("PRAGMA writable_schema = ON")
        for row, *found in connection.execute("SELECT rowid, type, name, tbl_name, sql FROM sqlite_master").fetchall():
            for name, whole in ours.items():
                if found != [b"table", name.encode(), name.encode(), whole] and _is_damaged(found[-1], whole):
                    connection.execute(_RESTORE, (name, whole.decode(), row))


def _is_damaged(found: object, whole: bytes) -> bool:
    """Whether only some bytes differ. Another version has other columns, or another order of them."""
    if not isinstance(found, bytes) or len(found) != len(whole):
        return False
    return sum(one != other for one, other in zip(found, whole, strict=True)) < len(whole) / 10


class _Known(dict[str, "tuple[Reading, ...]"]):
    """Readings by digest. A trial whose readings are lost keeps its figures."""

    missing = False

    def __missing__(self, digest: str) -> tuple[Reading, ...]:
        self.missing = True
        return ()


class _Reader:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._dropped: Counter[str] = Counter()
        self._lost = set[str]()
        self._queries = 0
        self._names = set[str]()

    def everything(self) -> Salvaged:
        # This raises if the file is unreadable.
        found = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        self._names = {bytes(name).decode(errors="replace") for (name,) in found}
        cells = {cell.id: cell for cell in self._read(IN_JOURNAL.cells, cell_of)}
        trials: dict[tuple[str, int], Trial] = {}
        known = _Known(self._read(IN_JOURNAL.readings, _checked_readings))
        for trial in self._read(IN_JOURNAL.trials, lambda row: trial_of(row, known)):
            if trial.cell in cells and (trial.cell, trial.round) not in trials:
                trials[trial.cell, trial.round] = trial
            else:
                self._dropped["trials"] += 1
        if known.missing:
            self._lost.add("readings")
        jobs = defaultdict[tuple[str, int], dict[str, Figures]](dict)
        for identity, name, figures in self._read(IN_JOURNAL.jobs, job_of):
            jobs[identity][name] = figures
        trials = {key: with_jobs(trial, jobs[key]) for key, trial in trials.items()}
        others = {table: self._simple(table) for table in PLAIN}
        ordered = sorted(cells.values(), key=lambda cell: (cell.position or 0, cell.id))
        return Salvaged(tuple(ordered), tuple(trials.values()), others, self._dropped, frozenset(self._lost))

    def _simple(self, table: Table) -> list[dict[str, Any]]:
        unique = [column.name for column in table.primary_key if column.name != "id"]
        found: dict[object, dict[str, Any]] = {}
        columns = data_columns(table)
        check = checker(table, columns)

        def parse(row: Sequence[Any]) -> dict[str, Any]:
            check(row)
            return dict(zip(columns, row, strict=True))

        for row in self._read(table, parse):
            found.setdefault(tuple(row[name] for name in unique) or len(found), row)
        return list(found.values())

    def _read(self, table: Table, parse: Callable[[Sequence[Any]], T]) -> Iterator[T]:
        """Read the rows whose checksum is right, and that this program can have written."""
        data, has_checksum = data_columns(table), CRC in table.c
        names = (*data, *((CRC,) if has_checksum else ()))
        for row in self._rows(table.name, names):
            try:
                values = [value.decode() if is_text else value for value, is_text in _typed(row)]
                if not has_checksum or is_sound(values):
                    yield parse(values[: len(data)])
                    continue
            except (ValueError, TypeError):
                pass
            self._dropped[table.name] += 1

    def _rows(self, table: str, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Read rows in the order of the pages, then what comes after an unreadable page."""
        if table not in self._names:
            self._lost.add(table)
            return
        known = {bytes(row[1]).decode() for row in self._connection.execute(f'PRAGMA table_info("{table}")')}
        # SQLite would take the quoted name of an unknown column as a text.
        found = [f'"{name}"' if name in known else "NULL" for name in names]
        columns = ", ".join(f"{one}, typeof({one})" for one in found)
        query = f'SELECT rowid, {columns} FROM "{table}" NOT INDEXED'  # noqa: S608 - names of ours
        if not self._is_sound(table):
            self._lost.add(table)
        seen, last = set[int](), 0
        try:
            for number, *row in self._connection.execute(query):
                last = max(last, number)
                if (mark := hash((number, *row))) not in seen:
                    seen.add(mark)
                    yield row
        except sqlite3.Error:
            self._lost.add(table)
            if not known:  # no range of numbers can be read
                return
            for number, *row in self._by_number(query, self._last(table) or last + _GUESSED):
                if hash((number, *row)) not in seen:
                    yield row

    def _by_number(self, query: str, end: int) -> Iterator[Sequence[Any]]:
        """Read rows in ranges of their numbers. Halve a range that cannot be read, down to single rows."""
        ranges = [(1, end)]
        while ranges:
            first, last = ranges.pop()
            self._queries += 1
            try:
                yield from self._connection.execute(f"{query} WHERE rowid BETWEEN ? AND ?", (first, last)).fetchall()
            except (sqlite3.Error, OverflowError):
                middle = (first + last) // 2
                if first < last and self._queries <= _MOST_QUERIES:
                    ranges += [(middle + 1, last), (first, middle)]

    def _is_sound(self, table: str) -> bool:
        """Whether SQLite finds its pages whole. Rows can be lost without an error while they are read."""
        try:
            found = self._connection.execute(f'PRAGMA quick_check("{table}")').fetchall()
        except sqlite3.Error:
            return False
        return all(said == b"ok" or _ABOUT_A_VALUE.search(said) for (said,) in found)

    def _last(self, table: str) -> int | None:
        with suppress(sqlite3.Error):
            ((last,),) = self._connection.execute(f'SELECT max(rowid) FROM "{table}"').fetchall()  # noqa: S608
            if last is None or 0 < last < 1 << 40:
                return last or 1
        return None


def _typed(row: Sequence[Any]) -> Iterator[tuple[Any, bool]]:
    return ((value, kind == b"text") for value, kind in zip(row[::2], row[1::2], strict=True))


def _checked_readings(row: Sequence[Any]) -> tuple[str, tuple[Reading, ...]]:
    if not isinstance(row[1], str) or digest_of(row[1]) != row[0]:
        raise ValueError("readings have another digest")
    return readings_of(row)
