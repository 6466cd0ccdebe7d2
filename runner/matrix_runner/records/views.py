"""Views of a journal and of a store, for other tools. SQLite, PostgreSQL and DuckDB understand their SQL."""

from collections.abc import Iterable, Iterator

from matrix_runner.records.record import COUNTED, HOST_LIMITED, UNSETTLED, Outcome
from matrix_runner.work.metrics import FLUSH, OF_A_SIDE, OF_SIDE, OF_TRIAL, RATES, SIDES, TOTAL

_SYNTHETIC = "((SELECT value FROM meta WHERE meta.\"key\" = 'synthetic') = 'true') AS synthetic"
_RUN = ("matrix", "machine", "host", "part", "revision", "synthetic")
_OF_RUN = ("runs.id AS run", "runs.name AS run_name", "runs.started AS run_started", *(f"runs.{one}" for one in _RUN))
_OF_CELL = (
    *("cells.id AS cell", "cells.name", "(cells.axes ->> 'layout') AS layout"),
    *("(cells.axes ->> 'workload') AS workload", "cells.axes"),
)
_NOTES = ("kernel", HOST_LIMITED, UNSETTLED)
_SYNC = ("sync_bw", "sync_seconds")
_OF_TRIAL = (
    *("round", "outcome", "reason", "started", "seconds", "attempts", "folder"),
    *(*OF_TRIAL, *_SYNC),
)


def views_of(*, runs: bool) -> dict[str, str]:
    """Return the SQL of each view by its name, in the order in which they are made. With `runs`: of a store."""
    keys = ("run", "cell") if runs else ("cell",)
    joined = "JOIN cells ON cells.id = one.cell"
    joined += " AND cells.run = one.run JOIN runs ON runs.id = one.run" if runs else ""
    described = (*(_OF_RUN if runs else (_SYNTHETIC,)), *_OF_CELL)
    notes = (f"one.{name}" for name in _NOTES)
    return {
        "v_trials": f"{_select(*described, *notes, *_trial())} FROM trials AS one {joined}",
        "v_cells": f"{_select(*described, *_named_figures())} FROM ({_figures(*keys)}) AS one {joined}",
    }


def _select(*columns: str) -> str:
    return f"SELECT {', '.join(columns)}"


def _trial() -> Iterator[str]:
    yield from (f"one.{name}" for name in _OF_TRIAL)
    for rate in RATES:
        sides = [f"one.{side}_{rate}" for side in SIDES]
        total = " + ".join(f"coalesce({side}, 0)" for side in sides)
        yield f"CASE WHEN coalesce({', '.join(sides)}) IS NOT NULL THEN {total} END AS {TOTAL}_{rate}"
    yield from (f"one.{side}_{figure}" for side, figures in OF_SIDE.items() for figure in figures)


def _named_figures() -> Iterable[str]:
    return (f"one.{name}" for name in _summaries())


def _figures(*keys: str) -> str:
    """Summarise the trials of each cell. PostgreSQL cannot group by JSON, so the cells are described outside."""
    summaries = (f"{how} AS {name}" for name, how in _summaries().items())
    return f"{_select(*keys, *summaries)} FROM v_trials GROUP BY {', '.join(keys)}"


def _summaries() -> dict[str, str]:
    found = {"trials": "count(*)"}
    found |= {one.value: _count(f"outcome = '{one.value}'") for one in Outcome}
    found |= {note: _count(f"{note} <> ''") for note in (HOST_LIMITED, UNSETTLED)}
    for name in (f"{side}_{rate}" for side in (TOTAL, *SIDES) for rate in RATES):
        found |= _rate(name)
    for side in SIDES:
        found |= _latencies(side)
    return found | {name: f"avg({_counted(name)})" for name in _SYNC} | _rate(f"{FLUSH}_iops") | _latencies(FLUSH)


def _rate(name: str) -> dict[str, str]:
    one = _counted(name)  # some SQLite have no sqrt(), so there is no standard deviation
    variance = f"(sum({one} * {one}) - count({one}) * avg({one}) * avg({one})) / nullif(count({one}) - 1, 0)"
    return {name: f"avg({one})", f"{name}_var": f"abs({variance})"}


def _latencies(side: str) -> dict[str, str]:
    names = ((f"{side}_{one.name}", one.average) for one in OF_A_SIDE if one.unit == "ns")
    return {name: f"{how}({_counted(name)})" for name, how in names}


def _count(condition: str) -> str:
    return f"count(CASE WHEN {condition} THEN 1 END)"


def _counted(column: str) -> str:
    measured = " OR ".join(f"outcome = '{one}'" for one in COUNTED)
    return f"CASE WHEN ({measured}) AND {UNSETTLED} = '' THEN {column} END"
