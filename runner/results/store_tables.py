"""The address of the shared store, its tables and their migrations."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import JSON, Boolean, Column, Float, Index, Integer, LargeBinary, MetaData, String, Table, Text, text
from sqlalchemy.exc import ArgumentError

from runner.base.errors import BadInput
from runner.results.databases import Versioned, rename_columns, rename_notes
from runner.results.journal_tables import RENAMED_NOTES, direction_columns, with_more_percentiles

if TYPE_CHECKING:
    from sqlalchemy import Connection

#: The option `--store` takes precedence.
VARIABLE = "MATRIX_STORE"
_FILE = "store.db"
#: Places of passwords in a URL: in the query; between colon and last @; in place of the port if @ is missing.
_PASSWORDS = (
    re.compile(r"([?&][^=&?\s]*pass[^=&?\s]*=)[^&\s]*", re.IGNORECASE),
    re.compile(r"(://[^:/\s]*:)\S*(?=@)"),
    re.compile(r"(://[^:/@\s]*:)(?!\d*(?:[/?,]|$))[^/?@\s]+(?=[/?]|$)"),
)


@dataclass(frozen=True, slots=True)
class Address:
    """A file, a URL, or neither: a store in memory."""

    file: Path | None = None
    url: sa.URL | None = None

    def __str__(self) -> str:
        if self.url is not None:
            return without_passwords(self.url.render_as_string(hide_password=True))
        return str(self.file) if self.file else "in memory"


#: In memory, for queries where no file can be written.
IN_MEMORY = Address()


def without_passwords(text: str) -> str:
    """Replace passwords of URLs in a text. This may hide harmless text, too."""
    for password in _PASSWORDS:
        text = password.sub(r"\1***", text)
    return text


def address_of(told: str | None, results: Path) -> Address:
    """Return the address from the command line, else from the environment, else a file beside the runs."""
    text = told if told is not None else os.environ.get(VARIABLE) or None
    if text is None:
        return Address(file=results / _FILE)
    if not text.strip():
        raise _unusable(text, "it is empty")
    return _url(text) if "://" in text else Address(file=Path(text))


def is_named(told: str | None) -> bool:
    return told is not None or bool(os.environ.get(VARIABLE))


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

#: Not `meta`, which identifies a journal.
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
    Column("name", Text, nullable=False),  # the name of its folder
    Column("matrix", Text, nullable=False),
    Column("machine", Text, nullable=False),
    Column("synthetic", Boolean, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("revision", Text, nullable=False),  # git commit, with a plus if files were changed
    Column("started", String, nullable=False),
    Column("finished", Boolean, nullable=False),
    Column("planned", Integer, nullable=False),
    Column("confidence", Float, nullable=False),
    Column("until", Float),
    Column("least", Integer, nullable=False, server_default="2"),
    Column("most", Integer),
    Column("environment", JSON, nullable=False),
    Column("part", Text, nullable=False, server_default=""),  # the requested part of its matrix; empty: all
    Column("exit", Integer),  # exit code of `matrix run` at the end
    # Digest of the manifest at which the store was complete; empty while trials may be missing.
    Column("settled", Text, nullable=False),
)

cells = Table(
    "cells",
    tables,
    Column("run", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("name", Text, nullable=False),
    Column("axes", JSON, nullable=False),
    Column("position", Integer),  # position among the cells of its run
    sqlite_with_rowid=False,
)

trials = Table(
    "trials",
    tables,
    Column("run", String, primary_key=True),
    Column("cell", String, primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
    Column("outcome", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("started", String, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("kernel", Text, nullable=False),
    Column("host_limited", Text, nullable=False),
    Column("unsettled", Text, nullable=False, server_default=""),
    Column("runtime", Float),
    Column("cpu_usr", Float),
    Column("cpu_sys", Float),
    Column("errors", Integer),
    *direction_columns("read"),
    *direction_columns("write"),
    Column("readings", String, nullable=False),  # digest of the readings
    Column("notes", JSON, nullable=False),
    Column("folder", Text, nullable=False),
    Index("trials_of_a_cell", "cell", "run"),
    sqlite_with_rowid=False,
)

#: Latency histograms: large, and only needed for percentiles over several trials.
latencies = Table(
    "latencies",
    tables,
    Column("run", String, primary_key=True),
    Column("cell", String, primary_key=True),
    Column("round", Integer, primary_key=True, autoincrement=False),
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
    """Migrate to version 2: add repeats, which only manifests have, so check all runs again."""
    connection.execute(text("ALTER TABLE runs ADD COLUMN least INTEGER NOT NULL DEFAULT 2"))
    connection.execute(text("ALTER TABLE runs ADD COLUMN most INTEGER"))
    connection.execute(runs.update().values(settled=""))


def _with_histograms_and_order(connection: Connection) -> None:
    """Migrate to version 3. Existing journals lack histograms but have the order of cells."""
    with_more_percentiles(connection)
    connection.execute(text("ALTER TABLE trials ADD COLUMN unsettled TEXT NOT NULL DEFAULT ''"))
    latencies.create(connection)
    connection.execute(text("ALTER TABLE cells ADD COLUMN position INTEGER"))
    connection.execute(runs.update().values(settled=""))


def _with_endings(connection: Connection) -> None:
    """Migrate to version 4: add exit code and part of the matrix, which manifests have."""
    connection.execute(text("ALTER TABLE runs ADD COLUMN part TEXT NOT NULL DEFAULT ''"))
    connection.execute(text("ALTER TABLE runs ADD COLUMN exit INTEGER"))
    connection.execute(runs.update().values(settled=""))


def _with_host_limited(connection: Connection) -> None:
    rename_columns({"strained": "host_limited"}, "trials")(connection)
    rename_notes(RENAMED_NOTES)(connection)


SHARED = Versioned(
    "shared store",
    tables,
    meta,
    (
        _with_how_long,
        _with_histograms_and_order,
        _with_endings,
        rename_columns({"made_up": "synthetic"}, "runs"),
        _with_host_limited,
        rename_columns({"block": "round"}, "trials", "latencies"),
    ),
    stranger="name another file or database with `--store`; an empty one becomes a store",
    newer="use the newer program, or name another store with `--store`; the journals of the runs have the same trials",
)
