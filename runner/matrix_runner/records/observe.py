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
from matrix_runner.records.databases import sqlite_reader
from matrix_runner.records.files import LOCK, parse_signature
from matrix_runner.records.journal_reader import JournalReader
from matrix_runner.records.record import COUNTED, WORST, Outcome
from matrix_runner.records.run_folder import MANIFEST, Manifest, RunFolder, load, run_folders
from matrix_runner.records.tables import IN_JOURNAL, attempts, begun, check_rows
from matrix_runner.records.versions import JOURNAL

cells, trials = IN_JOURNAL.cells, IN_JOURNAL.trials


class State(StrEnum):
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    BROKEN = "broken"  # finished, but a trial broke or no trial was measured
    UNFINISHED = "unfinished"  # known from a store only; it may be running elsewhere
    GONE = "gone"  # its folder was removed by hand


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


def derive_state(manifest: Manifest, holder: Holder | None) -> State:
    """Derive the state from manifest and lock. A finished run may be locked while its reports are rewritten."""
    if manifest.finished:
        return State.BROKEN if manifest.exit == Exit.BROKEN else State.FINISHED
    return State.RUNNING if holder else State.INTERRUPTED


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


_SHOWN = 1000  # characters of a text


def _start(column: sa.Column[Any]) -> sa.ColumnElement[str]:
    return sa.func.substr(column, 1, _SHOWN)


_BY_CELL = sa.select(trials.c.cell, trials.c.outcome, sa.func.count(), sa.func.max(_start(trials.c.reason))).group_by(
    trials.c.cell, trials.c.outcome
)


class _Observer(JournalReader):
    """A journal that another process may write."""

    def __init__(self, journal: Path) -> None:
        super().__init__(sqlite_reader(journal, IN_JOURNAL.metadata.tables), journal)

    @property
    def is_empty(self) -> bool:
        """Whether its tables are not made yet."""
        with self._transaction() as connection:
            return not sa.inspect(connection).get_table_names() or JOURNAL.understood(connection, self._name) < 1

    def has_results(self) -> bool:
        return bool(self._rows(sa.select(trials.c.id).where(trials.c.outcome.in_(COUNTED)).limit(1)))

    def check(self) -> None:
        with self._checked(), self._transaction() as connection:
            self._check_structure(connection, None)
            # Rows of an older version have other columns: they are checked once it is converted.
            if JOURNAL.understood(connection, self._name) == JOURNAL.version:
                for table in (cells, trials):
                    check_rows(connection, table)
                self._check_trials(connection)

    def progress(self, since: datetime | None) -> Progress:
        names = dict(self._rows(sa.select(cells.c.id, _start(cells.c.name))))
        found = progress_by_cell(names, self._rows(_BY_CELL))
        now = since.isoformat(timespec="milliseconds") if since else ""
        active = sa.select(begun.c.cell, begun.c.round, begun.c.attempt, begun.c.started)
        active = active.where(begun.c.started >= now).order_by(begun.c.started)
        last = sa.select(trials.c.cell, trials.c.round, trials.c.outcome, trials.c.started, trials.c.seconds)
        last = last.order_by(trials.c.id.desc())
        return replace(
            found,
            recent=len(self._rows(sa.select(trials.c.id).where(trials.c.started >= now))) if now else 0,
            lost=len(self._rows(sa.select(attempts.c.cell))),
            # Attempts of killed processes stay in the journal until the run repeats them.
            underway=[ActiveTrial(names[cell], *rest) for cell, *rest in self._rows(active)] if now else (),
            last=next((LastTrial(names[cell], *rest) for cell, *rest in self._rows(last.limit(1))), None),
        )


def has_results(folder: RunFolder) -> bool:
    with suppress(MatrixError), _observer(folder.journal) as journal:
        return journal is not None and journal.has_results()
    return False


def read_progress(folder: RunFolder, since: datetime | None = None, *, checked: bool = False) -> Progress:
    with _observer(folder.journal) as journal:
        if journal is None:
            return Progress()
        if checked:
            journal.check()
        return journal.progress(since)


@contextmanager
def _observer(journal: Path) -> Iterator[_Observer | None]:
    if not journal.exists():
        yield None
        return
    with _Observer(journal) as reader, reader.together(immediate=False):
        yield None if reader.is_empty else reader
