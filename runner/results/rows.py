"""Conversion between trials and rows."""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy as sa

from runner.results import journal_tables as schema
from runner.results.fio_json import Direction, Figures
from runner.results.record import Outcome, Reading, Trial
from runner.statistics.percentile import Histogram

if TYPE_CHECKING:
    from collections.abc import Sequence

_direction_values = attrgetter(*schema.DIRECTION)
_READ = [f"read_{name}" for name in schema.DIRECTION]
_WRITE = [f"write_{name}" for name in schema.DIRECTION]
#: Histograms are large. Readers of many trials keep them in a separate table.
LATENCIES = ("read_latencies", "write_latencies")
_NOTHING = (None,) * len(schema.DIRECTION)

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
    sa.cast(schema.trials.c[name], sa.Text) if name in _AS_TEXT else schema.trials.c[name] for name in _NAMES
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
    """Return the histograms of a trial as stored."""
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
    count = len(schema.DIRECTION)
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
