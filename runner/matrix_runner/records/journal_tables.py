"""The tables of a journal, and the conversion between trials and rows.

Over 400 lines: a column and its conversion change together.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from itertools import chain
from math import isfinite
from operator import attrgetter
from sys import intern
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy import (
    JSON,
    BigInteger,
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
)

from matrix_runner.base.text import shorten
from matrix_runner.records.databases import Versioned, keys, optional, required
from matrix_runner.records.record import CellRow, Outcome, Reading, Trial
from matrix_runner.records.views import views_of_journal
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.work.fio.output import Direction, Figures, Sync
from matrix_runner.work.metrics import ALL_SIDES, FLUSH, OF_DIRECTION, OF_SIDE

#: The columns of one direction, in the order of the fields of `Direction`.
DIRECTION: tuple[str, ...] = tuple(OF_DIRECTION)
_COUNTS = {"bytes", "ios"}

SYNTHETIC = "synthetic"  # the key in `meta` that marks synthetic figures

tables = MetaData()

meta = Table("meta", tables, *keys(key=String), *required(value=Text))
cells = Table("cells", tables, *keys(id=String), *required(name=Text, axes=JSON, position=Integer))


def direction_columns() -> list[Column[Any]]:
    names = ((side, name) for side, figures in OF_SIDE.items() for name in figures)
    return optional(**{f"{side}_{name}": BigInteger if name in _COUNTS else Float for side, name in names})


#: Histograms are large. Readers of many trials keep them in a separate table (`matrix_runner.statistics.percentile`).
LATENCIES = tuple(f"{side}_latencies" for side in ALL_SIDES)


def latency_columns() -> list[Column[Any]]:
    return optional(**dict.fromkeys(LATENCIES, LargeBinary))


def sync_columns() -> list[Column[Any]]:
    return optional(sync_seconds=Float, sync_bw=Float)


trials = Table(
    "trials",
    tables,
    *keys(id=Integer),  # the order of recording; the identity is cell and round
    Column("cell", ForeignKey("cells.id"), nullable=False),
    *required(round=Integer, outcome=String, reason=Text, started=String, seconds=Float, attempts=Integer, folder=Text),
    # Null runtime: no figures. Null bandwidth: no I/O in that direction.
    *optional(runtime=Float, cpu_usr=Float, cpu_sys=Float, errors=Integer),
    *direction_columns(),
    *sync_columns(),
    *latency_columns(),
    *required(readings=String, notes=JSON),  # the digest of the readings
    UniqueConstraint("cell", "round", name="one_trial_per_cell_and_round"),
)

#: Most trials of a stack have equal readings, which are larger than the rest of a trial.
readings = Table("readings", tables, *keys(digest=String), *required(content=JSON))

#: The figures of each job of a trial, if there are several.
jobs = Table(
    "jobs",
    tables,
    *keys(cell=String, round=Integer, job=String),
    *required(position=Integer, runtime=Float, cpu_usr=Float, cpu_sys=Float, errors=Integer),
    *direction_columns(),
    *latency_columns(),
)

attempts = Table(
    "attempts",
    tables,
    *keys(cell=String, round=Integer, number=Integer),
    *required(started=String, reason=Text, tail=Text),
)

begun = Table(
    "begun", tables, *keys(cell=String, round=Integer, attempt=Integer), *required(boot_id=String, started=String)
)

#: Trials that the user asked to repeat.
retried = Table(
    "retried",
    tables,
    *keys(id=Integer),
    *required(cell=String, round=Integer, attempts=Integer, outcome=String, reason=Text, started=String),
)

batches = Table("batches", tables, *keys(id=Integer), *required(round=Integer, stack=String, seconds=Float))

#: Trouble outside of measurements that did not stop the run.
troubles = Table("troubles", tables, *keys(id=Integer), *required(at=String, what=Text))


#: All but cells and trials. `id` only gives the order.
SIMPLE = {
    table: tuple(column.name for column in table.columns if column.name != "id")
    for table in (attempts, begun, retried, batches, troubles)
}


def _digest(content: str) -> str:
    return blake2b(content.encode(), digest_size=8).hexdigest()


JOURNAL = Versioned(
    "journal",
    tables,
    meta,
    views=views_of_journal(),
    stranger="name the folder of a run",
    newer="use the newer program, or start a new run with `--fresh`",
    before="read it with that commit, or start a new run with `--fresh`",
)


#: The columns of each side, in the order of the fields of `Direction`, and how to get their values.
_OF_SIDES = {side: tuple(f"{side}_{name}" for name in figures) for side, figures in OF_SIDE.items()}
_values_of = {side: attrgetter(*figures) for side, figures in OF_SIDE.items()}
_DIRECTIONS = tuple(chain.from_iterable(_OF_SIDES.values()))

_PLAIN = ("cell", "round", "reason", "started", "seconds", "attempts", "folder")
_WHOLE = ("runtime", "cpu_usr", "cpu_sys", "errors")  # the figures of both directions together
_SYNC = ("sync_seconds", "sync_bw")
TRIAL_COLUMNS: tuple[str, ...] = (*_PLAIN, "outcome", "readings", "notes", *_SYNC, *_WHOLE, *_DIRECTIONS, *LATENCIES)

#: The columns that `trial_of` reads, in order.
COLUMNS: tuple[sa.ColumnElement[Any], ...] = tuple(
    # JSON, decoded here once for each distinct text.
    sa.cast(trials.c[name], sa.Text) if name == "notes" else trials.c[name]
    for name in TRIAL_COLUMNS
)
#: The position of the digest of the readings in `COLUMNS`.
READINGS = TRIAL_COLUMNS.index("readings")


def content_of(several: Iterable[Reading]) -> list[list[str | None]]:
    return [[one.setting, one.wanted, one.got] for one in several]


@lru_cache(maxsize=1024)
def digest_of(several: tuple[Reading, ...]) -> str:
    return _digest(orjson.dumps(content_of(several)).decode())


def row_of(trial: Trial) -> dict[str, Any]:
    row = {name: getattr(trial, name) for name in _PLAIN} | {
        "reason": shorten(trial.reason, _LONGEST_NOTE),
        "outcome": trial.outcome.value,
        "readings": digest_of(trial.readings),
        "notes": {name: shorten(text, _LONGEST_NOTE) for name, text in trial.notes.items()},
    }
    if trial.figures is None:
        return row
    sync = trial.figures.rebuild
    row |= dict(zip(_SYNC, (sync.seconds, sync.bw) if sync else (None, None), strict=True))
    return row | _row_of_figures(trial.figures)


_BLANK = dict.fromkeys(TRIAL_COLUMNS)


def driver_row_of(trial: Trial) -> dict[str, Any]:
    """Return all columns of a trial as the driver of SQLite writes them."""
    row = {**_BLANK, **row_of(trial), **latencies_of(trial)}
    return row | {"notes": orjson.dumps(row["notes"]).decode()}


def readings_row(trial: Trial) -> dict[str, str]:
    content = orjson.dumps(content_of(trial.readings)).decode()
    return {"digest": digest_of(trial.readings), "content": content}


def _row_of_figures(figures: Figures) -> dict[str, Any]:
    return {
        **{name: getattr(figures, name) for name in _WHOLE},
        **{
            column: value
            for side, columns in _OF_SIDES.items()
            for column, value in zip(columns, _values(figures, side, len(columns)), strict=True)
        },
    }


def _values(figures: Figures, side: str, count: int) -> tuple[Any, ...]:
    found = getattr(figures, side)
    return _values_of[side](found) if found else (None,) * count


def job_rows_of(trial: Trial) -> list[dict[str, Any]]:
    figures = trial.figures.jobs if trial.figures else {}
    return [
        {
            "cell": trial.cell,
            "round": trial.round,
            "job": name,
            "position": at,
            **_row_of_figures(one),
            **latencies(one),
        }
        for at, (name, one) in enumerate(figures.items())
    ]


def latencies_of(trial: Trial) -> dict[str, bytes | None]:
    return latencies(trial.figures)


def latencies(figures: Figures | None) -> dict[str, bytes | None]:
    sides = [getattr(figures, side) if figures else None for side in ALL_SIDES]
    kept = (side.latencies.packed if side and side.latencies else None for side in sides)
    return dict(zip(LATENCIES, kept, strict=True))


def types_of(column: Column[Any]) -> tuple[type, ...]:
    kinds: tuple[type, ...] = (str,)
    if isinstance(column.type, Integer):  # BigInteger as well
        kinds = (int,)
    elif isinstance(column.type, Float):
        kinds = (float, int)
    elif isinstance(column.type, LargeBinary):
        kinds = (bytes,)
    return (*kinds, type(None)) if column.nullable else kinds


JOB_COLUMNS: tuple[str, ...] = ("cell", "round", "job", *_WHOLE, *_DIRECTIONS, *LATENCIES)
#: Characters of any text, also of a name or an axis. Longer ones are damage, so an import refuses them.
LONGEST = 1 << 20
_OUTCOMES = frozenset(one.value for one in Outcome)
_LONGEST_NOTE = 1 << 14  # of a reason or a note, as it is written
_NUMBERS, _LEAST, _MOST = (int, float), 1e-30, 9e18  # of numbers that are not 0; ratios of others would overflow


def checker(table: Table, names: Sequence[str]) -> Callable[[Sequence[Any]], None]:
    """Return a check of rows: it raises ValueError for a value that this program did not write."""
    kinds_of = [(name, types_of(table.c[name])) for name in names]

    def check(row: Sequence[Any]) -> None:
        for (name, kinds), value in zip(kinds_of, row, strict=True):
            number = value if value.__class__ in _NUMBERS else 0
            if not isinstance(value, kinds) or not (number == 0 or _LEAST <= number <= _MOST):
                raise ValueError(f"{name} in {table.name} is {value!r:.60}")
            if name == "outcome" and value not in _OUTCOMES:
                raise ValueError(f"the outcome of a trial is {value!r:.60}")
            if isinstance(value, str) and len(value) > LONGEST:
                raise ValueError(f"{name} in {table.name} has {len(value):,} characters")

    return check


def batch_checker(table: Table, names: Sequence[str]) -> Callable[[Sequence[Sequence[Any]]], None]:
    """Return the same check for many rows, column by column, which is much faster."""
    check, kinds_of = checker(table, names), [{*types_of(table.c[name])} for name in names]

    def check_all(rows: Sequence[Sequence[Any]]) -> None:
        columns = zip(names, kinds_of, zip(*rows, strict=True), strict=True) if rows else ()
        if not all(usual_column(*column) for column in columns):
            for row in rows:
                check(row)

    return check_all


def unusual_number(column: Column[Any]) -> sa.ColumnElement[bool]:
    """Return the same check of a column of numbers as a condition that the database evaluates."""
    kind = sa.func.typeof(column)
    number = kind.in_(("real", "integer")) & ((column == 0) | column.between(_LEAST, _MOST))
    return sa.not_(number | (kind == "null")) if column.nullable else sa.not_(number)


def usual_column(name: str, kinds: Set[type], values: Sequence[Any]) -> bool:
    """Check a column of trials, in a journal or a store."""
    return are_usual(kinds, values) and (name != "outcome" or _OUTCOMES.issuperset(values))


def are_usual(kinds: Set[type], values: Sequence[Any]) -> bool:
    found = {*map(type, values)}
    numbers = [*filter(None, values)] if not found.isdisjoint(_NUMBERS) else ()
    if not found <= kinds or (str in found and max(map(len, filter(None, values)), default=0) > LONGEST):
        return False
    return not numbers or (min(numbers) >= _LEAST and max(numbers) <= _MOST and isfinite(sum(numbers)))


def reader(table: Table) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Return a function that checks rows of a simple table and names their values."""
    names, check = SIMPLE[table], checker(table, SIMPLE[table])

    def read(row: Sequence[Any]) -> dict[str, Any]:
        check(row)
        return dict(zip(names, row, strict=True))

    return read


check_plain_rows: Callable[[Sequence[str]], Callable[[Sequence[Sequence[Any]]], None]] = lru_cache(
    lambda names: batch_checker(trials, names)
)
_check_trial, _check_job = checker(trials, TRIAL_COLUMNS), checker(jobs, JOB_COLUMNS)
_check_trials = batch_checker(trials, TRIAL_COLUMNS)
_COUNTED = DIRECTION.index("lat_mean")  # the figures of a direction that are always known


def trial_of(row: Sequence[Any], known: Mapping[str, tuple[Reading, ...]]) -> Trial:
    """Build a trial from a row and readings by digest. Raise ValueError for a row that this program did not write."""
    _check_trial(row)
    trial = _trial_of(row, known)
    check_histograms(trial.figures)
    return trial


def check_histograms(figures: Figures | None) -> None:
    """Raise ValueError for a histogram that is damaged, or that another program packed."""
    for one in (figures, *figures.jobs.values()) if figures else ():
        for side in one.all_sides.values():
            if side.latencies:
                side.latencies.unpack()


def trials_of(rows: Sequence[Sequence[Any]], known: Mapping[str, tuple[Reading, ...]]) -> Iterator[Trial]:
    """Build many trials in the same way. Their histograms are checked on use: to unpack them takes most of the time."""
    _check_trials(rows)
    return (_trial_of(row, known) for row in rows)


def _trial_of(row: Sequence[Any], known: Mapping[str, tuple[Reading, ...]]) -> Trial:
    cell, round_number, reason, started, seconds, attempts, folder, outcome, digest, notes, seconds_of_sync, bw = row[
        :12
    ]
    figures, sync = _figures(row[12:]), _sync(seconds_of_sync, bw)
    return Trial(
        *(cell, round_number, Outcome(outcome), reason, started, seconds, attempts),
        *(
            replace(figures, rebuild=sync) if figures and sync else figures,
            _known_readings(known, digest),
            notes_of(notes),
            folder,
        ),
    )


def job_of(row: Sequence[Any]) -> tuple[tuple[str, int], str, Figures]:
    """Return the identity of a trial, the name of a job and its figures. Raise ValueError as `trial_of` does."""
    _check_job(row)
    cell, round_number, name, *rest = row
    figures = _figures(rest)
    if figures is None:
        raise ValueError(f"job {name!r:.60} of a trial has no run time")
    check_histograms(figures)
    return (cell, round_number), name, figures


def with_jobs(trial: Trial, figures: Mapping[str, Figures]) -> Trial:
    return replace(trial, figures=replace(trial.figures, jobs=figures)) if trial.figures and figures else trial


def cell_of(row: Sequence[Any]) -> CellRow:
    id_, name, axes, position = row
    if not (isinstance(id_, str) and isinstance(name, str) and isinstance(position, int | None)):
        raise ValueError(f"a cell is {row!r:.60}")  # noqa: TRY004 - the kind that means damage
    try:  # values repeat in many cells, so each is kept once; anything but text raises TypeError
        kept = dict(zip(axes, map(intern, axes.values()), strict=True))
    except (AttributeError, TypeError):
        raise ValueError(f"the axes of cell {name!r:.60} are {axes!r:.60}") from None
    if max(len(id_), len(name), *map(len, kept), *map(len, kept.values())) > LONGEST:
        raise ValueError(f"cell {name!r:.60} has a name or an axis of more than {LONGEST:,} characters")
    return CellRow(id_, name, kept, position)


def _known_readings(known: Mapping[str, tuple[Reading, ...]], digest: str) -> tuple[Reading, ...]:
    try:
        return known[digest]
    except KeyError:
        raise ValueError(f"the readings {digest!r:.60} of a trial are missing") from None


def readings_of(row: Sequence[Any]) -> tuple[str, tuple[Reading, ...]]:
    digest, text = row
    if not isinstance(digest, str):
        raise ValueError(f"the digest of readings is {digest!r:.60}")  # noqa: TRY004 - the kind that means damage
    return digest, _readings(text)


@lru_cache(maxsize=256)  # most trials of a stack have the same
def _readings(text: str) -> tuple[Reading, ...]:
    found = orjson.loads(text)
    if not isinstance(found, list) or not all(map(_is_reading, found)):
        raise ValueError(f"readings of a trial are {text!r:.60}")
    return tuple(Reading(*reading) for reading in found)


def _is_reading(found: object) -> bool:
    return isinstance(found, list) and len(found) == 3 and all(isinstance(one, str | None) for one in found)


@lru_cache(maxsize=4096)
def notes_of(text: str) -> dict[str, str]:
    notes = orjson.loads(text)
    if not isinstance(notes, dict) or not all(isinstance(one, str) for one in notes.values()):
        raise ValueError(f"notes of a trial are {text!r:.60}")
    return notes


def _figures(values: Sequence[Any]) -> Figures | None:
    whole, rest = values[: len(_WHOLE)], values[len(_WHOLE) :]
    if whole[0] is None:  # no run time: the trial has no figures
        return None
    if None in whole:
        raise ValueError("a trial has only some of its figures")
    found: dict[str, Any] = dict(zip(_WHOLE, whole, strict=True))
    at = 0
    for (side, columns), latencies in zip(_OF_SIDES.items(), rest[len(_DIRECTIONS) :], strict=True):
        figures = rest[at : (at := at + len(columns))]
        found[side] = _direction(_without_data(*figures) if side == FLUSH else figures, latencies)
    return Figures(**found)


def _without_data(iops: float | None, *rest: Any) -> tuple[Any, ...]:
    return (0.0, iops, 0, *rest) if iops is not None else (None,)


def _sync(seconds: float | None, bw: float | None) -> Sync | None:
    if (seconds is None) != (bw is None):
        raise ValueError("a sync has only one of its figures")
    return None if seconds is None or bw is None else Sync(seconds, bw)


def _direction(values: Sequence[Any], latencies: bytes | None) -> Direction | None:
    if values[0] is None:
        return None
    if None in values[:_COUNTED]:
        raise ValueError("a direction has only some of its figures")
    return Direction(*(*values, Histogram(latencies) if latencies else None))
