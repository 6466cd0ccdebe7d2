"""The shared store: trials of many runs, in SQLite or PostgreSQL. Their journals can fill it again at any time."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from operator import eq
from typing import Any, NamedTuple, Self, TypeVar

import orjson
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from matrix_runner.base.errors import BadInput, Damaged, HarnessBroken, MatrixError
from matrix_runner.records import databases, tables
from matrix_runner.records.address import Address
from matrix_runner.records.journal import Journal
from matrix_runner.records.journal_reader import State
from matrix_runner.records.observe import Progress, progress_by_cell
from matrix_runner.records.record import COUNTED, EQUAL, STEERED, CellRow, Trial, check_rule
from matrix_runner.records.rows import cell_of, checker, content_of, digest_of, job_rows_of, latencies, row_of
from matrix_runner.records.run_folder import MANIFEST, RunFolder, UnusableManifest, moment, state_of
from matrix_runner.records.tables import IN_STORE, check_rows, column_of, data_columns, is_sound, raw_columns, sealed
from matrix_runner.records.versions import RUN_KEY, STORE, TooOld, name_runs, put_aside
from matrix_runner.statistics.ratios import PRACTICAL
from matrix_runner.work.metrics import split_column

_BATCH = 500
_BUSY_MS = 5_000  # milliseconds. Other writers finish fast; a longer lock must not delay a run.
_FEW = 400  # up to this many values go into a condition. Beyond it, read all rows and filter here.
_FETCHED = 1000  # rows at once, so few that the cache of a processor has all of them from the fetch to the last check
_KEY = ("run", "cell", "round")
_NAMES = IN_STORE.metadata.tables.keys()
#: The tables of rows of a run, and those that say what a run is.
_OF_RUNS = tuple(IN_STORE.metadata.tables[name] for name in tables.OF_RUNS)
_SUMS = {table: f"{table.name}_{tables.SUM}" for table in _OF_RUNS}  # columns of a run


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
    tags: tuple[str, ...] = ()
    note: str = ""
    excluded: str = ""  # why history and baselines leave it out

    @property
    def kind(self) -> tuple[str, ...]:
        """Return what is equal for runs of the same work on the same host."""
        return self.matrix, self.machine, self.host, str(self.synthetic), self.part

    @property
    def is_good(self) -> bool:
        """Return whether it may be a baseline: it is complete, nothing failed, and it is not excluded."""
        return self.finished and self.exit == 0 and not self.excluded

    @property
    def steered(self) -> bool:
        return STEERED in self.environment

    @property
    def practical(self) -> float:
        """Return the differences that count as equal."""
        return float(self.environment.get(EQUAL, PRACTICAL))

    @property
    def is_adaptive(self) -> bool:
        """Return whether figures decided how many trials a cell got."""
        return self.until is not None or self.steered


class CellOfRun(NamedTuple):
    run: str
    cell: CellRow


T = TypeVar("T")
#: Ids and names of runs that were stored, were not removed, and have no row any more.
_LOST_RUNS = sa.select(sa.func.substr(IN_STORE.meta.c.key, len(RUN_KEY) + 1), IN_STORE.meta.c.value).where(
    IN_STORE.meta.c.key.startswith(RUN_KEY), IN_STORE.meta.c.key.not_in(sa.select(RUN_KEY + tables.runs.c.id))
)
_check_kinds = checker(tables.runs, data_columns(tables.runs))
_MEASURED = sa.exists().where(IN_STORE.trials.c.run == tables.runs.c.id, IN_STORE.trials.c.outcome.in_(COUNTED))


class SharedStore(databases.Database):
    """A store. Create it with `open` or `existing`, then close it or use it as a context manager."""

    def __init__(self, engine: sa.Engine, address: Address, *, fixed: bool = False) -> None:
        super().__init__(engine, str(address), databases.OF_STORE)
        self.address = address
        self.fixed = fixed  # it is read-only
        self.damage: dict[str, MatrixError] = {}  # by the name of a run: why it is left out
        self.note = ""  # what the user has to know of it
        self.turns = 0  # number of transactions, as a sign of progress
        self._readings = databases.upsert(engine.dialect.name, IN_STORE.readings)
        self._upserts = {
            table: databases.upsert(
                engine.dialect.name, table, *(one.name for one in table.columns if not one.primary_key)
            )
            for table in (*_OF_RUNS, tables.runs)
        }

    @classmethod
    def open(cls, address: Address) -> Self:
        return cls._replaced_if_old(address, lambda: cls(_engine(address), address)._prepared())

    @classmethod
    def existing(cls, address: Address) -> Self:
        return cls._replaced_if_old(address, lambda: cls._existing(address))

    @classmethod
    def _replaced_if_old(cls, address: Address, opened: Callable[[], Self]) -> Self:
        """Open a store. Rename the file of one that is too old to be read: the journals have its trials, too."""
        file = address.file
        was = file.stat().st_ino if file and file.exists() else None
        try:
            return opened()
        except TooOld as problem:
            if file is None or was is None or not os.access(file.parent, os.W_OK):
                raise
            aside = put_aside(file, was)
            store = cls.open(address)
            store.note = f"{problem.brief}; it is {aside} now, and a new store is filled from the journals of the runs"
            return store

    @classmethod
    def _existing(cls, address: Address) -> Self:
        if address.file and not address.file.exists():
            raise BadInput(f"there is no store at {address}", resolution="`matrix run` creates one; or name another")
        fixed = address.file is not None and not all(
            os.access(path, os.W_OK) for path in (address.file, address.file.parent)
        )
        reader = databases.sqlite_reader(address.file, _NAMES, databases.OF_STORE) if address.file and fixed else None
        store = cls(reader or _engine(address), address, fixed=fixed)
        with store._closed_on_error(), store._transaction(immediate=True) as connection:
            store._check_structure(connection, address.file)
            if fixed and STORE.understood(connection, str(address)) < STORE.version:
                return cls(databases.memory_copy(connection), address, fixed=True)._prepared()
        return store if fixed else store._prepared()

    def _prepared(self) -> Self:
        with self._closed_on_error(), self._transaction(immediate=True) as connection:
            STORE.prepare(connection, self._name)
        return self

    def add(self, run: str, cells: Sequence[CellRow], trials: Sequence[Trial]) -> None:
        with self._transaction(immediate=True) as connection:
            self._put(connection, run, cells, trials)

    def catch_up(self, folder: RunFolder, journal: Journal, *, grows: bool = False) -> int:
        """Make the store equal to the journal of a run, under its `feeding` lock. Return the number of added trials.

        A run that grows gets no sums of its rows: `add` would have to change them.
        """
        run, known = folder.manifest.id, journal.run()
        if known not in {None, run}:
            raise UnusableManifest(
                f"{folder.path / MANIFEST} has another id than the journal beside it",
                details=f"{run} instead of {known}: its trials would count twice",
                resolution=f'someone edited it: write "id": "{known}" again',
            )
        state = state_of(folder.path)
        with self._transaction() as connection:
            is_whole = not any(_incomplete(connection, table, tables.runs.c.id == run) for table in _OF_RUNS)
        if not is_whole:
            self.remove_run(run)  # the journal has its rows, too
        self._put_run(folder, grows=True)
        stored = self.states(run)
        # Taken out one by one, so what stays is not in the journal, and the states of 10⁵ trials are in memory once.
        missing = sorted(key for key, one in journal.states() if stored.pop(key, None) != one)
        for start in range(0, len(missing), _BATCH):  # so that other processes can write in between
            chosen = set(missing[start : start + _BATCH])
            batch = journal.trials_of(chosen)
            with self._transaction(immediate=True) as connection:
                self._put(connection, run, journal.cells_of({trial.cell for trial in batch}), batch)
        self._remove(run, list(stored))
        if missing and self._engine.dialect.name == "postgresql":  # triggers are refused in SQLite
            self._check_kept(run, missing)
        self._put_run(folder, state if folder.manifest.finished else "", grows=grows)
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

    def _put_run(self, folder: RunFolder, settled: str = "", *, grows: bool) -> None:
        row = run_row(folder, settled)
        with self._transaction(immediate=True) as connection:
            if not grows:
                sums = (sa.select(tables.sum_of(table)).where(table.c.run == row["id"]) for table in _OF_RUNS)
                row |= zip(_SUMS.values(), (connection.scalar(one) for one in sums), strict=True)
            connection.execute(self._upserts[tables.runs], sealed(tables.runs, row))
            name_runs(connection)

    def _put(self, connection: sa.Connection, run: str, cells: Sequence[CellRow], trials: Sequence[Trial]) -> None:
        rows: dict[sa.Table, list[dict[str, Any]]] = {table: [] for table in _OF_RUNS}
        rows[IN_STORE.cells] = [
            {"run": run, "id": cell.id, "name": cell.name, "axes": dict(cell.axes), "position": cell.position}
            for cell in cells
        ]
        readings = dict[str, list[Any]]()
        for trial in trials:
            content = _clean(content_of(trial.readings))
            digest = digest_of(orjson.dumps(content).decode())
            readings[digest] = content
            rows[IN_STORE.trials].append({**row_of(trial), "run": run, "readings": digest})
            rows[IN_STORE.jobs] += ({**one, "run": run} for one in job_rows_of(trial))
            kept = latencies(trial.figures)
            if any(kept.values()):
                rows[tables.latencies].append({"run": run, "cell": trial.cell, "round": trial.round, **kept})
        if readings:
            contents = [{"digest": digest, "content": readings[digest]} for digest in sorted(readings)]
            connection.execute(self._readings, contents)
        for table, several in rows.items():
            if several:
                connection.execute(self._upserts[table], [sealed(table, _clean(row)) for row in several])

    def _remove(self, run: str, keys: Sequence[tuple[str, int]]) -> None:
        if not keys:
            return
        gone = [{"of": cell, "at": round_number} for cell, round_number in keys]
        which = {"run": run, "cell": sa.bindparam("of"), "round": sa.bindparam("at")}
        with self._transaction(immediate=True) as connection:
            for table in (IN_STORE.trials, IN_STORE.jobs, tables.latencies):
                connection.execute(sa.delete(table).filter_by(**which), gone)

    def remove_run(self, run: str) -> None:
        """Remove a run, and the readings that only its trials have."""
        used = sa.select(IN_STORE.trials.c.readings)
        with self._transaction(immediate=True) as connection:
            for table in _OF_RUNS:
                connection.execute(sa.delete(table).filter_by(run=run))
            connection.execute(sa.delete(tables.runs).filter_by(id=run))
            connection.execute(sa.delete(IN_STORE.meta).filter_by(key=RUN_KEY + run))
            connection.execute(sa.delete(IN_STORE.readings).where(IN_STORE.readings.c.digest.not_in(used)))

    def complete_states(self) -> set[str]:
        """Return the states of the runs whose journals need not be read. Older rows without sums get them."""
        of_run = tables.runs.c
        query = sa.select(of_run.settled).where(of_run.settled != "", of_run[_SUMS[IN_STORE.trials]].is_not(None))
        with self._transaction() as connection, _any_text(connection):
            return set(connection.execute(query).scalars())

    def states(self, run: str) -> dict[tuple[str, int], State]:
        table = IN_STORE.trials.c
        query = sa.select(table.cell, table.round, table.outcome, table.attempts, table.started)
        return {(row[0], row[1]): row[2:] for row in self._plain_rows(query.where(table.run == run))}

    def runs(self) -> list[RunRow]:
        """Return the undamaged runs, the latest first."""
        with self._transaction() as connection, _any_text(connection):
            rows = connection.execute(sa.select(*raw_columns(tables.runs), _MEASURED)).cursor.fetchall()
            found = sorted((self._run(row) for row in rows), key=lambda run: run.id)
            lost = dict[str, str](connection.execute(_LOST_RUNS).all())
            for name in lost.values():
                self.damage.setdefault(name, self._damage("its row in `runs` is missing"))
            if connection.dialect.name == "sqlite":
                self._find_orphans(connection, found, lost)
            for name in _incomplete(connection, IN_STORE.trials, ~_MEASURED):  # nobody reads trials of such a run
                self.damage.setdefault(name, self._damage("rows of its trials are missing"))
        found.sort(key=lambda run: (run.started, run.name), reverse=True)
        return [run for run in found if run.name not in self.damage]

    def _run(self, row: Sequence[Any]) -> RunRow:
        *values, _, measured = row
        known = dict(zip(data_columns(tables.runs), values, strict=True))
        try:
            known |= _checked_run(known, row[:-1])
        except (ValueError, TypeError) as problem:
            self.damage[str(known["name"])] = self._damage(str(problem))
            known |= {"environment": {}, "tags": []}
        known |= {name: bool(known[name]) for name in ("synthetic", "finished")}
        return _row(known | {"measured": bool(measured)})

    def _find_orphans(self, connection: sa.Connection, runs: Sequence[RunRow], lost: Collection[str]) -> None:
        """Find rows whose run does not exist and is not known as lost, and name the run with the most similar id."""
        for table in _OF_RUNS:
            of_none = table.c.run.not_in(sa.select(tables.runs.c.id))
            for orphan in set(connection.scalars(sa.select(table.c.run).where(of_none).distinct())).difference(lost):
                alike = max(runs, key=lambda run: sum(map(eq, run.id, str(orphan))), default=None)
                name = alike.name if alike else str(orphan)
                self.damage.setdefault(name, self._damage(f"{table.name} has rows of an unknown run {orphan!r:.60}"))

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
        table = IN_STORE.trials.c
        counts = sa.select(table.cell, table.outcome, sa.func.count(), sa.func.max(table.reason))
        self._check(IN_STORE.trials, {run})
        by_cell = self._rows(counts.where(table.run == run).group_by(table.cell, table.outcome))
        return progress_by_cell({one.cell.id: one.cell.name for one in self.cells({run})}, by_cell)

    def trial_counts(self, runs: Sequence[RunRow]) -> dict[str, int]:
        table = IN_STORE.trials.c

        def read(some: Sequence[RunRow]) -> list[tuple[str, int]]:
            ids = {run.id for run in some}
            self._check(IN_STORE.trials, ids)
            query = sa.select(table.run, sa.func.count()).where(*_among({table.run: ids})).group_by(table.run)
            return [(run, count) for run, count in self._rows(query) if run in ids]

        return dict(self.read_undamaged(read, runs))

    def different_cells(self) -> list[CellRow]:
        def read(some: Sequence[RunRow]) -> list[CellRow]:
            return [one.cell for one in self.cells({run.id for run in some})]

        return list({cell.id: cell for cell in self.read_undamaged(read, self.runs())}.values())

    def cells(self, runs: Collection[str] | None = None, ids: Collection[str] | None = None) -> list[CellOfRun]:
        table = IN_STORE.cells.c
        axes = sa.cast(table.axes, sa.Text)
        query = sa.select(table.run, table.id, table.name, axes, table.position)
        query = query.where(*_among({table.run: runs, table.id: ids})).order_by(table.run, table.position, table.id)
        self._check(IN_STORE.cells, runs, ids)
        rows = self._plain_rows(query)
        # Several runs share cells, which are parsed once.
        parse = cell_of if runs and len(runs) == 1 else cache(cell_of)
        with self._checked():
            return [CellOfRun(run, parse(tuple(row))) for run, *row in rows]

    def first_cells(self, run: str, most: int) -> tuple[list[str] | None, int]:
        """Return the first cells of a run with trials, in declared order, and how many there are. None: no order."""
        cells, trials = IN_STORE.cells.c, IN_STORE.trials.c
        self._check(IN_STORE.cells, {run})
        of_run = (cells.run == run) & sa.exists().where(trials.run == run, trials.cell == cells.id)
        ((count, known),) = self._rows(sa.select(sa.func.count(), sa.func.count(cells.position)).where(of_run))
        if known < count:
            return None, count
        first = sa.select(cells.id).where(of_run).order_by(cells.position, cells.id).limit(most)
        return [id_ for (id_,) in self._rows(first)], count

    def trials(
        self, columns: Sequence[str], runs: Collection[str] | None = None, cells: Collection[str] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Yield columns of trials as plain rows. None for runs or cells means all.

        They come by run, in the declared order of cells, and by round. So the trials of 100,000 cells are in memory in
        the order in which they are used: a comparison of them takes a quarter less time. Read them to the end before
        another query: SQLite has one connection.
        """
        table = IN_STORE.trials.c
        of_cell = IN_STORE.cells.c
        query = sa.select(*map(column_of, columns)).where(*_among({table.run: runs, table.cell: cells}))
        query = query.join_from(
            IN_STORE.trials, IN_STORE.cells, (of_cell.run == table.run) & (of_cell.id == table.cell)
        )
        query = query.order_by(table.run, of_cell.position, table.cell, table.round)
        is_converted = any(isinstance(column_of(name).type, sa.JSON) for name in columns)
        self._check(IN_STORE.trials, runs, cells)
        if any(split_column(name)[0] for name in columns):
            self._check(IN_STORE.jobs, runs)
        with self._transaction() as connection:
            found = connection.execute(query)
            while rows := (found if is_converted else found.cursor).fetchmany(_FETCHED):
                yield from rows

    def latencies(
        self,
        names: Sequence[str],
        job: str = "",
        runs: Collection[str] | None = None,
        cells: Collection[str] | None = None,
    ) -> Sequence[tuple[Any, ...]]:
        """Return histograms of all jobs of each trial together, or of one job."""
        table = IN_STORE.jobs if job else tables.latencies
        query = sa.select(*(table.c[name] for name in (*_KEY, *names)))
        of_job = [table.c.job == job] if job else []
        query = query.where(*_among({table.c.run: runs, table.c.cell: cells}), *of_job)
        self._check(table, runs, None if job else cells)
        return self._plain_rows(query)

    def job_names(self, runs: Sequence[RunRow]) -> list[str]:
        table = IN_STORE.jobs.c

        def read(some: Sequence[RunRow]) -> list[str]:
            ids = {run.id for run in some}
            self._check(IN_STORE.jobs, ids)
            query = sa.select(table.run, table.job).distinct().where(*_among({table.run: ids}))
            return [job for run, job in self._rows(query) if run in ids]

        return sorted(set(self.read_undamaged(read, runs)))

    def _check(self, table: sa.Table, runs: Collection[str] | None, cells: Collection[str] | None = None) -> None:
        """Raise if a row of these runs and cells is not the one that was written."""
        cell = table.c.id if table is IN_STORE.cells else table.c.cell
        chosen = _among({table.c.run: runs, cell: cells})
        with self._checked(), self._transaction() as connection:
            check_rows(connection, table, *chosen)
            # Also where only some cells are read: it may be one of theirs.
            for name in _incomplete(connection, table, *_among({tables.runs.c.id: runs})):
                raise ValueError(f"rows of {table.name} are missing or added: {name!r:.60}")
            if table is IN_STORE.trials:
                of_cell = IN_STORE.cells.c
                known = sa.exists().where(of_cell.run == table.c.run, of_cell.id == cell)
                of_runs = _among({table.c.run: runs})
                if lost := connection.scalar(sa.select(cell).where(*of_runs, ~known).limit(1)):
                    raise ValueError(f"a trial belongs to cell {lost!r:.60}, which is missing")

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
    return _row(run_row(folder, ""))


def _row(known: Mapping[str, Any]) -> RunRow:
    named = {name: known[name] for name in RunRow.__dataclass_fields__ if name in known}
    return RunRow(**named | {"tags": tuple(known["tags"])})


def _checked_run(known: Mapping[str, Any], sealed_row: Sequence[Any]) -> dict[str, Any]:
    """Return the columns that are JSON. Raise for a row that no manifest has: another program can write a checksum."""
    if not is_sound(sealed_row):
        raise ValueError("its row has another checksum")
    _check_kinds(tuple(known.values()))
    check_rule(*(known[name] for name in ("confidence", "until", "least", "most")))
    moment(known["started"])
    environment, tags = (orjson.loads(known[name]) for name in ("environment", "tags"))
    texts = [*environment.values(), *tags] if isinstance(environment, dict) and isinstance(tags, list) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("its environment or its tags are no texts")
    if not 0 < float(environment.get(EQUAL, PRACTICAL)) <= 1:
        raise ValueError(f"its {EQUAL} is {environment[EQUAL]}")
    return {"environment": environment, "tags": tags}


def run_row(folder: RunFolder, settled: str) -> dict[str, Any]:
    manifest = folder.manifest
    revision = manifest.revision
    found = {
        **{name: getattr(manifest, name, None) for name in data_columns(tables.runs)},
        "name": folder.path.name,
        "host": manifest.host.hostname or "",
        "revision": f"{revision.commit}{'+' if revision.dirty else ''}" if revision else "",
        "settled": settled,
        "tags": list(manifest.tags),
    }
    return {name: _clean(value) for name, value in found.items()}


def _incomplete(connection: sa.Connection, table: sa.Table, *where: sa.ColumnElement[bool]) -> Sequence[str]:
    """Return the names of runs that do not grow, and have lost rows since, or got some."""
    of_run = tables.runs.c
    rows = sa.select(tables.sum_of(table)).where(table.c.run == of_run.id).scalar_subquery()
    return connection.scalars(sa.select(of_run.name).where(of_run[_SUMS[table]] != rows, *where)).all()


@contextmanager
def _any_text(connection: sa.Connection) -> Iterator[None]:
    """Read text that is not UTF-8 as another text: its row has another checksum then, and other rows are read."""
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name != "sqlite":
        yield
        return
    driver.text_factory = lambda raw: raw.decode("utf-8", "backslashreplace")
    try:
        yield
    finally:
        driver.text_factory = str


def _engine(address: Address) -> sa.Engine:
    if address.url is not None:
        return databases.postgresql_engine(address.url)
    if address.file is None:
        return databases.memory_engine()
    with databases.translate_errors(address.file, databases.OF_STORE):
        address.file.parent.mkdir(parents=True, exist_ok=True)
    return databases.sqlite_engine(address.file, _NAMES, busy_ms=_BUSY_MS, durable=False, remedies=databases.OF_STORE)


def _among(wanted: Mapping[sa.ColumnElement[str], Collection[str] | None]) -> Iterable[sa.ColumnElement[bool]]:
    return [column.in_(values) for column, values in wanted.items() if values is not None and len(values) <= _FEW]


def _clean(value: Any) -> Any:
    """Replace NUL (consoles may print it) and text that is not UTF-8 (file names): PostgreSQL refuses both."""
    if isinstance(value, str):
        text = value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
        return text.replace("\0", "␀") if "\0" in text else text
    if isinstance(value, dict):
        return {_clean(name): _clean(one) for name, one in value.items()}
    return [_clean(one) for one in value] if isinstance(value, list) else value
