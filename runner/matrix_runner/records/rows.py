"""Trials, cells and readings as rows of a journal or a store, or as messages, and back."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter, itemgetter
from sys import intern
from typing import Any

import orjson
import sqlalchemy as sa

from matrix_runner.base.text import shorten
from matrix_runner.records.record import HOST_LIMITED, LONGEST, UNSETTLED, CellRow, Outcome, Reading, Trial, TrialFacts
from matrix_runner.records.tables import (
    DIRECTION,
    IN_JOURNAL,
    LATENCIES,
    OF_SIDES,
    REBUILD,
    WHOLE,
    check_value,
    data_columns,
    sealed,
    types_of,
)
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.work.fio.output import Direction, Figures, Sync
from matrix_runner.work.metrics import ALL_SIDES, FLUSH

_LONGEST_NOTE = 1 << 14  # of a reason or a note, as it is written
_OUTCOMES = frozenset(one.value for one in Outcome)
_PLAIN = ("cell", "round", "reason", "started", "seconds", "attempts", "folder")
_COUNTED = DIRECTION.index("lat_mean")  # the figures of a direction that are always known
TRIAL_COLUMNS, JOB_COLUMNS = map(data_columns, (IN_JOURNAL.trials, IN_JOURNAL.jobs))
READINGS = TRIAL_COLUMNS.index("readings")
_REBUILD_AT, _LATENCIES_END = TRIAL_COLUMNS.index(REBUILD[0]), TRIAL_COLUMNS.index(LATENCIES[-1]) + 1
_values_of = {side: attrgetter(*(name.removeprefix(f"{side}_") for name in names)) for side, names in OF_SIDES.items()}
_FACTS = tuple(one.name for one in fields(TrialFacts))
_FLAGS = ("settled", "saturated", "spread", "steady")
_facts_of, _facts_in = attrgetter(*_FACTS), itemgetter(*map(TRIAL_COLUMNS.index, _FACTS))
_BLANK = dict.fromkeys(TRIAL_COLUMNS)
_LONGEST_NOTES = 1 << 18  # characters of all notes of a message; eight times as many of all readings
_MOST_JOBS = 10_000


def content_of(several: Iterable[Reading]) -> list[list[str | None]]:
    return [[one.setting, one.wanted, one.got] for one in several]


def digest_of(content: str) -> str:
    """Return the digest of readings as JSON."""
    return blake2b(content.encode(), digest_size=8).hexdigest()


@lru_cache(maxsize=1024)
def readings_row(several: tuple[Reading, ...]) -> dict[str, str]:
    text = orjson.dumps(content_of(several)).decode()
    return {"digest": digest_of(text), "content": text}


def row_of(trial: Trial) -> dict[str, Any]:
    """Return the columns of a trial, without its readings."""
    notes = {name: shorten(text, _LONGEST_NOTE) for name, text in trial.notes.items()}
    row = {name: getattr(trial, name) for name in _PLAIN} | {
        "reason": shorten(trial.reason, _LONGEST_NOTE),
        "outcome": trial.outcome.value,
        "notes": notes,
        **{name: notes.get(name, "") for name in (HOST_LIMITED, UNSETTLED)},
        **_facts_row(trial.facts),
    }
    if trial.figures is None:
        return _BLANK | row
    sync = trial.figures.rebuild
    row |= dict(zip(REBUILD, (sync.seconds, sync.bw) if sync else (None, None), strict=True))
    return _BLANK | row | _row_of_figures(trial.figures) | latencies(trial.figures)


def _facts_row(facts: TrialFacts) -> dict[str, Any]:
    values = zip(_FACTS, _facts_of(facts), strict=True)
    return {name: int(value) if isinstance(value, bool) else value for name, value in values}


@lru_cache(maxsize=4096)
def _facts(values: tuple[Any, ...]) -> TrialFacts:
    named = dict(zip(_FACTS, values, strict=True))
    return TrialFacts(**named | {name: bool(named[name]) for name in _FLAGS if named[name] is not None})


def driver_row_of(trial: Trial) -> dict[str, Any]:
    """Return a trial as the driver of SQLite writes it to a journal."""
    row = row_of(trial)
    row |= {"readings": readings_row(trial.readings)["digest"], "notes": orjson.dumps(row["notes"]).decode()}
    return sealed(IN_JOURNAL.trials, row)


def _row_of_figures(figures: Figures) -> dict[str, Any]:
    return {
        **{name: getattr(figures, name) for name in WHOLE},
        **{
            column: value
            for side, columns in OF_SIDES.items()
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


def latencies(figures: Figures | None) -> dict[str, bytes | None]:
    sides = [getattr(figures, side) if figures else None for side in ALL_SIDES]
    kept = (side.latencies.packed if side and side.latencies else None for side in sides)
    return dict(zip(LATENCIES, kept, strict=True))


def checker(table: sa.Table, names: Sequence[str]) -> Callable[[Sequence[Any]], None]:
    """Return a check of rows: it raises ValueError for a value that this program did not write."""
    kinds_of = [(name, types_of(table.c[name])) for name in names]

    def check(row: Sequence[Any]) -> None:
        for (name, kinds), value in zip(kinds_of, row, strict=True):
            if not isinstance(value, kinds):
                raise ValueError(f"{name} in {table.name} is {value!r:.60}")  # noqa: TRY004 - the kind that means damage
            if name == "outcome" and value not in _OUTCOMES:
                raise ValueError(f"the outcome of a trial is {value!r:.60}")
            check_value(table, name, value)

    return check


_check_trial, _check_job = checker(IN_JOURNAL.trials, TRIAL_COLUMNS), checker(IN_JOURNAL.jobs, JOB_COLUMNS)


def trial_of(row: Sequence[Any], known: Mapping[str, tuple[Reading, ...]]) -> Trial:
    """Build a trial from a row and readings by digest. Raise ValueError for a row that this program did not write."""
    _check_trial(row)
    trial = checked_trial(row, known)
    check_histograms(trial.figures)
    return trial


def check_histograms(figures: Figures | None) -> None:
    """Raise ValueError for a histogram that is damaged, or that another program packed."""
    for one in (figures, *figures.jobs.values()) if figures else ():
        for side in one.all_sides.values():
            if side.latencies:
                side.latencies.unpack()


def checked_trial(row: Sequence[Any], known: Mapping[str, tuple[Reading, ...]]) -> Trial:
    """Build a trial from a row whose checksum is right. To unpack histograms takes most of the time: not here."""
    cell, round_number, outcome, reason, started, seconds, attempts, folder, *_, digest, notes = row[:_REBUILD_AT]
    facts = _facts(_facts_in(row))
    seconds_of_sync, bw, *rest = row[_REBUILD_AT:_LATENCIES_END]
    figures, sync = _figures(rest), _sync(seconds_of_sync, bw)
    return Trial(
        *(cell, round_number, Outcome(outcome), reason, started, seconds, attempts),
        *(
            replace(figures, rebuild=sync) if figures and sync else figures,
            _known_readings(known, digest),
            notes_of(notes),
            folder,
            facts,
        ),
    )


def job_of(row: Sequence[Any]) -> tuple[tuple[str, int], str, Figures]:
    """Return the identity of a trial, the name of a job and its figures. Raise ValueError as `trial_of` does."""
    _check_job(row)
    cell, round_number, name, _, *rest = row
    figures = _figures(rest)
    if figures is None:
        raise ValueError(f"job {name!r:.60} of a trial has no run time")
    check_histograms(figures)
    return (cell, round_number), name, figures


def with_jobs(trial: Trial, figures: Mapping[str, Figures]) -> Trial:
    return replace(trial, figures=replace(trial.figures, jobs=figures)) if trial.figures and figures else trial


def cell_of(row: Sequence[Any]) -> CellRow:
    """Build a cell from a row with its axes as JSON."""
    id_, name, text, position = row
    if not (isinstance(id_, str) and isinstance(name, str) and isinstance(position, int | None)):
        raise ValueError(f"a cell is {row!r:.60}")  # noqa: TRY004 - the kind that means damage
    try:  # values repeat in many cells, so each is kept once; anything but text raises TypeError
        axes = orjson.loads(text)
        kept = dict(zip(axes, map(intern, axes.values()), strict=True))
    except (AttributeError, TypeError):
        raise ValueError(f"the axes of cell {name!r:.60} are {text!r:.60}") from None
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
    whole, rest = values[: len(WHOLE)], values[len(WHOLE) :]
    if whole[0] is None:  # no run time: the trial has no figures
        return None
    if None in whole:
        raise ValueError("a trial has only some of its figures")
    found: dict[str, Any] = dict(zip(WHOLE, whole, strict=True))
    at = 0
    for (side, columns), latencies in zip(OF_SIDES.items(), rest[-len(LATENCIES) :], strict=True):
        figures = rest[at : (at := at + len(columns))]
        if side == FLUSH:  # a flush has no data
            iops, *times = figures
            figures = (0.0, iops, 0, *times) if iops is not None else (None,)
        found[side] = _direction(figures, latencies)
    return Figures(**found)


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


def encode_trial(trial: Trial) -> dict[str, Any]:
    """Return a trial as JSON, for a message from the process that measured it."""
    row = driver_row_of(trial)
    jobs = [[_as_text(job[name]) for name in JOB_COLUMNS] for job in job_rows_of(trial)]
    content = readings_row(trial.readings)["content"]
    return {name: _as_text(row[name]) for name in TRIAL_COLUMNS} | {"content": content, "jobs": jobs}


def decode_trial(message: dict[str, Any]) -> Trial:
    """Raise ValueError or KeyError for a message that `encode_trial` did not write."""
    if max(len(message["notes"]), len(message["content"]) >> 3) > _LONGEST_NOTES or len(message["jobs"]) > _MOST_JOBS:
        raise ValueError("a trial has too many notes, readings or jobs")
    known = dict([readings_of((message["readings"], message["content"]))])
    trial = trial_of(_from_text(TRIAL_COLUMNS, [message[name] for name in TRIAL_COLUMNS]), known)
    jobs = (job_of(_from_text(JOB_COLUMNS, values)) for values in message["jobs"])
    return with_jobs(trial, {name: figures for _, name, figures in jobs})


def _as_text(value: object) -> object:
    return b64encode(value).decode() if isinstance(value, bytes) else value


def _from_text(columns: tuple[str, ...], values: list[Any]) -> list[Any]:
    pairs = zip(columns, values, strict=True)
    return [b64decode(value) if name in LATENCIES and value is not None else value for name, value in pairs]
