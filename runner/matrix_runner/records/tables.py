"""The tables of a journal and of a store: one declaration. In a store, each table has a column for the run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, reduce
from itertools import chain
from operator import add
from typing import Any
from zlib import crc32

import orjson
import sqlalchemy as sa

from matrix_runner.records.databases import keys, optional, required
from matrix_runner.records.record import LONGEST, TrialFacts
from matrix_runner.work import metrics

#: The figures of one direction, in the order of the fields of `Direction`.
DIRECTION: tuple[str, ...] = tuple(metrics.OF_DIRECTION)
#: The columns of each side.
OF_SIDES = {side: tuple(f"{side}_{name}" for name in figures) for side, figures in metrics.OF_SIDE.items()}
#: The columns of all figures: those of the sides together, then those of each side.
WHOLE = ("runtime", "cpu_usr", "cpu_sys", "errors")
FIGURES: tuple[str, ...] = (*WHOLE, *chain.from_iterable(OF_SIDES.values()))
REBUILD = ("sync_seconds", "sync_bw")
#: Histograms are large (`matrix_runner.statistics.percentile`).
LATENCIES = tuple(f"{side}_latencies" for side in metrics.ALL_SIDES)

SYNTHETIC, RUN = (
    "synthetic",
    "run",
)  # keys in `meta` of a journal: whether its figures are synthetic, and the id of its run
CRC = "crc"  # the checksum of a row
#: The sum of the rows of a journal, as a key in `meta` (`rows_of`). A store has one for each table of a run.
SUM = "sum"


@dataclass(frozen=True, slots=True)
class Tables:
    """What a journal and a store have in common."""

    metadata: sa.MetaData
    meta: sa.Table
    cells: sa.Table
    trials: sa.Table
    jobs: sa.Table
    readings: sa.Table


def _figures(names: Iterable[str], *, nullable: bool = True) -> list[sa.Column[Any]]:
    return [sa.Column(name, _kind_of(name), nullable=nullable) for name in names]


def _kind_of(name: str) -> Any:
    if name in LATENCIES:
        return sa.LargeBinary
    return sa.BigInteger if name.endswith(("_bytes", "_ios")) else sa.Integer if name == "errors" else sa.Float


def _facts() -> tuple[list[sa.Column[Any]], list[sa.Column[Any]]]:
    """Return the columns of `TrialFacts`, those of shares and the like apart: these may be unknown."""
    every = fields(TrialFacts)
    known = {one.name: sa.Text if one.default == "" else sa.Integer for one in every if one.default is not None}
    unknown: dict[str, Any] = {one.name: sa.Float for one in every if one.default is None}
    return required(**known), optional(**unknown | {"steady": sa.Integer, "written_in_rounds": sa.BigInteger})


def _crc() -> sa.Column[Any]:
    return sa.Column(CRC, sa.BigInteger, nullable=False)


def _declare(*, runs: bool) -> Tables:
    metadata = sa.MetaData()
    run: dict[str, Any] = {"run": sa.String} if runs else {}
    with_rowid: Any = not runs  # a journal is in the order of recording, a store by run
    cells = sa.Table(
        "cells",
        metadata,
        *keys(**run, id=sa.String),
        *required(name=sa.Text, axes=sa.JSON),
        *optional(position=sa.Integer),  # position among the cells of its run
        _crc(),
        sqlite_with_rowid=with_rowid,
    )
    # The identity is run, cell and round. The `id` of a journal is the order of recording.
    in_journal = (
        *keys(id=sa.Integer),
        sa.Column("cell", sa.ForeignKey("cells.id"), nullable=False),
        *required(round=sa.Integer),
    )
    known_facts, facts = _facts()
    trials = sa.Table(
        "trials",
        metadata,
        *(keys(**run, cell=sa.String, round=sa.Integer) if runs else in_journal),
        *required(
            outcome=sa.String, reason=sa.Text, started=sa.String, seconds=sa.Float, attempts=sa.Integer, folder=sa.Text
        ),
        *required(host_limited=sa.Text, unsettled=sa.Text),  # notes that many questions need
        *known_facts,
        *required(readings=sa.String, notes=sa.JSON),  # the digest of the readings
        # Null runtime: no figures. Null bandwidth: no I/O in that direction.
        *_figures((*REBUILD, *FIGURES)),
        *(() if runs else _figures(LATENCIES)),  # a store has them in a table of their own
        *facts,  # last, as a new one is the last column of older databases too
        _crc(),
        sa.Index("trials_of_a_cell", "cell", "run") if runs else sa.UniqueConstraint("cell", "round"),
        sqlite_with_rowid=with_rowid,
    )
    #: The figures of each job of a trial, if there are several.
    jobs = sa.Table(
        "jobs",
        metadata,
        *keys(**run, cell=sa.String, round=sa.Integer, job=sa.String),
        *required(position=sa.Integer),
        *_figures(WHOLE, nullable=False),
        *_figures((*FIGURES[len(WHOLE) :], *LATENCIES)),
        _crc(),
        sqlite_with_rowid=with_rowid,
    )
    #: Most trials of a stack have equal readings, which are larger than the rest of a trial.
    readings = sa.Table(
        "readings", metadata, *keys(digest=sa.String), *required(content=sa.JSON), sqlite_with_rowid=with_rowid
    )
    meta = sa.Table("meta", metadata, *keys(key=sa.String), *required(value=sa.Text))
    return Tables(metadata, meta, cells, trials, jobs, readings)


IN_JOURNAL, IN_STORE = _declare(runs=False), _declare(runs=True)


OF_RUNS = ("cells", "trials", "jobs", "latencies")  # the tables of a store with rows of a run


def _of_journal(name: str, *columns: sa.Column[Any]) -> sa.Table:
    return sa.Table(name, IN_JOURNAL.metadata, *columns, _crc())


attempts = _of_journal(
    "attempts",
    *keys(cell=sa.String, round=sa.Integer, number=sa.Integer),
    *required(started=sa.String, reason=sa.Text, tail=sa.Text),
)
begun = _of_journal(
    "begun",
    *keys(cell=sa.String, round=sa.Integer, attempt=sa.Integer),
    *required(boot_id=sa.String, started=sa.String),
)
#: Trials that the user asked to repeat.
retried = _of_journal(
    "retried",
    *keys(id=sa.Integer),
    *required(
        cell=sa.String, round=sa.Integer, attempts=sa.Integer, outcome=sa.String, reason=sa.Text, started=sa.String
    ),
)
batches = _of_journal("batches", *keys(id=sa.Integer), *required(round=sa.Integer, stack=sa.String, seconds=sa.Float))
#: Trouble outside of measurements that did not stop the run.
troubles = _of_journal("troubles", *keys(id=sa.Integer), *required(at=sa.String, what=sa.Text))

#: The tables that a merged run takes over as they are.
PLAIN = (attempts, begun, retried, batches, troubles)
#: The tables of a journal whose rows have checksums.
SEALED = (IN_JOURNAL.cells, IN_JOURNAL.trials, IN_JOURNAL.jobs, *PLAIN)

runs = sa.Table(
    "runs",
    IN_STORE.metadata,
    *keys(id=sa.String),
    *required(name=sa.Text, matrix=sa.Text, machine=sa.Text, synthetic=sa.Boolean, fingerprint=sa.Text, host=sa.Text),
    *required(revision=sa.Text),  # git commit, with a plus if files were changed
    *required(started=sa.String, finished=sa.Boolean, planned=sa.Integer, confidence=sa.Float),
    *optional(until=sa.Float),
    *required(least=sa.Integer),
    *optional(most=sa.Integer),
    *required(environment=sa.JSON, part=sa.Text),  # the requested part of its matrix; empty: all
    *optional(exit=sa.Integer),  # exit code of `matrix run` at the end
    # Digest of the manifest at which the store was complete; empty while trials may be missing.
    *required(settled=sa.Text),
    # By `matrix runs tag`, `note` and `exclude`.
    *required(tags=sa.JSON, note=sa.Text, excluded=sa.Text),
    # Sums of its rows (`sum_of`) while no process adds some: a deleted row changes them.
    *optional(**{f"{name}_{SUM}": sa.BigInteger for name in OF_RUNS}),
    _crc(),
)
latencies = sa.Table(
    "latencies",
    IN_STORE.metadata,
    *keys(run=sa.String, cell=sa.String, round=sa.Integer),
    *_figures(LATENCIES),
    _crc(),
    sa.Index("latencies_of_a_cell", "cell", "run"),
    sqlite_with_rowid=False,
)


def sum_of(table: sa.Table) -> sa.ColumnElement[int]:
    """Return the sum of the checksums of rows and of their number, which a deleted or an added row changes."""
    return sa.cast(sa.func.coalesce(sa.func.sum(table.c[CRC] + 1), 0), sa.BigInteger)


def _work() -> sa.ColumnElement[int]:
    table = IN_STORE.trials.c
    sync = metrics.work_bit(metrics.SYNC)
    bits: sa.ColumnElement[int] = sa.case((table[f"{metrics.SYNC}_bw"].is_(None), 0), else_=sync)
    for side in metrics.SIDES:
        bw, iops = table[f"{side}_bw"], table[f"{side}_iops"]
        small, large = metrics.work_bit(side), metrics.work_bit(side) | metrics.work_bit(side, large=True)
        bits += sa.case((bw.is_(None), 0), (bw >= metrics.LEAST_LARGE * iops, large), else_=small)
    share, times = metrics.STALL
    longest = [(table[f"{side}_lat_max"], table[f"{side}_lat_mean"]) for side in metrics.ALL_SIDES]
    stalls = [(most > share * 1e9 * table["runtime"]) & (most > times * mean) for most, mean in longest]
    return bits + sa.case((sa.or_(*stalls), metrics.STALLED), else_=0)


def _sum(columns: Iterable[sa.ColumnElement[Any]]) -> sa.ColumnElement[Any]:
    """Return the sum of those that are known, or null."""
    several = list(columns)
    total = reduce(add, (sa.func.coalesce(one, 0.0) for one in several))
    return sa.case((sa.func.coalesce(*several).is_(None), sa.null()), else_=total)


def column_of(name: str) -> sa.ColumnElement[Any]:
    job, own = metrics.split_column(name)
    if name == metrics.WORK:
        return _work()
    if not job:
        return _figure(IN_STORE.trials, own)
    of, trial = IN_STORE.jobs.alias(), IN_STORE.trials.c
    same = (of.c[key] == trial[key] for key in ("run", "cell", "round"))
    return sa.select(_figure(of, own)).where(*same, of.c.job == job).correlate(IN_STORE.trials).scalar_subquery()


def _figure(of: sa.FromClause, name: str) -> sa.ColumnElement[Any]:
    table = of.c
    if name in table:
        column: sa.ColumnElement[Any] = table[name]
        return column
    side, _, rate = name.partition("_")
    if side != metrics.TOTAL:
        raise KeyError(name)
    return _sum(table[f"{one}_{rate}"] for one in metrics.SIDES)


def data_columns(table: sa.Table) -> tuple[str, ...]:
    """Return the columns that the writer of a row gives: all but its number in a journal and its checksum."""
    return tuple(str(column.name) for column in table.columns if column.name != CRC and not _is_number(column))


def _is_number(column: sa.Column[Any]) -> bool:
    return column.name == "id" and isinstance(column.type, sa.Integer)


_FETCHED = 1000  # rows at once, so few that the cache of a processor has all of them


def crc_of(values: Sequence[Any]) -> int:
    """Return the checksum of the values of `data_columns`. Nulls at the end, as of new columns, do not change it."""
    end = len(values)
    while end and values[end - 1] is None:
        end -= 1
    return crc32(orjson.dumps(values[:end], default=_of_bytes))  # bytes are the only other kind


def _of_bytes(value: bytes) -> object:
    """Return what no other value is: one flipped bit makes empty bytes of the number 0, whose checksum is 0, too."""
    return crc32(value) or []


def sealed(table: sa.Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as a database gives it back, with its checksum."""
    known = {name: value if (value := row[name]) is None else as_stored(value) for name, as_stored in _stored(table)}
    return known | {CRC: crc_of([*map(_as_read, known.values())])}


def _as_read(value: Any) -> Any:
    if value.__class__ in {dict, list}:
        return orjson.dumps(value).decode()
    return int(value) if value.__class__ is bool else value


@cache
def _stored(table: sa.Table) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple((name, _conversion(table.c[name])) for name in data_columns(table))


def _conversion(column: sa.Column[Any]) -> Callable[[Any], Any]:
    if isinstance(column.type, sa.Float):
        return lambda value: float(value) + 0.0  # SQLite keeps no sign of 0
    return (
        int
        if isinstance(column.type, sa.Integer)
        else bool
        if isinstance(column.type, sa.Boolean)
        else lambda value: value
    )


def check_rows(connection: sa.Connection, table: sa.Table, *where: sa.ColumnElement[bool]) -> None:
    """Raise ValueError if a row is not the one that was written."""
    kinds = set[tuple[type, ...]]()  # a few: to look at each value of each row takes seconds
    cursor: Any = connection.execute(sa.select(*raw_columns(table)).where(*where)).cursor
    while rows := cursor.fetchmany(_FETCHED):
        for row in rows:
            if not is_sound(row):
                raise ValueError(f"a row of {table.name} has another checksum: {row[0]!r:.60}, {row[1]!r:.60}")
            kinds.add(tuple(map(type, row)))
    for types in kinds:  # another program can write a right checksum
        for name, kind in zip(data_columns(table), types, strict=False):
            fits = issubclass(kind, types_of(table.c[name]))
            if not fits:
                raise ValueError(f"{name} in {table.name} is of the kind {kind.__name__}")
    wrong = sa.select(*raw_columns(table)).where(*where, _has_impossible(table)).limit(1)
    for row in connection.execute(wrong).cursor.fetchall():
        for name, value in zip(data_columns(table), row, strict=False):
            check_value(table, name, value)


#: The least and the most of numbers that are not 0; ratios of others would overflow. Negative ones do not occur.
_LEAST, _MOST = 1e-30, 9e18


def check_value(table: sa.Table, name: str, value: Any) -> None:
    """Raise ValueError for a number or a text that this program does not write."""
    if isinstance(value, (int, float)) and value != 0 and not _LEAST <= value <= _MOST:
        raise ValueError(f"{name} in {table.name} is {value!r}")
    if isinstance(value, str) and len(value) > LONGEST:
        raise ValueError(f"{name} in {table.name} has {len(value):,} characters")


@cache
def _has_impossible(table: sa.Table) -> sa.ColumnElement[bool]:
    columns = [table.c[name] for name in data_columns(table)]
    numbers = [one for one in columns if isinstance(one.type, (sa.Float, sa.Integer))]
    texts = [raw_column(one) for one in columns if isinstance(one.type, (sa.String, sa.JSON))]
    outside = (~one.between(sa.literal(_LEAST), sa.literal(_MOST)) & (one != 0) for one in numbers)
    return sa.or_(sa.false(), *outside, *(sa.func.length(one) > LONGEST for one in texts))


def types_of(column: sa.Column[Any]) -> tuple[type, ...]:
    """Return the types of the values of `raw_columns`."""
    kinds: tuple[type, ...] = (str,)
    if isinstance(column.type, (sa.Integer, sa.Boolean)):  # BigInteger as well
        kinds = (int,)
    elif isinstance(column.type, sa.Float):
        kinds = (float, int)
    elif isinstance(column.type, sa.LargeBinary):
        kinds = (bytes,)
    return (*kinds, type(None)) if column.nullable else kinds


def is_sound(row: Sequence[Any]) -> bool:
    """Check the values of `raw_columns`."""
    try:
        return bool(crc_of(row[:-1]) == row[-1])
    except TypeError:
        return False


@cache
def raw_columns(table: sa.Table) -> tuple[sa.ColumnElement[Any], ...]:
    """Return the columns as SQLite and PostgreSQL have them, without conversion."""
    return (*(raw_column(table.c[name]) for name in data_columns(table)), table.c[CRC])


def raw_column(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    kind = sa.Text if isinstance(column.type, sa.JSON) else sa.Integer if isinstance(column.type, sa.Boolean) else None
    return sa.cast(column, kind) if kind else column
