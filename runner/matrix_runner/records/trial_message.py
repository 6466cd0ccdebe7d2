"""A trial as JSON, for a message from the process that measured it. The columns and their checks are the journal's."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from matrix_runner.records.rows import (
    JOB_COLUMNS,
    TRIAL_COLUMNS,
    driver_row_of,
    job_of,
    job_rows_of,
    readings_of,
    readings_row,
    trial_of,
    with_jobs,
)
from matrix_runner.records.tables import LATENCIES

if TYPE_CHECKING:
    from matrix_runner.records.record import Trial


_LONGEST = 1 << 18  # characters of all notes; eight times as many of all readings
_MOST_JOBS = 10_000


def encode_trial(trial: Trial) -> dict[str, Any]:
    row = driver_row_of(trial)
    jobs = [[_plain(job[name]) for name in JOB_COLUMNS] for job in job_rows_of(trial)]
    content = readings_row(trial.readings)["content"]
    return {name: _plain(row[name]) for name in TRIAL_COLUMNS} | {"content": content, "jobs": jobs}


def decode_trial(message: dict[str, Any]) -> Trial:
    """Raise ValueError or KeyError for a message that `encode_trial` did not write."""
    if max(len(message["notes"]), len(message["content"]) >> 3) > _LONGEST or len(message["jobs"]) > _MOST_JOBS:
        raise ValueError("a trial has too many notes, readings or jobs")
    known = dict([readings_of((message["readings"], message["content"]))])
    trial = trial_of(_row(TRIAL_COLUMNS, [message[name] for name in TRIAL_COLUMNS]), known)
    jobs = (job_of(_row(JOB_COLUMNS, values)) for values in message["jobs"])
    return with_jobs(trial, {name: figures for _, name, figures in jobs})


def _plain(value: object) -> object:
    return b64encode(value).decode() if isinstance(value, bytes) else value


def _row(columns: tuple[str, ...], values: list[Any]) -> list[Any]:
    pairs = zip(columns, values, strict=True)
    return [b64decode(value) if name in LATENCIES and value is not None else value for name, value in pairs]
