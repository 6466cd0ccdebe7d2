"""Read-only view of a run folder: the process that uses it, its state and its progress."""

import fcntl
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from matrix_runner.base.errors import Exit, MatrixError
from matrix_runner.base.files import open_lock_file, read_signature, try_lock
from matrix_runner.records.checksums import check_rows
from matrix_runner.records.databases import damage_error, driver_errors, sqlite_reader, translate_errors
from matrix_runner.records.record import COUNTED, WORST, Outcome
from matrix_runner.records.run_folder import MANIFEST, RunFolder, load, run_folders
from matrix_runner.records.standing import LOCK, parse_signature
from matrix_runner.records.tables import IN_JOURNAL, JOURNAL, attempts, begun

cells, trials = IN_JOURNAL.cells, IN_JOURNAL.trials


class State(StrEnum):
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    BROKEN = "broken"  # finished, but a trial broke or no trial was measured
    UNFINISHED = "unfinished"  # known from a store only; it may be running elsewhere


@dataclass(frozen=True, slots=True)
class Holder:
    pid: str
    host: str
    since: datetime


@dataclass(frozen=True, slots=True)
class ActiveTrial:
    name: str
    round: int
    attempt: int
    started: str


@dataclass(frozen=True, slots=True)
class LastTrial:
    name: str
    round: int
    outcome: str
    started: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Progress:
    cells: int = 0
    measured: int = 0  # cells with a measured trial
    bad: Mapping[Outcome, Mapping[str, str]] = field(default_factory=dict)  # reasons by outcome and name of the cell
    outcomes: Mapping[str, int] = field(default_factory=dict)  # trials by outcome
    recent: int = 0  # trials that the current process recorded
    lost: int = 0  # attempts that lost their rig
    underway: Sequence[ActiveTrial] = ()
    last: LastTrial | None = None

    @property
    def trials(self) -> int:
        return sum(self.outcomes.values())


def derive_state(*, finished: bool, exit: int | None, held: bool) -> State:  # noqa: A002 - as in the manifest
    """Derive the state from manifest and lock. A finished run may be locked while its reports are rewritten."""
    if finished:
        return State.BROKEN if exit == Exit.BROKEN else State.FINISHED
    return State.RUNNING if held else State.INTERRUPTED


def progress_by_cell(names: Mapping[str, str], by_cell: Sequence[tuple[Any, ...]]) -> Progress:
    outcomes = Counter[str]()
    for _, outcome, count, _ in by_cell:
        outcomes[outcome] += count
    return Progress(
        cells=len(names),
        measured=sum(outcome in COUNTED for _, outcome, _, _ in by_cell),
        bad={bad: {names[cell]: why for cell, outcome, _, why in by_cell if outcome == bad} for bad in WORST},
        outcomes=outcomes,
    )


def find_holder(folder: Path) -> Holder | None:
    """Return the process that holds the lock of a run, or None. A signature without a lock is of a killed process."""
    with suppress(FileNotFoundError), open_lock_file(folder / LOCK, os.O_RDONLY) as lock:
        pid, host = parse_signature(read_signature(lock))
        if pid and not try_lock(lock, fcntl.LOCK_SH):  # for an instant; `RunFolder.locked` retries that long
            return Holder(pid, host, datetime.fromtimestamp(os.fstat(lock).st_mtime, UTC))
    return None


def observe_run(folder: RunFolder) -> tuple[RunFolder, Holder | None]:
    """Return a run and its holder. Both are read again without a lock, as the run may have ended or begun meanwhile."""
    if folder.manifest.finished:
        return folder, None
    if holder := find_holder(folder.path):
        return folder, holder
    again = load(folder.path)
    return again, None if again.manifest.finished else find_holder(folder.path)


def readable_runs(results: Path) -> tuple[list[RunFolder], dict[str, str]]:
    found, unreadable = [], {}
    for folder in run_folders(results):
        if not os.access(folder / MANIFEST, os.R_OK):
            unreadable[folder.name] = "this user may not read it"
            continue
        try:
            found.append(load(folder))
        except MatrixError:
            unreadable[folder.name] = "its manifest is damaged, or of another version of matrix"
    return sorted(found, key=lambda run: (run.manifest.started, run.path.name), reverse=True), unreadable


def has_results(folder: RunFolder) -> bool:
    measured = sa.select(trials.c.id).where(trials.c.outcome.in_(COUNTED)).limit(1)
    with suppress(MatrixError), _reading(folder.journal) as connection:
        return connection is not None and bool(_rows(connection, measured))
    return False


def read_progress(folder: RunFolder, since: datetime | None = None, *, checked: bool = False) -> Progress:
    with _reading(folder.journal) as connection:
        if connection is None:
            return Progress()
        if checked:
            _check(connection, folder.journal)
        names = dict(_rows(connection, sa.select(cells.c.id, _start(cells.c.name))))
        found = progress_by_cell(names, _rows(connection, _BY_CELL))
        now = since.isoformat(timespec="milliseconds") if since else ""
        active = sa.select(begun.c.cell, begun.c.round, begun.c.attempt, begun.c.started)
        active = active.where(begun.c.started >= now).order_by(begun.c.started)
        last = sa.select(trials.c.cell, trials.c.round, trials.c.outcome, trials.c.started, trials.c.seconds)
        last = last.order_by(trials.c.id.desc())
        return replace(
            found,
            recent=len(_rows(connection, sa.select(trials.c.id).where(trials.c.started >= now))) if now else 0,
            lost=len(_rows(connection, sa.select(attempts.c.cell))),
            # Attempts of killed processes stay in the journal until the run repeats them.
            underway=[ActiveTrial(names[cell], *rest) for cell, *rest in _rows(connection, active)] if now else (),
            last=next((LastTrial(names[cell], *rest) for cell, *rest in _rows(connection, last.limit(1))), None),
        )


def _check(connection: sa.Connection, journal: Path) -> None:
    verdict = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
    if verdict != "ok":
        raise damage_error(journal, str(verdict))
    try:
        with driver_errors():
            for table in (cells, trials):
                check_rows(connection, table)
    except ValueError as problem:
        raise damage_error(journal, str(problem)) from problem


_SHOWN = 1000  # characters of a text


def _start(column: sa.Column[Any]) -> sa.ColumnElement[str]:
    return sa.func.substr(column, 1, _SHOWN)


_BY_CELL = sa.select(trials.c.cell, trials.c.outcome, sa.func.count(), sa.func.max(_start(trials.c.reason))).group_by(
    trials.c.cell, trials.c.outcome
)


@contextmanager
def _reading(journal: Path) -> Iterator[sa.Connection | None]:
    """Open a journal while another process writes it. Yield None if it does not exist yet."""
    if not journal.exists():
        yield None
        return
    engine = sqlite_reader(journal, IN_JOURNAL.metadata.tables)
    try:
        with translate_errors(journal), engine.connect() as connection, connection.begin():
            if sa.inspect(connection).get_table_names():
                JOURNAL.understood(connection, journal)
                yield connection
            else:
                yield None
    finally:
        engine.dispose()


def _rows(connection: sa.Connection, query: sa.Executable) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(query)]
