"""Read a run folder as an observer does, who writes nothing: which process is at it, and how far it is."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from runner.base.errors import MatrixError
from runner.results.database_errors import named
from runner.results.databases import sqlite_reader
from runner.results.folders import MANIFEST, folders_of_runs
from runner.results.journal_tables import attempts, begun, cells, trials
from runner.results.record import Outcome
from runner.results.run_folder import LOCK, RunFolder, load
from runner.results.run_progress import Holder, Last, Progress, Underway, progress_by_cell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def holder_of(folder: Path) -> Holder | None:
    """Find the process that holds the lock of a run; None: it is not running.

    A process signs the lock, and wipes the signature when it ends. A signed lock is held, or its process was killed.
    To know which, the lock is taken for an instant, shared; `RunFolder.locked` waits that long.
    """
    try:
        file = (folder / LOCK).open()
    except FileNotFoundError:
        return None
    with file:
        pid, _, host = file.read().strip().partition(" on ")
        if not pid:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return Holder(pid, host, datetime.fromtimestamp((folder / LOCK).stat().st_mtime, UTC))
    return None


def observed(folder: RunFolder) -> tuple[RunFolder, Holder | None]:
    """Return a run as it is now, and the process that holds its lock.

    A run that ended, or began, after its manifest was read would look interrupted, so both are read once more.
    """
    if folder.manifest.finished:
        return folder, None
    if holder := holder_of(folder.path):
        return folder, holder
    again = load(folder.path)
    return again, None if again.manifest.finished else holder_of(folder.path)


def readable_runs(results: Path) -> tuple[list[RunFolder], dict[str, str]]:
    """Load the runs below a folder, the latest first; and why others, by their names, cannot be read."""
    found, unreadable = [], {}
    for folder in folders_of_runs(results):
        if not os.access(folder / MANIFEST, os.R_OK):
            unreadable[folder.name] = "this user may not read it"
            continue
        try:
            found.append(load(folder))
        except MatrixError:
            unreadable[folder.name] = "its manifest is damaged, or of another version of matrix"
    return sorted(found, key=lambda run: (run.manifest.started, run.path.name), reverse=True), unreadable


def has_results(folder: RunFolder) -> bool:
    """Whether at least one of its trials was measured; a damaged journal has no results."""
    measured = sa.select(trials.c.id).where(trials.c.outcome == Outcome.MEASURED.value).limit(1)
    with suppress(MatrixError), _reading(folder.journal) as connection:
        return connection is not None and bool(_rows(connection, measured))
    return False


def progress_of(folder: RunFolder, since: datetime | None = None) -> Progress:
    """Read how far a run is; `since`: when the process began that is at it now, without which nothing is under way."""
    with _reading(folder.journal) as connection:
        if connection is None:
            return Progress()
        names = dict(_rows(connection, sa.select(cells.c.id, cells.c.name)))
        found = progress_by_cell(names, _rows(connection, _BY_CELL))
        now = since.isoformat(timespec="milliseconds") if since else ""
        return replace(
            found,
            recent=len(_rows(connection, sa.select(trials.c.id).where(trials.c.started >= now))) if now else 0,
            lost=len(_rows(connection, sa.select(attempts.c.cell))),
            underway=[Underway(names[cell], *rest) for cell, *rest in _begun(connection, now)] if now else (),
            last=next((Last(names[cell], *rest) for cell, *rest in _rows(connection, _LAST)), None),
        )


_BY_CELL = sa.select(trials.c.cell, trials.c.outcome, sa.func.count(), sa.func.max(trials.c.reason)).group_by(
    trials.c.cell, trials.c.outcome
)
_LAST = (
    sa.select(trials.c.cell, trials.c.block, trials.c.outcome, trials.c.started).order_by(trials.c.id.desc()).limit(1)
)


@contextmanager
def _reading(journal: Path) -> Iterator[sa.Connection | None]:
    """Open a journal that another process may be writing, of any version; None: it has not been made yet."""
    if not journal.exists():
        yield None
        return
    engine = sqlite_reader(journal)
    try:
        with named(journal), engine.connect() as connection, connection.begin():
            yield connection if sa.inspect(connection).has_table(trials.name) else None
    finally:
        engine.dispose()


def _rows(connection: sa.Connection, query: sa.Executable) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(query)]


def _begun(connection: sa.Connection, since: str) -> list[tuple[Any, ...]]:
    """Attempts of the process that is at it now: those of a killed one stay in the journal until they are repeated."""
    query = sa.select(begun.c.cell, begun.c.block, begun.c.attempt, begun.c.started)
    return _rows(connection, query.where(begun.c.started >= since).order_by(begun.c.started))
