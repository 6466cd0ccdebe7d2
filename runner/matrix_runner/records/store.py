"""The shared store: trials of many runs, in SQLite or PostgreSQL. Their journals can fill it again at any time."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast

import orjson
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from matrix_runner.base.errors import BadInput, Damaged, HarnessBroken, MatrixError
from matrix_runner.records import store_tables as tables
from matrix_runner.records.databases import (
    OF_STORE,
    Database,
    driver_errors,
    memory_engine,
    postgresql_engine,
    sqlite_engine,
    sqlite_reader,
    translate_errors,
    upsert,
)
from matrix_runner.records.file_errors import DAMAGED
from matrix_runner.records.journal_tables import LATENCIES, cell_of, content_of, job_rows_of, latencies_of, row_of
from matrix_runner.records.observe import Progress, progress_by_cell
from matrix_runner.records.record import COUNTED, HOST_LIMITED, STEERED, UNSETTLED, CellRow, Trial
from matrix_runner.records.run_folder import RunFolder, state_of
from matrix_runner.records.store_check import check_latencies, check_run, check_trials
from matrix_runner.records.store_columns import column_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from matrix_runner.records.journal import Journal
    from matrix_runner.records.journal_reader import State
    from matrix_runner.records.store_tables import Address

_BATCH = 500
_BUSY_MS = 5_000  # milliseconds. Other writers finish fast; a longer lock must not delay a run.
_FEW = 400  # up to this many values go into a condition. Beyond it, read all rows and filter here.
_FETCHED = 1000  # rows at once, so few that the cache of a processor has all of them from the fetch to the last check
_KEY = ("run", "cell", "round")
_NAMES = tables.SHARED.tables.tables.keys()
_BLANK: dict[str, Any] = dict.fromkeys(column.name for column in tables.trials.columns)
_RUN_COLUMNS = tuple(column.name for column in tables.runs.columns if column.name != "id")
_JOB_COLUMNS = tuple(column.name for column in tables.jobs.columns if column.name not in {*_KEY, "job"})
_TRIAL_COLUMNS = tuple(column.name for column in tables.trials.columns if column.name not in _KEY)


@dataclass(frozen=True, slots=True)
class RunRow:
    id: str
    name: str
    matrix: str
    machine: str
    synthetic: bool
    host: str
    revision: str
    started: str
    finished: bool
    planned: int
    confidence: float
    until: float | None
    least: int
    most: int | None
    environment: Mapping[str, str]
    part: str = ""
    exit: int | None = None
    measured: bool = True  # at least one of its trials was measured

    @property
    def steered(self) -> bool:
        return STEERED in self.environment

    @property
    def is_adaptive(self) -> bool:
        """Return whether figures decided how many trials a cell got."""
        return self.until is not None or self.steered


class CellOfRun(NamedTuple):
    run: str
    cell: CellRow


#: Columns of a run that are fields of its manifest.
_FROM_MANIFEST = (
    *("matrix", "machine", "synthetic", "fingerprint", "started", "finished", "planned"),
    *("confidence", "until", "least", "most", "part", "exit"),
)
T = TypeVar("T")
_MEASURED = sa.exists().where(tables.trials.c.run == tables.runs.c.id, tables.trials.c.outcome.in_(COUNTED))
_RUN_NAMES = tuple(RunRow.__dataclass_fields__)
_NAME, _STARTED = _RUN_NAMES.index("name"), _RUN_NAMES.index("started")
_RUN_ROW = (
    *(tables.runs.c[name] for name in _RUN_NAMES if name != "measured"),
    _MEASURED.label("measured"),
)


class SharedStore(Database):
    """A store. Create it with `open` or `existing`, then close it or use it as a context manager."""

    def __init__(self, engine: sa.Engine, address: Address, *, fixed: bool = False) -> None:
        super().__init__(engine)
        self.address = address
        self.fixed = fixed  # it is read-only
        self.damage: dict[str, MatrixError] = {}  # by the name of a run: why it is left out
        self.turns = 0  # number of transactions, as a sign of progress
        self._trials = upsert(engine, tables.trials, _TRIAL_COLUMNS)
        self._cells = upsert(engine, tables.cells, ("name", "axes", "position"))
        self._runs = upsert(engine, tables.runs, _RUN_COLUMNS)
        self._readings = upsert(engine, tables.readings, ())
        self._latencies = upsert(engine, tables.latencies, LATENCIES)
        self._jobs = upsert(engine, tables.jobs, _JOB_COLUMNS)

    @classmethod
    def open(cls, address: Address) -> Self:
        return cls(_engine(address), address)._prepared()

    @classmethod
    def existing(cls, address: Address) -> Self:
        if address.file and not address.file.exists():
            raise BadInput(f"there is no store at {address}", resolution="`matrix run` creates one; or name another")
        fixed = address.file is not None and not all(
            os.access(path, os.W_OK) for path in (address.file, address.file.parent)
        )
        reader = sqlite_reader(address.file, _NAMES, OF_STORE) if address.file and fixed else None
        store = cls(reader or _engine(address), address, fixed=fixed)
        if not fixed:
            return store._prepared()
        with store._closed_on_error(), store._transaction() as connection:
            tables.SHARED.understood(connection, str(address))
        return store

    def _prepared(self) -> Self:
        with self._closed_on_error(), self._transaction(immediate=True) as connection:
            tables.SHARED.prepare(connection, str(self.address))
        return self

    def add(self, run: str, cells: Sequence[CellRow], trials: Sequence[Trial]) -> None:
        with self._transaction(immediate=True) as connection:
            self._put(connection, run, cells, trials)

    def catch_up(self, folder: RunFolder, journal: Journal) -> int:
        """Make the store equal to the journal of a run, under its `feeding` lock. Return the number of added trials."""
        run = folder.manifest.identity
        state = state_of(folder.path)
        self._put_run(folder, "")
        stored = self.states(run)
        # Taken out one by one, so what stays is not in the journal, and the states of 10⁵ trials are in memory once.
        missing = sorted(key for key, one in journal.states() if stored.pop(key, None) != one)
        self._remove(run, list(stored))
        for start in range(0, len(missing), _BATCH):  # so that other processes can write in between
            chosen = set(missing[start : start + _BATCH])
            batch = journal.trials_of(chosen)
            with self._transaction(immediate=True) as connection:
                self._put(connection, run, journal.cells_of({trial.cell for trial in batch}), batch)
        if missing and self._engine.dialect.name == "postgresql":  # triggers are refused in SQLite
            self._check_kept(run, missing)
        self._put_run(folder, state if folder.manifest.finished else "")
        return len(missing)

    def _check_kept(self, run: str, added: Sequence[tuple[str, int]]) -> None:
        """Raise if the database accepted trials that it does not show: a server can have rules of its own."""
        kept = self.states(run)
        if lost := [key for key in added if key not in kept]:
            raise HarnessBroken(
                f"the store {self.address} does not keep all trials",
                details=f"{len(lost):,} of {len(added):,} new trials that it accepted are not in its table `trials`",
                resolution="remove triggers, rules and policies from its tables, or name another with `--store`",
            )

    def _put_run(self, folder: RunFolder, settled: str) -> None:
        with self._transaction(immediate=True) as connection:
            connection.execute(self._runs, run_row(folder, settled))

    def _put(self, connection: sa.Connection, run: str, cells: Sequence[CellRow], trials: Sequence[Trial]) -> None:
        rows, readings, latencies, jobs = [], {}, [], list[dict[str, Any]]()
        for trial in trials:
            row = {**_BLANK, **row_of(trial)}
            content = _clean(content_of(trial.readings))
            digest = blake2b(orjson.dumps(content), digest_size=8).hexdigest()
            readings[digest] = content
            notes = {_clean(name): _clean(text) for name, text in trial.notes.items()}
            row |= {"run": run, "readings": digest, "notes": notes, "kernel": notes.get("kernel", "")}
            row |= {name: _clean(row[name]) for name in ("reason", "started", "folder")}
            row |= {name: notes.get(name, "") for name in (HOST_LIMITED, UNSETTLED)}
            rows.append(row)
            jobs += ({**one, "run": run, "job": _clean(one["job"])} for one in job_rows_of(trial))
            kept = latencies_of(trial)
            if any(kept.values()):
                latencies.append({name: row[name] for name in _KEY} | kept)
        contents = [{"digest": digest, "content": readings[digest]} for digest in sorted(readings)]
        for statement, batch in (
            (self._readings, contents),
            (self._cells, [_cell_row(run, cell) for cell in cells]),
            (self._trials, rows),
            (self._latencies, latencies),
            (self._jobs, jobs),
        ):
            if batch:
                connection.execute(statement, batch)

    def _remove(self, run: str, keys: Sequence[tuple[str, int]]) -> None:
        if not keys:
            return
        gone = [{"of": cell, "at": round_number} for cell, round_number in keys]
        which = {"run": run, "cell": sa.bindparam("of"), "round": sa.bindparam("at")}
        with self._transaction(immediate=True) as connection:
            for table in (tables.trials, tables.latencies, tables.jobs):
                connection.execute(sa.delete(table).filter_by(**which), gone)

    def complete_states(self) -> set[str]:
        query = sa.select(tables.runs.c.settled).where(tables.runs.c.settled != "")
        return {state for (state,) in self._rows(query)}

    def states(self, run: str) -> dict[tuple[str, int], State]:
        table = tables.trials.c
        query = sa.select(table.cell, table.round, table.outcome, table.attempts, table.started)
        return {(row[0], row[1]): row[2:] for row in self._plain(query.where(table.run == run))}

    def runs(self) -> list[RunRow]:
        order = (tables.runs.c.started.desc(), tables.runs.c.name.desc(), tables.runs.c.id)
        query = sa.select(*_RUN_ROW)
        try:
            rows = self._rows(query.order_by(*order))
        except Damaged:  # a text that is not UTF-8: find its run
            rows = [row for (run,) in self._rows(sa.select(tables.runs.c.id)) for row in self._alone(query, run)]
            rows.sort(key=lambda row: (row[_STARTED], row[_NAME]), reverse=True)
        return [run for row in rows if (run := self._run(row)) and run.name not in self.damage]

    def _alone(self, query: sa.Select[Any], run: str) -> Sequence[tuple[Any, ...]]:
        try:
            return self._rows(query.where(tables.runs.c.id == run))
        except Damaged as problem:
            self.damage[run] = problem
            return []

    def _run(self, row: Sequence[Any]) -> RunRow | None:
        try:
            with self._checked():
                check_run(_RUN_NAMES, row)
        except Damaged as problem:
            self.damage[str(row[_NAME])] = problem
            return None
        return RunRow(*row)

    def read_undamaged(self, read: Callable[[Sequence[RunRow]], list[T]], runs: Sequence[RunRow]) -> list[T]:
        """Read runs together. If that finds damage, read each alone, and leave out those that are damaged."""
        try:
            return read(runs)
        except Damaged as problem:
            if len(runs) == 1:
                self.damage[runs[0].name] = problem
                return []
        return [one for run in runs for one in self.read_undamaged(read, [run])]

    def progress(self, run: str) -> Progress:
        table = tables.trials.c
        counts = sa.select(table.cell, table.outcome, sa.func.count(), sa.func.max(table.reason))
        by_cell = self._rows(counts.where(table.run == run).group_by(table.cell, table.outcome))
        return progress_by_cell({one.cell.id: one.cell.name for one in self.cells({run})}, by_cell)

    def trial_counts(self, runs: Collection[str]) -> dict[str, int]:
        table = tables.trials.c
        query = sa.select(table.run, sa.func.count()).where(*_among({table.run: runs})).group_by(table.run)
        return {run: count for run, count in self._rows(query) if run in runs}

    def different_cells(self) -> list[CellRow]:
        table = tables.cells.c
        try:
            rows = self._rows(sa.select(table.id, table.name, sa.cast(table.axes, sa.Text)).distinct())
            with self._checked():
                return [cell_of((id_, name, orjson.loads(axes), None)) for id_, name, axes in rows]
        except Damaged:
            return self.read_undamaged(
                lambda some: [one.cell for one in self.cells({run.id for run in some})], self.runs()
            )

    def cells(self, runs: Collection[str] | None = None, ids: Collection[str] | None = None) -> list[CellOfRun]:
        table = tables.cells.c
        axes = sa.cast(table.axes, sa.Text)
        query = sa.select(table.run, table.id, table.name, axes, table.position)
        query = query.where(*_among({table.run: runs, table.id: ids})).order_by(table.run, table.position, table.id)
        rows = self._plain(query)

        def parse(id_: str, name: str, axes: str, position: int | None) -> CellRow:
            return cell_of((id_, name, orjson.loads(axes), position))

        read = parse if runs and len(runs) == 1 else cache(parse)  # several runs share cells, which are parsed once
        with self._checked():
            return [CellOfRun(run, read(id_, name, axes, position)) for run, id_, name, axes, position in rows]

    def first_cells(self, run: str, most: int) -> tuple[list[str] | None, int]:
        """Return the first cells of a run with trials, in declared order, and how many there are. None: no order."""
        cells, trials = tables.cells.c, tables.trials.c
        of_run = (cells.run == run) & sa.exists().where(trials.run == run, trials.cell == cells.id)
        ((count, known),) = self._rows(sa.select(sa.func.count(), sa.func.count(cells.position)).where(of_run))
        if known < count:
            return None, count
        first = sa.select(cells.id).where(of_run).order_by(cells.position, cells.id).limit(most)
        return [id_ for (id_,) in self._rows(first)], count

    def trials(
        self, columns: Sequence[str], runs: Collection[str] | None = None, cells: Collection[str] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield columns of trials as plain rows. None for runs or cells means all. A trial without a cell is left out.

        They come by run, in the declared order of cells, and by round. So the trials of 100,000 cells are in memory in
        the order in which they are used: a comparison of them takes a quarter less time. Read them to the end before
        another query: SQLite has one connection.
        """
        table = tables.trials.c
        of_cell = tables.cells.c
        query = sa.select(*map(column_of, columns)).where(*_among({table.run: runs, table.cell: cells}))
        query = query.join_from(tables.trials, tables.cells, (of_cell.run == table.run) & (of_cell.id == table.cell))
        query = query.order_by(table.run, of_cell.position, table.cell, table.round)
        is_converted = any(isinstance(column_of(name).type, sa.JSON) for name in columns)
        with self._transaction() as connection:
            found = connection.execute(query)
            while rows := (found if is_converted else found.cursor).fetchmany(_FETCHED):
                with self._checked():
                    check_trials(columns, rows)
                yield from rows

    def latencies(
        self,
        names: Sequence[str],
        job: str = "",
        runs: Collection[str] | None = None,
        cells: Collection[str] | None = None,
    ) -> Sequence[tuple[Any, ...]]:
        """Return histograms of all jobs of each trial together, or of one job."""
        table = (tables.jobs if job else tables.latencies).c
        query = sa.select(*(table[name] for name in (*_KEY, *names)))
        of_job = [tables.jobs.c.job == job] if job else []
        rows = self._plain(query.where(*_among({table.run: runs, table.cell: cells}), *of_job))
        with self._checked():
            check_latencies(names, rows)
        return rows

    def job_names(self, runs: Collection[str]) -> list[str]:
        table = tables.jobs.c
        query = sa.select(table.run, table.job).distinct().where(*_among({table.run: runs}))
        return sorted({job for run, job in self._rows(query) if run in runs})

    def _plain(self, query: sa.Executable) -> Sequence[tuple[Any, ...]]:
        """Fetch rows from the driver without conversion, which would take most of the time for 100,000 rows."""
        with self._transaction() as connection:
            return cast("Sequence[tuple[Any, ...]]", connection.execute(query).cursor.fetchall())

    def _rows(self, query: sa.Executable) -> Sequence[tuple[Any, ...]]:
        with self._transaction() as connection:
            return cast("Sequence[tuple[Any, ...]]", connection.execute(query).all())

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError) as problem:
            raise OF_STORE[DAMAGED].error(str(self.address), str(problem)) from problem

    @contextmanager
    def _explained(self) -> Iterator[None]:
        with translate_errors(str(self.address), OF_STORE), driver_errors():
            yield

    @contextmanager
    def _transaction(self, *, immediate: bool = False) -> Iterator[sa.Connection]:
        try:
            with self._explained(), self._engine.connect() as connection:
                connection.execution_options(immediate=immediate)
                with connection.begin():
                    yield connection
                self.turns += 1
        except DBAPIError as problem:  # a run continues after any database error
            raise HarnessBroken(
                f"the store {self.address} failed",
                details=str(problem.orig).strip(),
                resolution="the journals of the runs keep all trials",
            ) from problem


def describe_run(folder: RunFolder) -> RunRow:
    return RunRow(**{name: value for name, value in run_row(folder, "").items() if name in RunRow.__dataclass_fields__})


def run_row(folder: RunFolder, settled: str) -> dict[str, Any]:
    manifest = folder.manifest
    revision = manifest.revision
    return {
        **{name: _clean(getattr(manifest, name)) for name in _FROM_MANIFEST},
        "id": manifest.identity,
        "name": _clean(folder.path.name),
        "host": _clean(manifest.host.hostname or ""),
        "revision": f"{revision.commit}{'+' if revision.dirty else ''}" if revision else "",
        "environment": _clean_map(manifest.environment),
        "settled": settled,
    }


def _cell_row(run: str, cell: CellRow) -> dict[str, Any]:
    axes = _clean_map(cell.axes)
    return {"run": run, "id": cell.id, "name": _clean(cell.name), "axes": axes, "position": cell.position}


def _engine(address: Address) -> sa.Engine:
    if address.url is not None:
        return postgresql_engine(address.url)
    if address.file is None:
        return memory_engine()
    with translate_errors(address.file, OF_STORE):
        address.file.parent.mkdir(parents=True, exist_ok=True)
    return sqlite_engine(address.file, _NAMES, busy_ms=_BUSY_MS, durable=False, remedies=OF_STORE)


def _among(wanted: Mapping[sa.ColumnElement[str], Collection[str] | None]) -> Iterable[sa.ColumnElement[bool]]:
    return [column.in_(values) for column, values in wanted.items() if values is not None and len(values) <= _FEW]


def _clean(value: Any) -> Any:
    """Replace NUL (consoles may print it) and text that is not UTF-8 (file names): PostgreSQL refuses both."""
    if isinstance(value, str):
        text = value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
        return text.replace("\0", "␀") if "\0" in text else text
    return [_clean(one) for one in value] if isinstance(value, list) else value


def _clean_map(texts: Mapping[str, str]) -> dict[str, str]:
    return {_clean(name): _clean(text) for name, text in texts.items()}
