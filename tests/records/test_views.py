"""The views for other tools: they show the same trials and means in the journal, SQLite and PostgreSQL."""

from __future__ import annotations

import dataclasses
import sqlite3
from contextlib import closing
from functools import partial
from statistics import variance
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from matrix_runner.records.address import Address, address_of
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.records.store import SharedStore
from matrix_runner.records.store_sync import bring_up_to_date
from tests.records import past
from tests.support.facts import noted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def with_longest(trial: Trial, latency: float) -> Trial:
    figures = trial.figures
    assert figures
    assert figures.read
    return dataclasses.replace(
        trial, figures=dataclasses.replace(figures, read=dataclasses.replace(figures.read, lat_max=latency))
    )


TRIALS = (
    past.measured("c1", 1, 2e8),
    with_longest(past.measured("c1", 2, 2.2e8), 3e7),
    dataclasses.replace(past.measured("c1", 3, 9e9), **noted({"kernel": "6.1.0", "unsettled": "10 % in 5 s"})),
    dataclasses.replace(past.measured("c2", 1, 4e5, 3e5), **noted({"kernel": "6.1.0", "host_limited": "9 %"})),
    Trial("c2", 2, Outcome.BROKEN, "lost"),
)
Rows = list[dict[str, Any]]


def of_journal(path: Path, query: str) -> Rows:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def of_store(address: Address, query: str) -> Rows:
    with SharedStore.existing(address) as store, store._transaction() as connection:
        return [dict(row) for row in connection.execute(sa.text(query)).mappings()]


@pytest.fixture(params=["journal", "sqlite", "postgresql"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Rows]:
    """Return a query of the same trials in each kind of database."""
    folder = past.recorded(tmp_path / "results", TRIALS)
    if request.param == "journal":
        with Journal.open(folder.journal, synthetic=False):
            return partial(of_journal, folder.journal)
    address = Address(file=tmp_path / "store.db")
    if request.param == "postgresql":
        address = address_of(request.getfixturevalue("postgresql").database(tmp_path.name), tmp_path)
    with SharedStore.open(address) as store:
        assert bring_up_to_date(store, tmp_path / "results") == []
    return partial(of_store, address)


def test_v_trials_has_a_row_for_each_trial(rows: Callable[[str], Rows]) -> None:
    found = rows("select * from v_trials order by cell, round")
    assert [(one["layout"], one["workload"], one["round"], one["outcome"]) for one in found] == [
        *(("raid5", "seq", at, "measured") for at in (1, 2, 3)),
        *(("raid5", "oltp", at, outcome) for at, outcome in ((1, "measured"), (2, "broken"))),
    ]
    assert [one["total_bw"] for one in found] == [2e8, 2.2e8, 9e9, 7e5, None]
    assert [one["unsettled"] for one in found] == ["", "", "10 % in 5 s", "", ""]
    assert {one["kernel"] for one in found} == {"6.1.0", ""}
    assert not any(one["synthetic"] for one in found)
    assert found[0]["read_lat_p99"] == 9e6


def test_v_cells_has_the_means_of_measured_trials_that_were_steady(rows: Callable[[str], Rows]) -> None:
    first, second = rows("select * from v_cells order by cell")
    assert (first["trials"], first["measured"], first["unsettled"]) == (3, 3, 1)
    assert (first["read_bw"], first["write_bw"], first["read_lat_max"]) == (2.1e8, None, 3e7)
    assert first["read_bw_var"] == pytest.approx(variance([2e8, 2.2e8]))
    assert (second["broken"], second["host_limited"]) == (1, 1)
    assert (second["total_bw"], second["total_bw_var"]) == (7e5, None)


def test_the_store_names_run_machine_and_host(address: Address, tmp_path: Path) -> None:
    for number in (1, 2):
        past.recorded(tmp_path, TRIALS, number)
    with SharedStore.open(address) as store:
        bring_up_to_date(store, tmp_path)
    for view, count in (("v_trials", 5), ("v_cells", 2)):
        columns = "run, run_name, matrix, machine, host"
        found = of_store(address, f"select {columns}, count(*) as found from {view} group by {columns} order by run")  # noqa: S608
        assert [tuple(one.values()) for one in found] == [
            (f"run{at}", f"run-{at}", "sweep", "qemu", "lab1", count) for at in (1, 2)
        ]
