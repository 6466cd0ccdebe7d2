"""Checks of rows of the shared store: other programs may write into a database."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from matrix_runner.records import store_tables as tables
from matrix_runner.records.journal_tables import are_usual, types_of, usual_column
from matrix_runner.records.record import HOST, SPREAD, check_rule
from matrix_runner.statistics.percentile import Histogram

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXT, _NUMBER = (str, type(None)), (float, int, type(None))


@lru_cache
def _kinds_of(name: str) -> frozenset[type] | None:
    if name in {HOST, SPREAD}:
        return frozenset(_TEXT)
    column = tables.trials.c.get(name)
    if column is None:  # a sum, a note, or a figure of a job
        return frozenset(_NUMBER)
    return None if isinstance(column.type, sa.JSON) else frozenset(types_of(column))


def check_trials(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Raise ValueError for a value that matrix does not write."""
    for name, values in zip(names, zip(*rows, strict=True), strict=True) if rows else ():
        kinds = _kinds_of(name)
        if kinds and not usual_column(name, kinds, values):
            raise ValueError(f"{name} of a trial has a value that matrix does not write")


def check_latencies(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    for row in rows:
        for packed in row[-len(names) :]:
            if packed is not None:
                Histogram(packed).unpack()


def check_run(names: Sequence[str], row: Sequence[Any]) -> None:
    values = dict(zip(names, row, strict=True))
    for name, value in values.items():
        column = tables.runs.c.get(name)
        kinds = None if column is None or isinstance(column.type, sa.JSON | sa.Boolean) else types_of(column)
        if kinds and not are_usual(frozenset(kinds), [value]):
            raise ValueError(f"{name} of a run is {value!r:.60}")
    check_rule(*(values[name] for name in ("confidence", "until", "least", "most")))
    environment = values["environment"]
    if not isinstance(environment, dict) or not {*map(type, environment.values())} <= {str}:
        raise ValueError(f"environment of a run is {environment!r:.60}")
