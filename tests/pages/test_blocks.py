"""Trials of a cluster in the store: comparisons and guidelines pair them by round and host, as a report does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from matrix_runner.answers.cell_figures import measured_cell
from matrix_runner.answers.stored_samples import Samples, read_samples
from matrix_runner.records.address import address_of
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import HOST, SPREAD
from matrix_runner.records.store import SharedStore
from matrix_runner.statistics.ratios import paired_ratio
from matrix_runner.statistics.stopping import Rule
from tests.records import past
from tests.support.facts import noted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matrix_runner.records.record import Trial

METRIC = "read_bw"


def trials(hosts: dict[str, Sequence[str]], **notes: str) -> list[Trial]:
    """Return a trial of each cell in each round, on these hosts."""
    return [
        replace(past.measured(cell, number, 1e8 + number), **noted({HOST: host, **notes}))
        for cell, several in hosts.items()
        for number, host in enumerate(several, start=1)
    ]


def stored(tmp_path: Path, found: Sequence[Trial]) -> list[Samples]:
    folder, address = past.recorded(tmp_path, found), address_of(str(tmp_path / "store.db"), tmp_path)
    with SharedStore.open(address) as store, Journal.existing(folder.journal) as journal:
        store.catch_up(folder, journal)
        return read_samples(store, store.runs(), [METRIC])


def test_trials_pair_by_round_and_host_as_in_the_report_of_their_run(tmp_path: Path) -> None:
    recorded = trials({"c1": ("one", "two", "one"), "c2": ("one", "one", "one")})
    first, second = stored(tmp_path, recorded)
    assert len(first.rounds(METRIC).keys() & second.rounds(METRIC).keys()) == 2
    for cell, one in ((past.READ, first), (past.MIXED, second)):
        own = [trial for trial in recorded if trial.cell == cell.id]
        assert one.rounds(METRIC) == measured_cell("", cell, own, Rule(1, 3), [METRIC]).columns[METRIC]


def test_cells_that_never_met_on_a_host_are_not_compared(tmp_path: Path) -> None:
    first, second = stored(tmp_path, trials({"c1": ("one", "one"), "c2": ("two", "two")}))
    assert paired_ratio(first.rounds(METRIC), second.rounds(METRIC), 0.95) is None


def test_figures_that_do_not_depend_on_the_host_pair_by_round(tmp_path: Path) -> None:
    first, second = stored(tmp_path, trials({"c1": ("one", "one"), "c2": ("two", "two")}, **{SPREAD: "yes"}))
    assert [*first.rounds(METRIC)] == [*second.rounds(METRIC)] == [1, 2]
