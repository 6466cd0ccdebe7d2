"""The versions of journals and stores: their views, names in messages, and the conversion of older ones."""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import TypeAlias
from zlib import crc32

import sqlalchemy as sa

from matrix_runner.base.errors import BadInput, Cause
from matrix_runner.records.databases import OF_STORE, upsert
from matrix_runner.records.files import DAMAGED
from matrix_runner.records.record import COUNTED, HOST_LIMITED, UNSETTLED, Outcome
from matrix_runner.records.tables import IN_JOURNAL, IN_STORE, OF_RUNS, SEALED, SUM, runs, sum_of
from matrix_runner.work.metrics import FLUSH, OF_A_SIDE, OF_SIDE, OF_TRIAL, RATES, SIDES, TOTAL

_SYNTHETIC = "((SELECT value FROM meta WHERE meta.\"key\" = 'synthetic') = 'true') AS synthetic"
_RUN = ("matrix", "machine", "host", "part", "revision", "synthetic")
_OF_RUN = ("runs.id AS run", "runs.name AS run_name", "runs.started AS run_started", *(f"runs.{one}" for one in _RUN))
_OF_CELL = (
    *("cells.id AS cell", "cells.name", "(cells.axes ->> 'layout') AS layout"),
    *("(cells.axes ->> 'workload') AS workload", "cells.axes"),
)
_NOTES = ("kernel", HOST_LIMITED, UNSETTLED)
_SYNC = ("sync_bw", "sync_seconds")
_OF_TRIAL = (
    *("round", "outcome", "reason", "started", "seconds", "attempts", "folder"),
    *(*OF_TRIAL, *_SYNC),
)


def views_of(*, runs: bool) -> dict[str, str]:
    """Return the SQL of each view by its name, in the order in which they are made. With `runs`: of a store."""
    keys = ("run", "cell") if runs else ("cell",)
    joined = "JOIN cells ON cells.id = one.cell"
    joined += " AND cells.run = one.run JOIN runs ON runs.id = one.run" if runs else ""
    described = (*(_OF_RUN if runs else (_SYNTHETIC,)), *_OF_CELL)
    notes, figures = ([f"one.{name}" for name in several] for several in (_NOTES, _summaries()))
    return {
        "v_trials": f"{_select(*described, *notes, *_trial())} FROM trials AS one {joined}",
        "v_cells": f"{_select(*described, *figures)} FROM ({_figures(*keys)}) AS one {joined}",
    }


def _select(*columns: str) -> str:
    return f"SELECT {', '.join(columns)}"


def _trial() -> Iterator[str]:
    yield from (f"one.{name}" for name in _OF_TRIAL)
    for rate in RATES:
        sides = [f"one.{side}_{rate}" for side in SIDES]
        total = " + ".join(f"coalesce({side}, 0)" for side in sides)
        yield f"CASE WHEN coalesce({', '.join(sides)}) IS NOT NULL THEN {total} END AS {TOTAL}_{rate}"
    yield from (f"one.{side}_{figure}" for side, figures in OF_SIDE.items() for figure in figures)


def _figures(*keys: str) -> str:
    """Summarise the trials of each cell. PostgreSQL cannot group by JSON, so the cells are described outside."""
    summaries = (f"{how} AS {name}" for name, how in _summaries().items())
    return f"{_select(*keys, *summaries)} FROM v_trials GROUP BY {', '.join(keys)}"


def _summaries() -> dict[str, str]:
    found = {"trials": "count(*)"}
    found |= {one.value: _count(f"outcome = '{one.value}'") for one in Outcome}
    found |= {note: _count(f"{note} <> ''") for note in (HOST_LIMITED, UNSETTLED)}
    for name in (f"{side}_{rate}" for side in (TOTAL, *SIDES) for rate in RATES):
        found |= _rate(name)
    for side in SIDES:
        found |= _latencies(side)
    return found | {name: f"avg({_counted(name)})" for name in _SYNC} | _rate(f"{FLUSH}_iops") | _latencies(FLUSH)


def _rate(name: str) -> dict[str, str]:
    one = _counted(name)  # some SQLite have no sqrt(), so there is no standard deviation
    variance = f"(sum({one} * {one}) - count({one}) * avg({one}) * avg({one})) / nullif(count({one}) - 1, 0)"
    return {name: f"avg({one})", f"{name}_var": f"abs({variance})"}


def _latencies(side: str) -> dict[str, str]:
    names = ((f"{side}_{one.name}", one.average) for one in OF_A_SIDE if one.unit == "ns")
    return {name: f"{how}({_counted(name)})" for name, how in names}


def _count(condition: str) -> str:
    return f"count(CASE WHEN {condition} THEN 1 END)"


def _counted(column: str) -> str:
    measured = " OR ".join(f"outcome = '{one}'" for one in COUNTED)
    return f"CASE WHEN ({measured}) AND {UNSETTLED} = '' THEN {column} END"


Step: TypeAlias = "Callable[[sa.Connection], None]"

_STATEMENTS = "statements"
#: The first version that this program reads, and the last commit that reads those before.
_OLDEST, _LAST_COMMIT = 4, "7acc1c18"
_PREPARING = 0x6D617472  # an arbitrary lock number, so that two processes do not create the tables at once


class TooOld(BadInput):
    """A database from before `_OLDEST`."""


@dataclass(frozen=True, slots=True)
class Versioned:
    """Tables of one version of a schema. `meta` says what a database is: its kind and its version."""

    kind: str
    tables: sa.MetaData
    meta: sa.Table
    stranger: str  # remedy for a foreign database
    newer: str  # remedy for a newer database
    before: str  # remedy for a database from before `_OLDEST`
    steps: tuple[Step, ...] = ()  # from `_OLDEST` to the next version, and so on
    views: Mapping[str, str] = field(default_factory=dict)  # each with its SQL; a new step makes them again
    damaged: Cause = DAMAGED

    @property
    def version(self) -> int:
        return _OLDEST + len(self.steps)

    def prepare(self, connection: sa.Connection, name: Path | str) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"select pg_advisory_xact_lock({_PREPARING})"))
        if not sa.inspect(connection).get_table_names():
            self._refuse_views(connection, name)
            self.tables.create_all(connection)
            self._make_views(connection)
            known = {"kind": self.kind, "version": str(self.version), _STATEMENTS: self._statements(connection)}
            connection.execute(sa.insert(self.meta), [{"key": key, "value": value} for key, value in known.items()])
            return
        found = self.understood(connection, name)
        if found < self.version:
            self._drop_views(connection)  # a step cannot rename what a view uses
            for step in self.steps[found - _OLDEST :]:
                step(connection)
            self._make_views(connection)
            for key, value in (("version", str(self.version)), (_STATEMENTS, self._statements(connection))):
                connection.execute(sa.update(self.meta).filter_by(key=key).values(value=value))

    def _refuse_views(self, connection: sa.Connection, name: Path | str) -> None:
        """Refuse views of a stranger. SQLite keeps ours if a user drops all tables; PostgreSQL does not."""
        if connection.dialect.name == "postgresql":
            for view in set(self.views).intersection(sa.inspect(connection).get_view_names()):
                raise self._strange(name, f"it has a view named {view}")

    def _strange(self, name: Path | str, details: str = "") -> BadInput:
        brief = f"{name} is a database, but not a {self.kind} of matrix"
        return BadInput(brief, details=details, resolution=self.stranger)

    def _make_views(self, connection: sa.Connection) -> None:
        self._drop_views(connection)
        execute(*(f"CREATE VIEW {name} AS {query}" for name, query in self.views.items()))(connection)

    def _drop_views(self, connection: sa.Connection) -> None:
        execute(*(f"DROP VIEW IF EXISTS {name}" for name in reversed(tuple(self.views))))(connection)

    def understood(self, connection: sa.Connection, name: Path | str) -> int:
        """Return the version of a database. Raise if it is foreign, newer, or too old."""
        known = self._meta(connection)
        if known.get("kind") != self.kind:
            raise self._strange(name)
        written = known.get("version", "")
        version = int(written) if written.isdecimal() and len(written) < 9 else 0
        if version > self.version:
            raise BadInput(
                f"{name} was written by a newer version of matrix",
                details=f"its schema is version {version}; this program reads versions up to {self.version}",
                resolution=self.newer,
            )
        if version < 1:
            raise self._strange(name)
        if version < _OLDEST:
            raise TooOld(
                f"{name} is from before version {_OLDEST} of the {self.kind}: the commit {_LAST_COMMIT} reads it",
                resolution=self.before,
            )
        if known.get(_STATEMENTS) != self._statements(connection):
            raise self.damaged.error(name, "the definition of a table or a view has changed")
        return version

    def _statements(self, connection: sa.Connection) -> str:
        """Return a checksum of what SQLite has of tables, indexes and views: a changed letter can hide rows."""
        if connection.dialect.name != "sqlite":
            return ""
        indexes = (index.name for table in self.tables.sorted_tables for index in table.indexes)
        ours = {*self.tables.tables, *self.views, *indexes}
        found = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master ORDER BY name").all()
        return str(crc32(repr([(name, sql) for name, sql in found if name in ours]).encode()))

    def _meta(self, connection: sa.Connection) -> dict[str, str]:
        inspector, name = sa.inspect(connection), self.meta.name
        if not inspector.has_table(name) or {one["name"] for one in inspector.get_columns(name)} != {"key", "value"}:
            return {}
        return {str(key): str(value) for key, value in connection.execute(sa.select(self.meta)).all()}


def put_aside(file: Path, inode: int) -> Path:
    """Rename a database that is too old, with its log, and return its new name. Of two processes, one does it."""
    aside = file.with_name(f"{file.name}.before-{_OLDEST}")
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        # Between the rename and the new store of another process, there is no file.
        if file.exists() and file.stat().st_ino == inode:
            names = chain([aside], (Path(f"{aside}-{number}") for number in count(2)))
            aside = next(name for name in names if not name.exists())
            for suffix in ("-wal", "-shm", ""):
                with suppress(FileNotFoundError):
                    file.with_name(f"{file.name}{suffix}").rename(f"{aside}{suffix}")
    finally:
        os.close(folder)
    return aside


def execute(*statements: str) -> Step:
    def step(connection: sa.Connection) -> None:
        for one in statements:
            connection.execute(sa.text(one))

    return step


def sum_of_journal(connection: sa.Connection, tables: Iterable[sa.Table] = SEALED) -> int:
    """Return the sum of all rows with a checksum, which `meta` has, too."""
    return sum(connection.scalar(sa.select(sum_of(table))) or 0 for table in tables)


def seal_journal(connection: sa.Connection, tables: Iterable[sa.Table] = SEALED) -> None:
    total = sum_of_journal(connection, tables)
    connection.execute(upsert("sqlite", IN_JOURNAL.meta, "value"), [{"key": SUM, "value": str(total)}])


_FIRST_SEALED = (IN_JOURNAL.trials, IN_JOURNAL.jobs)


def _seal_first(connection: sa.Connection) -> None:
    seal_journal(connection, _FIRST_SEALED)


def _seal_others(connection: sa.Connection) -> None:
    """Add their sum, so that a trial that is missing already stays missed."""
    total = sum_of_journal(connection, (table for table in SEALED if table not in _FIRST_SEALED))
    more = f"UPDATE meta SET value = value + {total} WHERE \"key\" = '{SUM}'"  # noqa: S608 - a name of ours
    execute(more)(connection)


#: Before the id of a run, as a key in `meta` of a store with the name of the run: a deleted row of `runs` is noticed.
RUN_KEY = "run "


def name_runs(connection: sa.Connection) -> None:
    meta, of_run = IN_STORE.meta.c, runs.c
    key = RUN_KEY + of_run.id
    unnamed = sa.select(key, of_run.name).where(key.not_in(sa.select(meta.key)))
    connection.execute(sa.insert(IN_STORE.meta).from_select(["key", "value"], unnamed))


_COSTS = execute(*(f"ALTER TABLE trials ADD COLUMN {name} FLOAT" for name in ("switches_per_io", "ipis_per_io")))
_HOST = execute("ALTER TABLE trials ADD COLUMN host_cpu_per_io FLOAT")
_SUMS = execute(*(f"ALTER TABLE runs ADD COLUMN {name}_{SUM} BIGINT" for name in OF_RUNS))
JOURNAL = Versioned(
    "journal",
    IN_JOURNAL.metadata,
    IN_JOURNAL.meta,
    steps=(_COSTS, _seal_first, _HOST, _seal_others),
    views=views_of(runs=False),
    stranger="name the folder of a run",
    newer="use the newer program, or start a new run with `--fresh`",
    before="read it with that commit, or start a new run with `--fresh`",
)
STORE = Versioned(
    "shared store",
    IN_STORE.metadata,
    IN_STORE.meta,
    steps=(_COSTS, _SUMS, _HOST, name_runs),
    views=views_of(runs=True),
    stranger="name another file or database with `--store`; an empty one becomes a store",
    before="move it away, or name another with `--store`; the next command fills a new store from the journals of the "
    "runs below `--results`",
    damaged=OF_STORE[DAMAGED],
    newer="use the newer program, or name another store with `--store`; the journals of the runs have the same trials",
)
