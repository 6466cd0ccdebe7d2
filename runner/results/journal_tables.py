"""The tables of a journal and their migrations, and the conversion between trials and rows."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy as sa
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

from runner.results.databases import Versioned, rename_columns, rename_notes
from runner.results.fio_output import PERCENTILES, Direction, Figures
from runner.results.record import Outcome, Reading, Trial
from runner.statistics.percentile import Histogram, needs

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    connection.execute(text(f"UPDATE meta SET \"key\" = '{SYNTHETIC}' WHERE \"key\" = 'made_up'"))  # noqa: S608 - names of ours


def _with_batches(connection: Connection) -> None:
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


_direction_values = attrgetter(*DIRECTION)
_READ = [f"read_{name}" for name in DIRECTION]
_WRITE = [f"write_{name}" for name in DIRECTION]
#: Histograms are large. Readers of many trials keep them in a separate table.
LATENCIES = ("read_latencies", "write_latencies")
_NOTHING = (None,) * len(DIRECTION)

_NAMES: tuple[str, ...] = (
    *("cell", "round", "outcome", "reason", "started", "seconds", "attempts", "folder", "readings", "notes"),
    *("runtime", "cpu_usr", "cpu_sys", "errors"),
    *_READ,
    *_WRITE,
    *LATENCIES,
)
_READ_AT = _NAMES.index("read_bw")
_AS_TEXT = {"readings", "notes"}  # JSON, decoded here once for each distinct text

#: The columns that `trial_of` reads, in order.
COLUMNS: tuple[sa.ColumnElement[Any], ...] = tuple(
    sa.cast(trials.c[name], sa.Text) if name in _AS_TEXT else trials.c[name] for name in _NAMES
)


def row_of(trial: Trial) -> dict[str, Any]:
    row = {
        "cell": trial.cell,
        "round": trial.round,
        "outcome": trial.outcome.value,
        "reason": trial.reason,
        "started": trial.started,
        "seconds": trial.seconds,
        "attempts": trial.attempts,
        "folder": trial.folder,
        "readings": [[reading.setting, reading.wanted, reading.got] for reading in trial.readings],
        "notes": dict(trial.notes),
    }
    return row | _figures_row(trial.figures) if trial.figures else row


def latencies_of(trial: Trial) -> dict[str, bytes | None]:
    sides = (trial.figures.read, trial.figures.write) if trial.figures else (None, None)
    kept = (side.latencies.packed if side and side.latencies else None for side in sides)
    return dict(zip(LATENCIES, kept, strict=True))


def trial_of(row: Sequence[Any]) -> Trial:
    """Return the trial of a row of COLUMNS."""
    cell, round_number, outcome, reason, started, seconds, attempts, folder, readings, notes = row[:10]
    return Trial(
        cell=cell,
        round=round_number,
        outcome=Outcome(outcome),
        reason=reason,
        started=started,
        seconds=seconds,
        attempts=attempts,
        figures=_figures(row),
        readings=_readings(readings),
        notes=dict(_notes(notes)),
        folder=folder,
    )


@lru_cache(maxsize=4096)
def _readings(text: str) -> tuple[Reading, ...]:
    """Cache the result: trials of a cell mostly have equal readings, and parsing takes most of the time of a reader."""
    return tuple(Reading(*reading) for reading in orjson.loads(text))


@lru_cache(maxsize=4096)
def _notes(text: str) -> dict[str, str]:
    notes: dict[str, str] = orjson.loads(text)
    return notes


def _figures_row(figures: Figures) -> dict[str, Any]:
    return {
        "runtime": figures.runtime,
        "cpu_usr": figures.cpu_usr,
        "cpu_sys": figures.cpu_sys,
        "errors": figures.errors,
        **dict(zip(_READ, _direction_values(figures.read) if figures.read else _NOTHING, strict=True)),
        **dict(zip(_WRITE, _direction_values(figures.write) if figures.write else _NOTHING, strict=True)),
    }


def _figures(row: Sequence[Any]) -> Figures | None:
    runtime, cpu_usr, cpu_sys, errors = row[10:14]
    if runtime is None:
        return None
    *sides, read, write = row[_READ_AT:]
    count = len(DIRECTION)
    return Figures(
        read=_direction(sides[:count], read),
        write=_direction(sides[count:], write),
        runtime=runtime,
        cpu_usr=cpu_usr,
        cpu_sys=cpu_sys,
        errors=errors,
    )


def _direction(values: Sequence[Any], latencies: bytes | None) -> Direction | None:
    return None if values[0] is None else Direction(*(*values, Histogram(latencies) if latencies else None))
