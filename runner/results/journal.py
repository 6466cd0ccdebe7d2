"""The journal of a run: trials, durable before the next one begins. It belongs to one thread at a time."""

import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache, reduce
from itertools import islice
from math import sqrt
from operator import add
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import orjson
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from runner.base.errors import BadInput, HarnessBroken
from runner.language.metrics import SIDES
from runner.results import journal_tables as schema
from runner.results.databases import (
    Database,
    damage_error,
    driver_errors,
    driver_sql,
    driver_transaction,
    memory_engine,
    sqlite_engine,
    sqlite_reader,
    translate_errors,
    upsert,
    upsert_of,
)
from runner.results.fio_output import Figures
from runner.results.journal_tables import (
    COLUMNS,
    JOB_COLUMNS,
    TRIAL_COLUMNS,
    cell_of,
    digest_of,
    driver_row_of,
    job_of,
    job_rows_of,
    readings_of,
    readings_row,
    trial_of,
    with_jobs,
)
from runner.results.record import SLOW, Attempt, CellRow, Outcome, Reading, Trial

State = tuple[Any, ...]  # outcome, attempts and start
_BATCH = 1000
_PART = 5000  # trials that are read at once
_BUSY_MS = 30_000
_BEGUN = ("cell", "round", "attempt", "boot_id", "started")


class _Statements(NamedTuple):
    """The statements of each trial, as texts for the driver. To build one takes longer than to run it."""

    begin: str
    end: str
    trial: str
    job: str
    readings: str
    set_up: str


@cache
def _statements() -> _Statements:
    begun = schema.begun
    end = sa.delete(begun).where(begun.c.cell == sa.bindparam("cell"), begun.c.round == sa.bindparam("round"))
    return _Statements(
        driver_sql(upsert_of("sqlite", begun, _BEGUN[3:]), _BEGUN),
        driver_sql(end),
        driver_sql(sa.insert(schema.trials), TRIAL_COLUMNS),
        driver_sql(sa.insert(schema.jobs), ("position", *schema.JOB_COLUMNS)),
        driver_sql(upsert_of("sqlite", schema.readings, ()), ("digest", "content")),
        driver_sql(sa.insert(schema.batches), ("round", "stack", "seconds")),
    )


class AlreadyRecorded(HarnessBroken):
    pass


@dataclass(frozen=True, slots=True)
class UnendedAttempt:
    cell: str
    round: int
    attempt: int
    boot_id: str
    started: str = ""


@dataclass(frozen=True, slots=True)
class MeanTimes:
    setup: float | None  # building a stack, over all batches
    overhead: float | None  # the time of a measured trial beside fio's run time
    write_rate: float | None  # bytes/s, over trials that write
    scatter: tuple[float, ...] = ()  # relative standard deviation of each cell with several trials
    cells: Mapping[str, float] = field(default_factory=dict)  # seconds of a measured trial
    stacks: Mapping[str, float] = field(default_factory=dict)  # seconds of the fastest build


class Journal(Database):
    """A journal file. Create it with `open` or `existing`, then close it or use it as a context manager."""

    def __init__(self, engine: sa.Engine, name: Path | str) -> None:
        super().__init__(engine)
        self._name = name
        with self._closed_on_error(), translate_errors(name):
            self._connection = engine.connect()
        self._readings: dict[str, tuple[Reading, ...]] = {}
        self._written = set[str]()  # digests of readings that are in the file
        self._joined = False  # a transaction of several records is open

    @classmethod
    def open(cls, path: Path, *, synthetic: bool | None = None) -> Self:
        """Open a journal for recording, and create it if it is missing. `synthetic` marks its figures.

        Invented trials are not forced to disk one by one: after a power loss, the same command invents them again.
        """
        journal = cls(_engine(path, durable=not synthetic), path)
        with journal._closed_on_error():
            journal._prepare(synthetic)
        return journal

    @classmethod
    def existing(cls, path: Path) -> Self:
        if not path.exists():
            raise BadInput(f"there is no journal at {path}", resolution="name the folder of a run")
        fixed = not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
        journal = cls(sqlite_reader(path) if fixed else _engine(path), path)
        with journal._closed_on_error():
            if journal._understood() < schema.JOURNAL.version:
                if fixed:
                    journal._copy_to_memory()
                journal._prepare()
        return journal

    def _copy_to_memory(self) -> None:
        engine = memory_engine()
        connection = engine.connect()
        with translate_errors(self._name):
            read, written = (cast("Any", one.connection.driver_connection) for one in (self._connection, connection))
            read.backup(written)
        connection.rollback()
        self.close()
        self._engine, self._connection = engine, connection

    @property
    def _driver(self) -> sqlite3.Connection:
        return cast("sqlite3.Connection", self._connection.connection.driver_connection)

    def close(self) -> None:
        if connection := getattr(self, "_connection", None):
            connection.close()
        super().close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make all records of the block durable at once, at its end; after an error, drop them."""
        with self._transaction():
            self._joined = True
            try:
                yield
            finally:
                self._joined = False

    def add_cells(self, cells: Iterable[CellRow]) -> None:
        """Add cells; repeats are harmless. Cells must be known before their trials."""
        rows = ({"id": cell.id, "name": cell.name, "axes": dict(cell.axes)} for cell in cells)
        while batch := list(islice(rows, _BATCH)):
            with self._transaction() as connection:
                last = connection.scalar(sa.select(sa.func.max(schema.cells.c.position)))
                numbered = [row | {"position": place} for place, row in enumerate(batch, start=(last or 0) + 1)]
                connection.execute(upsert(self._engine, schema.cells, ["name", "axes"]), numbered)

    def begin(self, cell: str, round_number: int, attempt: int, boot_id: str, started: str = "") -> None:
        """Record the start of an attempt durably. If it crashes the host, the next run can see that."""
        row = dict(zip(_BEGUN, (cell, round_number, attempt, boot_id, started), strict=True))
        with self._writing():
            self._driver.execute(_statements().begin, row)

    def withdraw(self, cell: str, round_number: int) -> None:
        """Remove a started attempt that the user interrupted. That is no failure of the cell."""
        with self._transaction() as connection:
            connection.execute(sa.delete(schema.begun).filter_by(cell=cell, round=round_number))

    def record(self, trial: Trial) -> None:
        """Record a trial durably. Raise AlreadyRecorded for a second trial of the same cell and round."""
        try:
            with self._writing():
                self._insert(trial)
            self._written.add(digest_of(trial.readings))
        except IntegrityError as problem:
            if (trial.cell, trial.round) in self.recorded_identities():
                raise AlreadyRecorded(f"trial {trial.round} of cell {trial.cell} is recorded already") from problem
            raise HarnessBroken(f"cell {trial.cell} is not in the journal") from problem

    def _insert(self, trial: Trial) -> None:
        row = driver_row_of(trial)
        if row["readings"] not in self._written:
            self._driver.execute(_statements().readings, readings_row(trial))
        self._driver.execute(_statements().trial, row)
        if jobs := job_rows_of(trial):
            self._driver.executemany(_statements().job, jobs)
        self._driver.execute(_statements().end, {"cell": trial.cell, "round": trial.round})

    def record_many(self, trials: Iterable[Trial]) -> None:
        """Record trials of other journals, many in each transaction."""
        several = iter(trials)
        while batch := list(islice(several, _BATCH)):
            with driver_transaction(self._driver, self._name):
                for trial in batch:
                    self._insert(trial)

    def take_back(self) -> list[Trial]:
        """Remove broken and skipped trials, so that the run repeats them. Keep their outcomes beside."""
        table, kept = schema.trials, schema.retried.c
        unmeasured = table.c.outcome.in_([Outcome.BROKEN.value, Outcome.SKIPPED.value])
        # A skipped trial has no attempt.
        tries = sa.case((table.c.outcome == Outcome.SKIPPED.value, 0), else_=table.c.attempts)
        columns = (kept.cell, kept.round, kept.attempts, kept.outcome, kept.reason, kept.started)
        values = (table.c.cell, table.c.round, tries, table.c.outcome, table.c.reason, table.c.started)
        with self._transaction(immediate=True) as connection:
            rows = connection.execute(sa.select(*COLUMNS).where(unmeasured)).all()
            known = self._known_readings(connection, rows)
            taken = [trial_of(row, known) for row in rows]
            chosen = sa.select(*values).where(unmeasured)
            connection.execute(sa.insert(schema.retried).from_select([one.name for one in columns], chosen))
            of_trial = (schema.jobs.c.cell == table.c.cell) & (schema.jobs.c.round == table.c.round)
            connection.execute(sa.delete(schema.jobs).where(sa.exists().where(of_trial & unmeasured)))
            connection.execute(sa.delete(table).where(unmeasured))
        return taken

    def retry_counts(self) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        for row in self.rows_of(schema.retried):
            identity = row["cell"], row["round"]
            found[identity] = max(found.get(identity, 0), row["attempts"])
        return found

    def record_lost(self, attempt: Attempt) -> None:
        identity = {"cell": attempt.cell, "round": attempt.round, "attempt": attempt.number}
        try:
            with self._transaction() as connection:
                connection.execute(sa.insert(schema.attempts), asdict(attempt))
                connection.execute(sa.delete(schema.begun).filter_by(**identity))
        except IntegrityError as problem:
            which = f"attempt {attempt.number} at trial {attempt.round} of cell {attempt.cell}"
            raise AlreadyRecorded(f"{which} is recorded already") from problem

    def record_set_up(self, round_number: int, stack: str, seconds: float) -> None:
        with self._writing():
            self._driver.execute(_statements().set_up, {"round": round_number, "stack": stack, "seconds": seconds})

    def set_up_times(self) -> list[tuple[str, float]]:
        return [(row["stack"], row["seconds"]) for row in self.rows_of(schema.batches)]

    def recorded_identities(self) -> set[tuple[str, int]]:
        return set(self._rows(sa.select(schema.trials.c.cell, schema.trials.c.round)))

    def states(self) -> Iterator[tuple[tuple[str, int], State]]:
        table = schema.trials.c
        query = sa.select(table.cell, table.round, table.outcome, table.attempts, table.started)
        with self._plain() as connection:
            for cell, round_number, *state in cast("sqlite3.Cursor", connection.execute(query).cursor):
                yield (cell, round_number), tuple(state)

    def trials_of(self, identities: Collection[tuple[str, int]]) -> list[Trial]:
        found = self.trials_of_cells({cell for cell, _ in identities})
        return [trial for trial in found if (trial.cell, trial.round) in identities]

    def trials_of_cells(self, cells: Collection[str]) -> list[Trial]:
        table = schema.trials.c
        rows, known = self._trial_rows(sa.select(*COLUMNS).where(table.cell.in_(sorted(cells))).order_by(table.id))
        jobs = self._jobs(schema.jobs.c.cell.in_(sorted(cells)))
        with self._understandable():
            found = (trial_of(row, known) for row in rows)
            return [with_jobs(trial, jobs.get((trial.cell, trial.round), {})) for trial in found]

    def plain_rows(self, names: tuple[str, ...], cells: Collection[str]) -> Sequence[tuple[Any, ...]]:
        """Fetch columns of trials by cell and round, as the driver returns them: objects of 10⁵ trials take seconds."""
        table = schema.trials.c
        columns = (sa.cast(table.notes, sa.Text) if name == "notes" else table[name] for name in names)
        query = sa.select(*columns).where(table.cell.in_(sorted(cells))).order_by(table.cell, table.round)
        with self._plain() as connection:
            rows = connection.execute(query).cursor.fetchall()
            schema.check_plain_rows(names)(rows)
            return cast("Sequence[tuple[Any, ...]]", rows)

    def most_trials_of_a_cell(self) -> int:
        counts = sa.select(sa.func.count().label("trials")).group_by(schema.trials.c.cell).subquery()
        ((most,),) = self._rows(sa.select(sa.func.max(counts.c.trials)))
        return most or 0

    def has_jobs(self) -> bool:
        return bool(self._rows(sa.select(schema.jobs.c.job).limit(1)))

    def trials(self) -> Iterator[Trial]:
        """Read trials in parts: the rows of a large run need as much memory as its trials."""
        jobs, last, number = self._jobs(), 0, schema.trials.c.id
        while True:
            rows, known = self._trial_rows(
                sa.select(*COLUMNS, number).where(number > last).order_by(number).limit(_PART)
            )
            with self._understandable():
                for row in rows:
                    trial = trial_of(row[:-1], known)
                    yield with_jobs(trial, jobs.get((trial.cell, trial.round), {}))
            if len(rows) < _PART:
                return
            last = rows[-1][-1]

    def _trial_rows(self, query: sa.Executable) -> tuple[Sequence[Sequence[Any]], Mapping[str, tuple[Reading, ...]]]:
        rows = self._rows(query)
        with self._understandable(), self._transaction() as connection:
            return rows, self._known_readings(connection, rows)

    def _known_readings(
        self, connection: sa.Connection, rows: Sequence[Sequence[Any]]
    ) -> Mapping[str, tuple[Reading, ...]]:
        """Read the readings of trials that are not known yet."""
        if not {row[schema.READINGS] for row in rows} <= self._readings.keys():
            table = schema.readings.c
            query = sa.select(table.digest, sa.cast(table.content, sa.Text))
            self._readings |= map(readings_of, connection.execute(query).all())
        return self._readings

    def _jobs(self, *wanted: sa.ColumnElement[bool]) -> dict[tuple[str, int], dict[str, Figures]]:
        table = schema.jobs.c
        query = sa.select(*(table[name] for name in JOB_COLUMNS)).where(*wanted)
        found: dict[tuple[str, int], dict[str, Figures]] = {}
        with self._understandable():
            for trial, name, figures in map(
                job_of, self._rows(query.order_by(table.cell, table.round, table.position))
            ):
                found.setdefault(trial, {})[name] = figures
        return found

    def cells(self) -> list[CellRow]:
        """Read one row after the other: 10⁵ rows need as much memory as their cells."""
        table = schema.cells.c
        columns = (table.id, table.name, sa.cast(table.axes, sa.Text), table.position)
        query = sa.select(*columns).order_by(table.position, table.id)
        with self._plain() as connection:
            rows = cast("sqlite3.Cursor", connection.execute(query).cursor)
            return [cell_of((id_, name, orjson.loads(axes), position)) for id_, name, axes, position in rows]

    def attempts(self) -> list[Attempt]:
        return [Attempt(**row) for row in self.rows_of(schema.attempts)]

    def unended_attempts(self) -> list[UnendedAttempt]:
        return [UnendedAttempt(**row) for row in self.rows_of(schema.begun)]

    def cells_of(self, ids: Collection[str]) -> list[CellRow]:
        table = schema.cells.c
        query = sa.select(table.id, table.name, table.axes, table.position).where(table.id.in_(sorted(ids)))
        with self._understandable():
            return [cell_of(row) for row in self._rows(query)]

    def record_trouble(self, at: str, what: str) -> None:
        with self._transaction() as connection:
            connection.execute(sa.insert(schema.troubles), {"at": at, "what": what})

    def troubles(self) -> list[str]:
        return [row["what"] for row in self.rows_of(schema.troubles)]

    def add_rows(self, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows that were read from another journal."""
        if rows:
            with self._transaction() as connection:
                connection.execute(sa.insert(table), rows)

    def rows_of(self, table: sa.Table) -> list[dict[str, Any]]:
        columns = (table.c[name] for name in schema.SIMPLE[table])
        with self._understandable():
            return list(map(schema.reader(table), self._rows(sa.select(*columns).order_by(*table.primary_key.columns))))

    def mean_times(self) -> MeanTimes:
        trials, batches = schema.trials.c, schema.batches.c
        measured = trials.outcome == Outcome.MEASURED.value
        slow = sa.func.coalesce(sa.cast(trials.notes[SLOW].as_string(), sa.Float), 1.0)
        means = sa.select(sa.func.avg(trials.seconds - trials.runtime * slow), sa.func.avg(trials.write_bw))
        ((overhead, written),) = self._rows(means.where(measured))
        ((setup,),) = self._rows(sa.select(sa.func.avg(batches.seconds)))
        cells = self._rows(sa.select(trials.cell, sa.func.avg(trials.seconds)).where(measured).group_by(trials.cell))
        stacks = self._rows(sa.select(batches.stack, sa.func.min(batches.seconds)).group_by(batches.stack))
        return MeanTimes(setup, overhead, written, tuple(self._scatter()), dict(cells), dict(stacks))

    def _scatter(self) -> Iterator[float]:
        trials = schema.trials.c
        rate = reduce(add, (sa.func.coalesce(trials[f"{side}_bw"], 0.0) for side in SIDES))
        moments = sa.select(sa.func.count(), sa.func.avg(rate), sa.func.avg(rate * rate))
        measured = moments.where(trials.outcome == Outcome.MEASURED.value).group_by(trials.cell)
        for count, mean, of_squares in self._rows(measured):
            if count > 1 and mean:
                yield sqrt(max(0.0, of_squares - mean * mean) * count / (count - 1)) / mean

    def _prepare(self, synthetic: bool | None = None) -> None:
        with self._transaction(immediate=True) as connection:
            self._check(connection)
            schema.JOURNAL.prepare(connection, self._name)
            if synthetic is not None:
                row = {"key": schema.SYNTHETIC, "value": str(synthetic).lower()}
                connection.execute(upsert(self._engine, schema.meta, ["value"]), row)

    def _understood(self) -> int:
        """Return the schema version. Raise for a damaged, foreign or newer file."""
        with self._transaction() as connection:
            self._check(connection)
            return schema.JOURNAL.understood(connection, self._name)

    def _check(self, connection: sa.Connection) -> None:
        verdict = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if verdict != "ok":
            raise damage_error(self._name, str(verdict))

    def _writing(self) -> AbstractContextManager[None]:
        """Open a transaction for the statements of the block, unless one is open for several records."""
        if self._joined:
            return driver_errors()
        return driver_transaction(self._driver, self._name)

    @contextmanager
    def _transaction(self, *, immediate: bool = False) -> Iterator[sa.Connection]:
        with translate_errors(self._name):
            if self._joined:
                yield self._connection
                return
            self._connection.execution_options(immediate=immediate)
            with self._connection.begin():
                yield self._connection

    def _rows(self, query: sa.Executable) -> Sequence[tuple[Any, ...]]:
        """Fetch all rows at once: an open cursor would block the checkpoint of the log."""
        with self._understandable(), self._transaction() as connection:
            return cast("Sequence[tuple[Any, ...]]", connection.execute(query).all())

    @contextmanager
    def _plain(self) -> Iterator[sa.Connection]:
        """Read rows from the driver's cursor, without those of SQLAlchemy: they take more time and memory."""
        with self._understandable(), self._transaction() as connection, driver_errors():
            yield connection

    @contextmanager
    def _understandable(self) -> Iterator[None]:
        """Report values that this program did not write: a flipped bit leaves the structure of a file intact."""
        try:
            yield
        except ValueError as problem:
            raise damage_error(self._name, str(problem)) from problem


def _engine(path: Path, *, durable: bool = True) -> sa.Engine:
    return sqlite_engine(path, busy_ms=_BUSY_MS, durable=durable)
