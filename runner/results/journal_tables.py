"""The tables of a journal and their migrations.

Every figure has a column, so that `select cell, avg(read_bw) from trials group by cell` works in plain SQL. Synthetic
journals are marked in `meta`: `select value from meta where key = 'synthetic'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import BigInteger

from runner.results.fio_json import PERCENTILES
from runner.results.migrations import Versioned, rename_columns, rename_notes
from runner.statistics.percentile import needs

if TYPE_CHECKING:
    from sqlalchemy import Connection

#: The columns of one direction, in the order of the fields of `Direction`.
DIRECTION: tuple[str, ...] = (
    "bw",
    "iops",
    "bytes",
    "ios",
    "lat_mean",
    "lat_p50",
    "lat_p90",
    "lat_p95",
    "lat_p99",
    "lat_p999",
    "lat_p9999",
    "lat_max",
)
_COUNTS = {"bytes", "ios"}

#: The key in `meta` that marks synthetic figures. Older journals lack it.
SYNTHETIC = "synthetic"

#: Notes of trials with a new name since version 5.
RENAMED_NOTES = {"strained": "host_limited", "strain": "host_limited_share"}

tables = MetaData()

meta = Table(
    "meta",
    tables,
    Column("key", String, primary_key=True),
    Column("value", Text, nullable=False),
)

cells = Table(
    "cells",
    tables,
    Column("id", String, primary_key=True),
    Column("name", Text, nullable=False),
    Column("axes", JSON, nullable=False),
    Column("position", Integer, nullable=False),
)


def direction_columns(side: str) -> list[Column[float]]:
    return [Column(f"{side}_{name}", BigInteger if name in _COUNTS else Float) for name in DIRECTION]


trials = Table(
    "trials",
    tables,
    # Order of recording. The identity is the pair below.
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("cell", ForeignKey("cells.id"), nullable=False),
    Column("round", Integer, nullable=False),
    Column("outcome", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("started", String, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("folder", Text, nullable=False),
    # Null runtime: no figures. Null bandwidth: no I/O in that direction.
    Column("runtime", Float),
    Column("cpu_usr", Float),
    Column("cpu_sys", Float),
    Column("errors", Integer),
    *direction_columns("read"),
    *direction_columns("write"),
    # Histograms, see `runner.statistics.percentile`.
    Column("read_latencies", LargeBinary),
    Column("write_latencies", LargeBinary),
    Column("readings", JSON, nullable=False),
    Column("notes", JSON, nullable=False),
    UniqueConstraint("cell", "round", name="one_trial_per_cell_and_round"),
)

attempts = Table(
    "attempts",
    tables,
    Column("cell", String, primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("started", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("tail", Text, nullable=False),
)

begun = Table(
    "begun",
    tables,
    Column("cell", String, primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("boot_id", String, nullable=False),
    Column("started", String, nullable=False),
)

#: Trials that the user asked to repeat.
retried = Table(
    "retried",
    tables,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("cell", String, nullable=False),
    Column("round", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("outcome", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("started", String, nullable=False),
)

batches = Table(
    "batches",
    tables,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("round", Integer, nullable=False),
    Column("stack", String, nullable=False),
    Column("seconds", Float, nullable=False),
)

#: Trouble outside of measurements that did not stop the run.
troubles = Table(
    "troubles",
    tables,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("at", String, nullable=False),
    Column("what", Text, nullable=False),
)


def _with_retries_and_troubles(connection: Connection) -> None:
    """Migrate to version 2. Some journals of version 1 already have `retried`."""
    retried.create(connection, checkfirst=True)
    troubles.create(connection)


def with_more_percentiles(connection: Connection) -> None:
    """Add two percentiles for each direction.

    Remove tail percentiles with too few requests, which described one request.
    """
    for side in ("read", "write"):
        for name in ("lat_p90", "lat_p95"):
            connection.execute(text(f"ALTER TABLE trials ADD COLUMN {side}_{name} FLOAT"))
        for name in ("lat_p999", "lat_p9999"):
            few = f"{side}_ios < {needs(PERCENTILES[name])}"
            connection.execute(text(f"UPDATE trials SET {side}_{name} = NULL WHERE {few}"))  # noqa: S608 - names of ours


def _with_histograms(connection: Connection) -> None:
    """Migrate to version 3. Older journals have only percentiles, which cannot be merged."""
    with_more_percentiles(connection)
    for side in ("read", "write"):
        connection.execute(text(f"ALTER TABLE trials ADD COLUMN {side}_latencies BLOB"))


def _with_synthetic(connection: Connection) -> None:
    """Migrate to version 4: rename `made_up`."""
    connection.execute(text(f"UPDATE meta SET \"key\" = '{SYNTHETIC}' WHERE \"key\" = 'made_up'"))  # noqa: S608 - names of ours


def _with_batches(connection: Connection) -> None:
    """Migrate to version 7: rename `visits`."""
    connection.execute(text("ALTER TABLE visits RENAME TO batches"))


JOURNAL = Versioned(
    "journal",
    tables,
    meta,
    (
        _with_retries_and_troubles,
        _with_histograms,
        _with_synthetic,
        rename_notes(RENAMED_NOTES),
        rename_columns({"block": "round"}, "trials", "attempts", "begun", "retried", "visits"),
        _with_batches,
        rename_columns({"array": "stack"}, "batches"),
    ),
    stranger="name the folder of a run",
    newer="use the newer program, or start a new run with `--fresh`",
)
