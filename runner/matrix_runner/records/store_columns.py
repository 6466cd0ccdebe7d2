"""Columns of figures in the shared store: those of a trial, sums of directions, notes, its work, figures of a job."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from matrix_runner.records.tables import IN_STORE
from matrix_runner.work.metrics import LEAST_LARGE, SIDES, SYNC, TOTAL, split_column

if TYPE_CHECKING:
    from collections.abc import Iterable

_KEY = ("run", "cell", "round")
#: A column that is computed: the directions in which a trial has figures, and those with large requests, as bits.
WORK = "work"


def work_bit(side: str, *, large: bool = False) -> int:
    return 1 << (*SIDES, SYNC).index(side) << 4 * large


def _work() -> sa.ColumnElement[int]:
    table = IN_STORE.trials.c
    bits: sa.ColumnElement[int] = sa.case((table[f"{SYNC}_bw"].is_(None), 0), else_=work_bit(SYNC))
    for side in SIDES:
        bw, iops = table[f"{side}_bw"], table[f"{side}_iops"]
        small, large = work_bit(side), work_bit(side) | work_bit(side, large=True)
        bits += sa.case((bw.is_(None), 0), (bw >= LEAST_LARGE * iops, large), else_=small)
    return bits


def _sum(columns: Iterable[sa.ColumnElement[Any]]) -> sa.ColumnElement[Any]:
    """Return the sum of those that are known, or null."""
    several = list(columns)
    total = reduce(add, (sa.func.coalesce(one, 0.0) for one in several))
    return sa.case((sa.func.coalesce(*several).is_(None), sa.null()), else_=total)


def column_of(name: str) -> sa.ColumnElement[Any]:
    job, own = split_column(name)
    if name == WORK:
        return _work()
    if not job:
        return _figure(IN_STORE.trials, own)
    of, trial = IN_STORE.jobs.alias(), IN_STORE.trials.c
    same = (of.c[key] == trial[key] for key in _KEY)
    return sa.select(_figure(of, own)).where(*same, of.c.job == job).correlate(IN_STORE.trials).scalar_subquery()


def _figure(of: sa.FromClause, name: str) -> sa.ColumnElement[Any]:
    table = of.c
    if name in table:
        column: sa.ColumnElement[Any] = table[name]
        return column
    side, _, rate = name.partition("_")
    if side != TOTAL:
        raise KeyError(name)
    return _sum(table[f"{one}_{rate}"] for one in SIDES)
