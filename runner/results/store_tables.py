"""The tables of the shared store, which holds the trials of many runs.

Rows of `trials` are narrow, as whole runs of them are read at a time: what was read back lies beside, once for all
trials that read back the same, and how long every request took. A trial's key is (run, cell, block).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import JSON, Boolean, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text, text

from runner.results.journal_tables import direction_columns, with_more_percentiles
from runner.results.migrations import Versioned

if TYPE_CHECKING:
    from sqlalchemy import Connection

tables = MetaData()

#: Not `meta`, by which a journal is known.
meta = Table(
    "store",
    tables,
    Column("key", String, primary_key=True),
    Column("value", Text, nullable=False),
)

runs = Table(
    "runs",
    tables,
    Column("id", String, primary_key=True),
    Column("name", Text, nullable=False),  # of its folder
    Column("matrix", Text, nullable=False),
    Column("machine", Text, nullable=False),
    Column("made_up", Boolean, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("revision", Text, nullable=False),  # commit of git, with a plus behind it if something was changed
    Column("started", String, nullable=False),
    Column("finished", Boolean, nullable=False),
    Column("planned", Integer, nullable=False),
    Column("confidence", Float, nullable=False),
    Column("until", Float),
    Column("least", Integer, nullable=False, server_default="2"),
    Column("most", Integer),
    Column("environment", JSON, nullable=False),
    Column("part", Text, nullable=False, server_default=""),  # of its matrix, as asked for; empty: all of it
    Column("exit", Integer),  # what `matrix run` ended with when it was finished
    # Digest of the manifest with which everything was here; empty while something may be missing.
    Column("settled", Text, nullable=False),
)

cells = Table(
    "cells",
    tables,
    Column("run", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("name", Text, nullable=False),
    Column("axes", JSON, nullable=False),
    Column("position", Integer),  # as declared, among the cells of its run
    sqlite_with_rowid=False,
)

trials = Table(
    "trials",
    tables,
    Column("run", String, primary_key=True),
    Column("cell", String, primary_key=True),
    Column("block", Integer, primary_key=True, autoincrement=False),
    Column("outcome", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("started", String, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("kernel", Text, nullable=False),
    Column("strained", Text, nullable=False),
    Column("unsettled", Text, nullable=False, server_default=""),
    Column("runtime", Float),
    Column("cpu_usr", Float),
    Column("cpu_sys", Float),
    Column("errors", Integer),
    *direction_columns("read"),
    *direction_columns("write"),
    Column("readings", String, nullable=False),  # digest of theirs
    Column("notes", JSON, nullable=False),
    Column("folder", Text, nullable=False),
    Index("trials_of_a_cell", "cell", "run"),
    sqlite_with_rowid=False,
)

#: Histograms of how long requests took: large, and read only where percentiles of several trials are asked for.
latencies = Table(
    "latencies",
    tables,
    Column("run", String, primary_key=True),
    Column("cell", String, primary_key=True),
    Column("block", Integer, primary_key=True, autoincrement=False),
    Column("read_latencies", LargeBinary),
    Column("write_latencies", LargeBinary),
    Index("latencies_of_a_cell", "cell", "run"),
    sqlite_with_rowid=False,
)

readings = Table(
    "readings",
    tables,
    Column("digest", String, primary_key=True),
    Column("content", JSON, nullable=False),
    sqlite_with_rowid=False,
)


def _with_how_long(connection: Connection) -> None:
    """Version 2: how often cells are measured, which only the manifests know; so all are looked at once more."""
    connection.execute(text("ALTER TABLE runs ADD COLUMN least INTEGER NOT NULL DEFAULT 2"))
    connection.execute(text("ALTER TABLE runs ADD COLUMN most INTEGER"))
    connection.execute(runs.update().values(settled=""))


def _with_histograms_and_order(connection: Connection) -> None:
    """Version 3. The journals of the runs that are here have no histograms, but know in which order cells stand."""
    with_more_percentiles(connection)
    connection.execute(text("ALTER TABLE trials ADD COLUMN unsettled TEXT NOT NULL DEFAULT ''"))
    latencies.create(connection)
    connection.execute(text("ALTER TABLE cells ADD COLUMN position INTEGER"))
    connection.execute(runs.update().values(settled=""))


def _with_endings(connection: Connection) -> None:
    """Version 4: how runs ended, and what part of their matrix they are, which their manifests know."""
    connection.execute(text("ALTER TABLE runs ADD COLUMN part TEXT NOT NULL DEFAULT ''"))
    connection.execute(text("ALTER TABLE runs ADD COLUMN exit INTEGER"))
    connection.execute(runs.update().values(settled=""))


SHARED = Versioned(
    "shared store",
    tables,
    meta,
    (_with_how_long, _with_histograms_and_order, _with_endings),
    stranger="name another file or database with `--store`; an empty one is made a store",
    newer="use the newer program, or name another store with `--store`; the runs' own journals hold everything it does",
)
