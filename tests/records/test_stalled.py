"""A trial with one request that takes a large part of its time: it is marked, and the figures leave it out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from matrix_runner.answers.cell_figures import summarize_cell
from matrix_runner.answers.stored_samples import Samples, read_samples
from matrix_runner.pages.concerns import ConcernCounter
from matrix_runner.pages.results import display_table, display_trials
from matrix_runner.pages.terminal import outcome
from matrix_runner.records.address import IN_MEMORY
from matrix_runner.records.journal import Journal
from matrix_runner.records.record import Trial, counted_trials
from matrix_runner.records.store import SharedStore
from matrix_runner.statistics.stopping import Rule
from tests.records import past

if TYPE_CHECKING:
    from pathlib import Path

RATES = (1e8, 5e7, 1e8, 1.01e8)


def trial(number: int, rate: float, longest: float, mean: float = 5e6) -> Trial:
    """Return a trial of 60 s; times in ns."""
    one = past.measured("c1", number, rate)
    assert one.figures
    assert one.figures.read
    read = replace(one.figures.read, lat_max=longest, lat_mean=mean)
    return replace(one, figures=replace(one.figures, read=read, runtime=60.0))


def trials(*stalled: int) -> list[Trial]:
    return [trial(at, rate, 17e9 if at in stalled else 3e7) for at, rate in enumerate(RATES, start=1)]


def stored(tmp_path: Path, several: list[Trial]) -> Samples:
    folder = past.recorded(tmp_path, several)
    with SharedStore.open(IN_MEMORY) as store, Journal.existing(folder.journal) as journal:
        store.catch_up(folder, journal)
        return next(one for one in read_samples(store, store.runs(), ("read_bw",)) if one.cell.id == "c1")


@pytest.mark.parametrize(
    ("longest", "mean", "stalled"),
    [(6.1e9, 5e6, True), (5.9e9, 5e6, False), (6.1e9, 6.2e8, False), (6.1e9, 6e8, True)],
)
def test_what_a_stall_is(longest: float, mean: float, stalled: bool, tmp_path: Path) -> None:
    """More than a tenth of the time, and more than ten times the mean: in memory and in the store alike."""
    one = trial(1, 1e8, longest, mean)
    assert one.figures
    assert one.figures.is_stalled == stalled
    assert one.figures.in_real_units(4).is_stalled == stalled
    assert stored(tmp_path, [one]).stalled == stalled


def test_the_figures_leave_out_a_stalled_trial(tmp_path: Path) -> None:
    several = trials(2)
    assert [one.round for one, _ in counted_trials(several)] == [1, 3, 4]
    found = stored(tmp_path, several)
    assert list(found.rounds("read_bw")) == [1, 3, 4]
    summary = summarize_cell(past.READ, several, Rule(4, 4))
    assert summary.figures["read_bw"].mean == pytest.approx(1.0033e8, rel=1e-3)
    assert outcome(summary) == "measured (!) 1 stalled"
    assert display_table([found], ("read_bw",), most=9).rows[0][-1] == "measured (!) 1 stalled"
    assert [row[-1] for row in display_trials([found], ("read_bw",), most=9).rows][1] == "measured (!) stalled"
    counter = ConcernCounter()
    counter.add("c1", several)
    (concern,) = counter.concerns()
    assert (concern.title, concern.found[0].trials) == ("Stalled", "1 of 4")
    assert concern.found[0].why == "the longest request took 17.0 s"


def test_a_disk_that_stalls_in_half_of_its_trials_keeps_them(tmp_path: Path) -> None:
    several = trials(2, 3)
    assert len(counted_trials(several)) == 4
    found = stored(tmp_path, several)
    assert (len(found.rounds("read_bw")), found.stalled) == (4, 2)


def test_two_runs_that_differ_by_one_stop_are_alike(tmp_path: Path) -> None:
    without = stored(tmp_path / "a", [trial(at, 1e8, 3e7) for at in (1, 2, 3)])
    stopped = stored(tmp_path / "b", [trial(1, 1e8, 3e7), trial(2, 5e7, 17e9), trial(3, 1e8, 3e7)])
    means = [one.estimate("read_bw") for one in (without, stopped)]
    assert [one.mean for one in means if one] == pytest.approx([1e8, 1e8])
