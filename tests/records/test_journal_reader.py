"""What is read of a journal: the times of earlier trials."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.records.journal import Journal
from matrix_runner.records.journal_reader import MeanTimes
from matrix_runner.records.record import CellRow, Outcome, Trial
from matrix_runner.work.fio.output import Direction, Figures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


CELL = CellRow("c1", "striped/chunk=64KiB/seqread/bs=1MiB", {"md.chunk": "64KiB", "workload.bs": "1MiB"})


READ = Direction(2e8, 190.5, 200_000_000, 190, 5e6, 4e6, 8e6, 8.5e6, 9e6, 9.5e6, 9.9e6, 1e7)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.sqlite") as opened:
        opened.add_cells([CELL])
        yield opened


def measured(round_number: int = 0, *, cell: str = "c1", runtime: float = 1.0, seconds: float = 1.5) -> Trial:
    figures = Figures(read=READ, write=None, runtime=runtime, cpu_usr=1.0, cpu_sys=2.0, errors=0)
    return Trial(cell, round_number, Outcome.MEASURED, seconds=seconds, figures=figures)


def test_an_empty_journal_does_not_know_what_anything_takes(journal: Journal) -> None:
    assert journal.mean_times() == MeanTimes(None, None, None)


def test_past_times_are_means_of_measured_ones(journal: Journal) -> None:
    journal.record_set_up(0, "raid10", 40.0)  # it also started the machine
    journal.record_set_up(0, "raid5", 2.0)
    journal.record_set_up(1, "raid5", 4.0)
    journal.record_set_up(0, "raid0", 1.5)
    journal.record(measured(0, runtime=1.0, seconds=1.5))
    journal.record(measured(1, runtime=1.0, seconds=2.5))
    journal.record(Trial("c1", 2, Outcome.BROKEN, seconds=300.0))
    assert journal.mean_times() == MeanTimes(
        2.5, 1.0, None, (0.0,), cells={"c1": 2.0}, stacks={"raid5": 2.0, "raid0": 1.5}
    )


def test_a_single_set_up_is_all_that_is_known(journal: Journal) -> None:
    journal.record_set_up(0, "raid10", 40.0)
    assert (journal.mean_times().setup, journal.mean_times().stacks) == (40.0, {"raid10": 40.0})


def test_scatter_comes_from_cells_with_several_trials(journal: Journal) -> None:
    assert journal.mean_times().scatter == ()
    for round_number, bw in enumerate((90e6, 100e6, 110e6)):
        trial = measured(round_number)
        assert trial.figures
        assert trial.figures.read
        read = replace(trial.figures.read, bw=bw)
        journal.record(replace(trial, figures=replace(trial.figures, read=read, write=None)))
    (scatter,) = journal.mean_times().scatter
    assert scatter == pytest.approx(0.1)
