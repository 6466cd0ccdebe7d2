"""The reading half of the journal of a run."""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from math import sqrt
from operator import add, itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import orjson
import sqlalchemy as sa

from matrix_runner.base.errors import Damaged
from matrix_runner.records import tables
from matrix_runner.records.databases import (
    Database,
)
from matrix_runner.records.record import COUNTED, Attempt, CellRow, Reading, Trial
from matrix_runner.records.rows import (
    JOB_COLUMNS,
    READINGS,
    TRIAL_COLUMNS,
    cell_of,
    check_histograms,
    checked_trial,
    digest_of,
    job_of,
    readings_of,
    with_jobs,
)
from matrix_runner.records.versions import JOURNAL, sum_of_journal
from matrix_runner.work.fio.output import Figures
from matrix_runner.work.metrics import SIDES

State = tuple[Any, ...]  # outcome, attempts and start
_PART = 5000  # trials that are read at once
_LAST_ROUND = 100_000  # five times as many as a run can have; a run with more would go through each of them

_TRIALS, _CELLS = tables.IN_JOURNAL.trials.c, tables.IN_JOURNAL.cells.c
_COLUMNS = tuple(tables.raw_column(_TRIALS[name]) for name in TRIAL_COLUMNS)
_WITHOUT_CELL = _TRIALS.cell.not_in(sa.select(_CELLS.id))


@dataclass(frozen=True, slots=True)
class UnendedAttempt:
    cell: str
    round: int
    attempt: int
    boot_id: str
    started: str = ""


@dataclass(frozen=True, slots=True)
class MeanTimes:
    setup: float | None  # building a stack, over all batches but the first
    overhead: float | None  # the time of a measured trial beside fio's run time
    write_rate: float | None  # bytes/s, over trials that write
    scatter: tuple[float, ...] = ()  # relative standard deviation of each cell with several trials
    cells: Mapping[str, float] = field(default_factory=dict)  # seconds of a measured trial
    stacks: Mapping[str, float] = field(default_factory=dict)  # seconds of the fastest build


class JournalReader(Database):
    """The reading half of a journal."""

    def __init__(self, engine: sa.Engine, name: Path | str) -> None:
        super().__init__(engine, name)
        with self._closed_on_error(), self._explained():
            self._connection = engine.connect()
        self._readings: dict[str, tuple[Reading, ...]] = {}
        self._joined = False  # a transaction of several records is open

    def close(self) -> None:
        if connection := getattr(self, "_connection", None):
            connection.close()
        super().close()

    def run(self) -> str | None:
        """Return the id of its run; None if it is from before this was kept."""
        meta = tables.IN_JOURNAL.meta.c
        return next((value for (value,) in self._rows(sa.select(meta.value).where(meta.key == tables.RUN))), None)

    def retry_counts(self) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        for row in self.rows_of(tables.retried):
            identity = row["cell"], row["round"]
            found[identity] = max(found.get(identity, 0), row["attempts"])
        return found

    def set_up_times(self) -> list[tuple[str, float]]:
        return [(row["stack"], row["seconds"]) for row in self.rows_of(tables.batches)]

    def recorded_identities(self) -> set[tuple[str, int]]:
        return set(self._rows(sa.select(_TRIALS.cell, _TRIALS.round)))

    def states(self) -> Iterator[tuple[tuple[str, int], State]]:
        query = sa.select(_TRIALS.cell, _TRIALS.round, _TRIALS.outcome, _TRIALS.attempts, _TRIALS.started)
        with self._plain() as connection:
            for cell, round_number, *state in cast("sqlite3.Cursor", connection.execute(query).cursor):
                yield (cell, round_number), tuple(state)

    def trials_of(self, identities: Collection[tuple[str, int]]) -> list[Trial]:
        """Read trials for another database, which has to be able to rely on their histograms."""
        read = self.trials_of_cells({cell for cell, _ in identities})
        found = [trial for trial in read if (trial.cell, trial.round) in identities]
        with self._checked():
            for trial in found:
                check_histograms(trial.figures)
        return found

    def trials_of_cells(self, cells: Collection[str]) -> list[Trial]:
        with self._checked(), self._transaction() as connection:
            return self._trials_where(connection, _is_among(_TRIALS.cell, cells))

    def _trials_where(self, connection: sa.Connection, wanted: sa.ColumnElement[bool]) -> list[Trial]:
        rows = connection.execute(sa.select(*_COLUMNS).where(wanted).order_by(_TRIALS.id)).all()
        return self._trials(connection, rows)

    def plain_rows(self, names: tuple[str, ...], cells: Collection[str]) -> Sequence[tuple[Any, ...]]:
        """Fetch columns of trials by cell and round, as the driver returns them: objects of 10⁵ trials take seconds."""
        columns = (tables.raw_column(_TRIALS[name]) for name in names)
        query = sa.select(*columns).where(_is_among(_TRIALS.cell, cells)).order_by(_TRIALS.cell, _TRIALS.round)
        return self._plain_rows(query)

    def most_trials_of_a_cell(self) -> int:
        counts = sa.select(sa.func.count().label("trials")).group_by(_TRIALS.cell).subquery()
        ((most,),) = self._rows(sa.select(sa.func.max(counts.c.trials)))
        return most or 0

    def has_jobs(self) -> bool:
        return bool(self._rows(sa.select(tables.IN_JOURNAL.jobs.c.job).limit(1)))

    def trials(self) -> Iterator[Trial]:
        """Read trials in parts: the rows of a large run need as much memory as its trials."""
        last = 0
        while found := self.trials_after(last, _PART):
            yield from found.values()
            last = max(found)

    def trials_after(self, number: int, most: int) -> dict[int, Trial]:
        """Return the next trials by their numbers, in the order of recording."""
        with self._checked(), self._transaction() as connection:
            query = sa.select(_TRIALS.id, *_COLUMNS).where(_TRIALS.id > number).order_by(_TRIALS.id).limit(most)
            rows = connection.execute(query).all()
            trials = self._trials(connection, [row[1:] for row in rows])
        return dict(zip((row[0] for row in rows), trials, strict=True))

    def last_number(self) -> int:
        ((last,),) = self._rows(sa.select(sa.func.max(_TRIALS.id)))
        return last or 0

    def _trials(self, connection: sa.Connection, rows: Sequence[Sequence[Any]]) -> list[Trial]:
        known, jobs = self._known_readings(connection, rows), self._jobs(connection, {row[0] for row in rows})
        trials = (checked_trial(row, known) for row in rows)
        return [with_jobs(one, jobs.get((one.cell, one.round), {})) for one in trials]

    def _known_readings(
        self, connection: sa.Connection, rows: Sequence[Sequence[Any]]
    ) -> Mapping[str, tuple[Reading, ...]]:
        """Read the readings of trials that are not known yet."""
        if not {row[READINGS] for row in rows} <= self._readings.keys():
            table = tables.IN_JOURNAL.readings.c
            query = sa.select(table.digest, sa.cast(table.content, sa.Text))
            self._readings |= map(readings_of, connection.execute(query).all())
        return self._readings

    def _jobs(self, connection: sa.Connection, cells: Collection[str]) -> dict[tuple[str, int], dict[str, Figures]]:
        table = tables.IN_JOURNAL.jobs.c
        query = sa.select(*(table[name] for name in JOB_COLUMNS)).where(_is_among(table.cell, cells))
        found: dict[tuple[str, int], dict[str, Figures]] = {}
        for row in connection.execute(query.order_by(table.cell, table.round, table.position)):
            trial, name, figures = job_of(row)
            found.setdefault(trial, {})[name] = figures
        return found

    def cells(self) -> list[CellRow]:
        """Return all cells. Raise if a trial belongs to another one."""
        found = self.cells_of(None)
        if orphans := self._rows(sa.select(_TRIALS.cell).where(_WITHOUT_CELL).limit(1)):
            raise self._damage(f"a trial belongs to cell {orphans[0][0]!r:.60}, which is missing")
        return found

    def cells_of(self, ids: Collection[str] | None) -> list[CellRow]:
        """Read one row after the other: 10⁵ rows need as much memory as their cells."""
        columns = (_CELLS.id, _CELLS.name, sa.cast(_CELLS.axes, sa.Text), _CELLS.position)
        query = sa.select(*columns).order_by(_CELLS.position, _CELLS.id)
        with self._plain() as connection:
            chosen = query if ids is None else query.where(_is_among(_CELLS.id, ids))
            rows = cast("sqlite3.Cursor", connection.execute(chosen).cursor)
            return [cell_of(row) for row in rows]

    def attempts(self) -> list[Attempt]:
        return [Attempt(**row) for row in self.rows_of(tables.attempts)]

    def unended_attempts(self) -> list[UnendedAttempt]:
        return [UnendedAttempt(**row) for row in self.rows_of(tables.begun)]

    def troubles(self) -> list[str]:
        return [row["what"] for row in self.rows_of(tables.troubles)]

    def rows_of(self, table: sa.Table) -> list[dict[str, Any]]:
        names = tables.data_columns(table)
        query = sa.select(*(table.c[name] for name in names)).order_by(*table.primary_key.columns)
        return [dict(zip(names, row, strict=True)) for row in self._rows(query)]

    def mean_times(self) -> MeanTimes:
        trials, batches = _TRIALS, tables.batches.c
        measured = trials.outcome.in_(COUNTED)
        means = sa.select(sa.func.avg(trials.seconds - trials.runtime * trials.slow), sa.func.avg(trials.write_bw))
        ((overhead, written),) = self._rows(means.where(measured))
        builds = self._rows(sa.select(batches.stack, batches.seconds).order_by(batches.id))
        builds = builds[1:] or builds  # the first one may also have started the machine
        setup = fmean(seconds for _, seconds in builds) if builds else None
        fastest = dict(sorted(builds, key=itemgetter(1), reverse=True))  # the last one of each stack stays
        cells = self._rows(sa.select(trials.cell, sa.func.avg(trials.seconds)).where(measured).group_by(trials.cell))
        return MeanTimes(setup, overhead, written, tuple(self._scatter()), dict(cells), fastest)

    def _scatter(self) -> Iterator[float]:
        trials = _TRIALS
        rate = reduce(add, (sa.func.coalesce(trials[f"{side}_bw"], 0.0) for side in SIDES))
        moments = sa.select(sa.func.count(), sa.func.avg(rate), sa.func.avg(rate * rate))
        measured = moments.where(trials.outcome.in_(COUNTED)).group_by(trials.cell)
        for count, mean, of_squares in self._rows(measured):
            if count > 1 and mean:
                yield sqrt(max(0.0, of_squares - mean * mean) * count / (count - 1)) / mean

    def _understood(self) -> int:
        """Return the schema version. Raise for a damaged, foreign or newer file."""
        with self._transaction(immediate=True) as connection:
            self._check_structure(connection, Path(self._name))
            return JOURNAL.understood(connection, self._name)

    def _check_rows(self) -> None:
        readings = tables.IN_JOURNAL.readings.c
        with self._plain() as connection:
            for table in tables.SEALED:
                tables.check_rows(connection, table)
            for digest, text in connection.execute(sa.select(readings.digest, sa.cast(readings.content, sa.Text))):
                if digest_of(text) != digest:
                    raise ValueError(f"the readings {digest!r:.60} have another digest")
            self._check_trials(connection)

    def _check_trials(self, connection: sa.Connection) -> None:
        last = connection.scalar(sa.select(sa.func.max(_TRIALS.round))) or 0
        if last > _LAST_ROUND:
            raise ValueError(f"a trial is of round {last:,}")
        meta = tables.IN_JOURNAL.meta.c
        if connection.scalar(sa.select(meta.value).where(meta.key == tables.SUM)) != str(sum_of_journal(connection)):
            raise ValueError("rows are missing or added")

    @contextmanager
    def together(self, *, immediate: bool = True) -> Iterator[None]:
        """Make all records of the block durable at once, at its end; after an error, drop them."""
        with self._transaction(immediate=immediate):
            self._joined = True
            try:
                yield
            finally:
                self._joined = False

    @contextmanager
    def _transaction(self, *, immediate: bool = False) -> Iterator[sa.Connection]:
        with self._explained():
            if self._joined:
                yield self._connection
                return
            self._connection.execution_options(immediate=immediate)
            with self._connection.begin():
                yield self._connection

    @contextmanager
    def _plain(self) -> Iterator[sa.Connection]:
        """Read rows from the driver's cursor, without those of SQLAlchemy: they take more time and memory."""
        with self._checked(), self._transaction() as connection:
            yield connection


def _is_among(column: sa.Column[Any], values: Collection[str]) -> sa.ColumnElement[bool]:
    """Use one parameter: the statement for a list of a thousand takes longer than its rows."""
    wanted = sa.func.json_each(orjson.dumps([*values]).decode()).table_valued("value")
    return column.in_(sa.select(wanted.c.value))


_FIGURES = frozenset((*tables.REBUILD, *tables.FIGURES, *tables.LATENCIES))


def sql_lines(journal: Path, *, figures: bool) -> Iterator[str]:
    """Yield the statements that make a copy of the journal. A process may be writing to it."""
    try:
        # An empty name: a temporary file, which SQLite removes.
        where = f"{journal.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(where, uri=True)) as source, closing(sqlite3.connect("")) as copy:
            source.backup(copy)
            if not figures:
                _remove_figures(copy)
            yield from copy.iterdump()
    except (sqlite3.Error, UnicodeDecodeError) as problem:
        remedy = "`matrix salvage RUN` writes what can be read of it into a new run"
        raise Damaged(f"{journal} cannot be read", details=str(problem), resolution=remedy) from problem


def _remove_figures(copy: sqlite3.Connection) -> None:
    columns = [row[1] for row in copy.execute("PRAGMA table_info(trials)") if row[1] in _FIGURES]
    copy.execute(f"UPDATE trials SET {', '.join(f'{name} = NULL' for name in columns)}")  # noqa: S608 - names of ours
    copy.execute("DELETE FROM jobs")
