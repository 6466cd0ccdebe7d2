"""The journal of a run: trials, durable before the next one begins. It belongs to one thread at a time."""

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Self, cast

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from matrix_runner.base.errors import BadInput, HarnessBroken
from matrix_runner.records import tables
from matrix_runner.records.databases import (
    driver_errors,
    driver_sql,
    driver_transaction,
    memory_copy,
    sqlite_engine,
    sqlite_reader,
    upsert,
)
from matrix_runner.records.journal_reader import JournalReader
from matrix_runner.records.record import Attempt, CellRow, Outcome, Trial
from matrix_runner.records.rows import driver_row_of, job_rows_of, readings_row
from matrix_runner.records.tables import CRC, IN_JOURNAL, data_columns, sealed
from matrix_runner.records.versions import JOURNAL, seal_journal

_NAMES = IN_JOURNAL.metadata.tables.keys()
_BATCH = 1000
_BUSY_MS = 30_000
_ADD = f"UPDATE meta SET value = value + :more WHERE key = '{tables.SUM}'"  # noqa: S608 - a name of ours
#: Ends the attempts at a trial, or one of them, and returns their part of the sum.
_END = (
    "DELETE FROM begun WHERE cell = :cell AND round = :round AND attempt = coalesce(:attempt, attempt) "
    "RETURNING -1 - crc"
)


@cache  # to build a statement takes longer than to run it
def _insert(table: sa.Table) -> str:
    """Return an insert as a text for the driver. Readings, which have no checksum, may be there already."""
    if CRC not in table.c:
        return driver_sql(upsert("sqlite", table, "content"), data_columns(table))
    return driver_sql(sa.insert(table), (*data_columns(table), CRC))


class AlreadyRecorded(HarnessBroken):
    pass


class Journal(JournalReader):
    """A journal file. Create it with `open` or `existing`, then close it or use it as a context manager."""

    def __init__(self, engine: sa.Engine, name: Path | str) -> None:
        super().__init__(engine, name)
        self._written = set[str]()  # digests of readings that are in the file

    @classmethod
    def open(cls, path: Path, *, synthetic: bool | None = None, run: str | None = None) -> Self:
        """Open a journal for recording, and create it if it is missing. It keeps `synthetic`, and the id of its run.

        Invented trials are not forced to disk one by one: after a power loss, the same command invents them again.
        """
        journal = cls(_engine(path, durable=not synthetic), path)
        with journal._closed_on_error():
            is_synthetic = None if synthetic is None else str(synthetic).lower()
            journal._prepare(**{tables.SYNTHETIC: is_synthetic, tables.RUN: run, tables.SUM: "0"})
            journal._check_rows()
        return journal

    @classmethod
    def existing(cls, path: Path) -> Self:
        if not path.exists():
            raise BadInput(f"there is no journal at {path}", resolution="name the folder of a run")
        fixed = not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
        journal = cls(sqlite_reader(path, _NAMES) if fixed else _engine(path), path)
        with journal._closed_on_error():
            if journal._understood() < JOURNAL.version:
                if fixed:
                    journal = cls(memory_copy(journal._connection), path)
                journal._prepare()
            journal._check_rows()
        return journal

    @property
    def _driver(self) -> sqlite3.Connection:
        return cast("sqlite3.Connection", self._connection.connection.driver_connection)

    def add_cells(self, cells: Iterable[CellRow]) -> None:
        """Add cells; repeats are harmless. Cells must be known before their trials."""
        table, several = IN_JOURNAL.cells, iter(cells)
        while batch := list(islice(several, _BATCH)):
            # A transaction that reads first cannot write if the feed of the store wrote meanwhile.
            with self._transaction(immediate=True) as connection:
                last = connection.scalar(sa.select(sa.func.max(table.c.position)))
                ids = {cell.id: cell for cell in batch}
                places = sa.select(table.c.id, table.c.position, table.c.crc).where(table.c.id.in_(ids))
                known = {row.id: row for row in connection.execute(places)}
                rows = [
                    {"id": cell.id, "name": cell.name, "axes": dict(cell.axes)}
                    | {"position": known[cell.id].position if cell.id in known else place}
                    for place, cell in enumerate(ids.values(), start=(last or 0) + 1)
                ]
                statement = upsert("sqlite", table, "name", "axes", CRC)
                connection.execute(statement, written := [sealed(table, row) for row in rows])
                less = sum(row.crc + 1 for row in known.values())
                self._driver.execute(_ADD, {"more": sum(row[CRC] + 1 for row in written) - less})

    def begin(self, cell: str, round_number: int, attempt: int, boot_id: str, started: str = "") -> None:
        """Record the start of an attempt durably. If it crashes the host, the next run can see that."""
        row = {"cell": cell, "round": round_number, "attempt": attempt, "boot_id": boot_id, "started": started}
        with self._writing():
            self._add((tables.begun, sealed(tables.begun, row)), less=self._end(cell, round_number, attempt))

    def withdraw(self, cell: str, round_number: int) -> None:
        """Remove a started attempt that the user interrupted. That is no failure of the cell."""
        with self._writing():
            self._add(less=self._end(cell, round_number))

    def _end(self, cell: str, round_number: int, attempt: int | None = None) -> int:
        ended = {"cell": cell, "round": round_number, "attempt": attempt}
        return sum(part for (part,) in self._driver.execute(_END, ended))

    def _add(self, *rows: tuple[sa.Table, Mapping[str, Any]], less: int = 0) -> None:
        """Add sealed rows, and change the sum of all rows."""
        for table, row in rows:
            self._driver.execute(_insert(table), row)
        self._driver.execute(_ADD, {"more": sum(row[CRC] + 1 for _, row in rows) + less})

    def record(self, trial: Trial) -> None:
        """Record a trial durably. Raise AlreadyRecorded for a second trial of the same cell and round."""
        try:
            with self._writing():
                readings = self._insert(trial)
            self._written.add(readings)
        except IntegrityError as problem:
            if (trial.cell, trial.round) in self.recorded_identities():
                raise AlreadyRecorded(f"trial {trial.round} of cell {trial.cell} is recorded already") from problem
            raise HarnessBroken(f"cell {trial.cell} is not in the journal") from problem

    def _insert(self, trial: Trial) -> str:
        """Return the digest of the readings, which are in the file once the transaction ends."""
        row = driver_row_of(trial)
        if row["readings"] not in self._written:
            self._driver.execute(_insert(IN_JOURNAL.readings), readings_row(trial.readings))
        jobs = ((IN_JOURNAL.jobs, sealed(IN_JOURNAL.jobs, job)) for job in job_rows_of(trial))
        self._add((IN_JOURNAL.trials, row), *jobs, less=self._end(trial.cell, trial.round))
        return str(row["readings"])

    def record_many(self, trials: Iterable[Trial]) -> None:
        """Record trials of other journals, many in each transaction."""
        several = iter(trials)
        while batch := list(islice(several, _BATCH)):
            with driver_transaction(self._driver, self._name):
                for trial in batch:
                    self._insert(trial)

    def take_back(self) -> list[Trial]:
        """Remove broken and skipped trials, so that the run repeats them. Keep their outcomes beside."""
        table, jobs = IN_JOURNAL.trials, IN_JOURNAL.jobs
        unmeasured = table.c.outcome.in_([one.value for one in Outcome if one.about.again])
        with self._transaction(immediate=True) as connection:
            taken = self._trials_where(connection, unmeasured)
            # A skipped trial has no attempt.
            attempts = [0 if one.outcome.is_skipped else one.attempts for one in taken]
            kept = [
                {"cell": one.cell, "round": one.round, "attempts": tries, "outcome": one.outcome.value}
                | {"reason": one.reason, "started": one.started}
                for one, tries in zip(taken, attempts, strict=True)
            ]
            if kept:
                connection.execute(sa.insert(tables.retried), [sealed(tables.retried, row) for row in kept])
            of_trial = (jobs.c.cell == table.c.cell) & (jobs.c.round == table.c.round)
            connection.execute(sa.delete(jobs).where(sa.exists().where(of_trial & unmeasured)))
            connection.execute(sa.delete(table).where(unmeasured))
            seal_journal(connection)
        return taken

    def record_lost(self, attempt: Attempt) -> None:
        try:
            with self._writing():
                ended = self._end(attempt.cell, attempt.round, attempt.number)
                self._add((tables.attempts, sealed(tables.attempts, asdict(attempt))), less=ended)
        except IntegrityError as problem:
            which = f"attempt {attempt.number} at trial {attempt.round} of cell {attempt.cell}"
            raise AlreadyRecorded(f"{which} is recorded already") from problem

    def record_set_up(self, round_number: int, stack: str, seconds: float) -> None:
        with self._writing():
            row = {"round": round_number, "stack": stack, "seconds": seconds}
            self._add((tables.batches, sealed(tables.batches, row)))

    def record_trouble(self, at: str, what: str) -> None:
        self.add_rows(tables.troubles, [{"at": at, "what": what}])

    def add_rows(self, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows, also those that were read from another journal."""
        if rows:
            with self._writing():
                self._add(*((table, sealed(table, row)) for row in rows))

    def _prepare(self, **marks: str | None) -> None:
        with self._transaction(immediate=True) as connection:
            self._check_structure(connection, Path(self._name))
            JOURNAL.prepare(connection, self._name)
            if rows := [{"key": key, "value": value} for key, value in marks.items() if value is not None]:
                connection.execute(upsert("sqlite", IN_JOURNAL.meta), rows)

    def _writing(self) -> AbstractContextManager[None]:
        """Open a transaction for the statements of the block, unless one is open for several records."""
        if self._joined:
            return driver_errors()
        return driver_transaction(self._driver, self._name)


def _engine(path: Path, *, durable: bool = True) -> sa.Engine:
    return sqlite_engine(path, _NAMES, busy_ms=_BUSY_MS, durable=durable)
