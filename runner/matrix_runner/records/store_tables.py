"""The address of the shared store, and its tables."""

import os
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import JSON, Boolean, Column, Float, Index, Integer, MetaData, String, Table, Text
from sqlalchemy.exc import ArgumentError

from matrix_runner.base.errors import BadInput
from matrix_runner.base.text import without_passwords
from matrix_runner.records.databases import Versioned, keys, optional, required
from matrix_runner.records.journal_tables import direction_columns, latency_columns, sync_columns
from matrix_runner.records.views import views_of_store

VARIABLE = "MATRIX_STORE"  # the option `--store` takes precedence
_FILE = "store.db"


@dataclass(frozen=True, slots=True)
class Address:
    """A file, a URL, or neither: a store in memory."""

    file: Path | None = None
    url: sa.URL | None = None

    def __str__(self) -> str:
        if self.url is not None:
            return without_passwords(self.url.render_as_string(hide_password=True))
        return str(self.file) if self.file else "in memory"


IN_MEMORY = Address()  # in memory, for queries where no file can be written


def address_of(named: str | None, results: Path) -> Address:
    text = named if named is not None else os.environ.get(VARIABLE) or None
    if text is None:
        return Address(file=results / _FILE)
    if not text.strip():
        raise _unusable(text, "it is empty")
    return _url(text) if "://" in text else Address(file=Path(text))


def is_named(store: str | None) -> bool:
    return store is not None or bool(os.environ.get(VARIABLE))


def _url(text: str) -> Address:
    try:
        url = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise _unusable(text, "it is not a valid URL") from None
    kind = url.get_backend_name()
    if kind == "sqlite" and url.database:
        return Address(file=Path(url.database))
    if kind in {"postgresql", "postgres"}:
        if "@" in (url.host or ""):
            raise _unusable(text, "a host name has no @; in a password, write %40 for @")
        return Address(url=url)
    raise _unusable(text, f"'{kind}' is not a supported database")


def _unusable(text: str, why: str) -> BadInput:
    return BadInput(
        f"the store '{without_passwords(text)}' is not valid: {why}",
        resolution=f"`--store` (or {VARIABLE}) takes a file, or postgresql://USER@HOST/DATABASE",
    )


tables = MetaData()

meta = Table("meta", tables, *keys(key=String), *required(value=Text))

runs = Table(
    "runs",
    tables,
    *keys(id=String),
    *required(name=Text, matrix=Text, machine=Text, synthetic=Boolean, fingerprint=Text, host=Text),
    *required(revision=Text),  # git commit, with a plus if files were changed
    *required(started=String, finished=Boolean, planned=Integer, confidence=Float),
    *optional(until=Float),
    Column("least", Integer, nullable=False, server_default="2"),
    *optional(most=Integer),
    *required(environment=JSON),
    Column("part", Text, nullable=False, server_default=""),  # the requested part of its matrix; empty: all
    *optional(exit=Integer),  # exit code of `matrix run` at the end
    # Digest of the manifest at which the store was complete; empty while trials may be missing.
    *required(settled=Text),
)

cells = Table(
    "cells",
    tables,
    *keys(run=String, id=String),
    *required(name=Text, axes=JSON),
    *optional(position=Integer),  # position among the cells of its run
    sqlite_with_rowid=False,
)

trials = Table(
    "trials",
    tables,
    *keys(run=String, cell=String, round=Integer),
    *required(outcome=String, reason=Text, started=String, seconds=Float, attempts=Integer),
    *required(kernel=Text, host_limited=Text),
    Column("unsettled", Text, nullable=False, server_default=""),
    *optional(runtime=Float, cpu_usr=Float, cpu_sys=Float, errors=Integer),
    *direction_columns(),
    *sync_columns(),
    *required(readings=String),  # digest of the readings
    *required(notes=JSON, folder=Text),
    Index("trials_of_a_cell", "cell", "run"),
    sqlite_with_rowid=False,
)

#: Latency histograms: large, and only needed for percentiles over several trials.
latencies = Table(
    "latencies",
    tables,
    *keys(run=String, cell=String, round=Integer),
    *latency_columns(),
    Index("latencies_of_a_cell", "cell", "run"),
    sqlite_with_rowid=False,
)

#: Figures of each job of a trial, with its histograms.
jobs = Table(
    "jobs",
    tables,
    *keys(run=String, cell=String, round=Integer, job=String),
    *required(position=Integer, runtime=Float, cpu_usr=Float, cpu_sys=Float, errors=Integer),
    *direction_columns(),
    *latency_columns(),
    sqlite_with_rowid=False,
)

readings = Table("readings", tables, *keys(digest=String), *required(content=JSON), sqlite_with_rowid=False)

SHARED = Versioned(
    "shared store",
    tables,
    meta,
    views=views_of_store(),
    stranger="name another file or database with `--store`; an empty one becomes a store",
    before="move it away, or name another with `--store`; the next command fills a new store from the journals of the "
    "runs below `--results`",
    newer="use the newer program, or name another store with `--store`; the journals of the runs have the same trials",
)
