"""Trials to rows and back; the only place that knows both shapes."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from runner.fio.result import Direction, Figures
from runner.store.record import Outcome, Reading, Trial
from runner.store.schema import DIRECTION

if TYPE_CHECKING:
    from collections.abc import Sequence

_direction_values = attrgetter(*DIRECTION)
_READ = [f"read_{name}" for name in DIRECTION]
_WRITE = [f"write_{name}" for name in DIRECTION]
_NOTHING = (None,) * len(DIRECTION)

#: The columns that `trial_of` reads, in its order.
COLUMNS: tuple[str, ...] = (
    *("cell", "block", "outcome", "reason", "started", "seconds", "attempts", "folder", "readings", "notes"),
    *("runtime", "cpu_usr", "cpu_sys", "errors"),
    *_READ,
    *_WRITE,
)
_READ_AT = COLUMNS.index("read_bw")
_WRITE_AT = COLUMNS.index("write_bw")


def row_of(trial: Trial) -> dict[str, Any]:
    """What is stored of a trial."""
    row = {
        "cell": trial.cell,
        "block": trial.block,
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


def trial_of(row: Sequence[Any]) -> Trial:
    """The trial a row of COLUMNS stands for."""
    cell, block, outcome, reason, started, seconds, attempts, folder, readings, notes = row[:10]
    return Trial(
        cell=cell,
        block=block,
        outcome=Outcome(outcome),
        reason=reason,
        started=started,
        seconds=seconds,
        attempts=attempts,
        figures=_figures(row),
        readings=tuple(Reading(*reading) for reading in readings),
        notes=notes,
        folder=folder,
    )


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
    return Figures(
        read=None if row[_READ_AT] is None else Direction(*row[_READ_AT:_WRITE_AT]),
        write=None if row[_WRITE_AT] is None else Direction(*row[_WRITE_AT:]),
        runtime=runtime,
        cpu_usr=cpu_usr,
        cpu_sys=cpu_sys,
        errors=errors,
    )
