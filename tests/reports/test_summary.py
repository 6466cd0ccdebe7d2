from __future__ import annotations

import pytest
from hypothesis import given, settings

from runner.reports.recorded import Recorded
from runner.reports.summary import METRICS
from runner.stats.interval import student
from runner.store.record import Outcome, Trial
from tests.reports import samples
from tests.reports.samples import RUN, SEQ, direction, measured


def test_every_cell_is_there_in_its_order() -> None:
    assert [summary.cell for summary in RUN.summaries] == list(RUN.cells)


def test_a_mean_comes_with_its_interval() -> None:
    bandwidth = RUN.summaries[0].figures["read_bw"]
    assert (bandwidth.mean, bandwidth.n) == (210e6, 2)
    assert bandwidth.interval == student([200e6, 220e6])
    assert bandwidth.relative == pytest.approx(0.605, abs=1e-3)


def test_a_single_trial_has_a_mean_and_no_interval() -> None:
    bandwidth = RUN.summaries[1].figures["write_bw"]
    assert (bandwidth.mean, bandwidth.n, bandwidth.interval, bandwidth.relative) == (3.8e5, 1, None, None)


def test_what_became_of_the_trials_is_counted() -> None:
    seq, rand, untried = RUN.summaries
    assert rand.counts == {Outcome.MEASURED: 1, Outcome.BROKEN: 1, Outcome.SKIPPED: 1}
    assert rand.reasons == ("the guest panicked", "quarantined: the guest panicked")
    assert (seq.outcome, rand.outcome, untried.outcome) == (Outcome.MEASURED, Outcome.BROKEN, None)


def test_directions_without_io_and_latencies_not_measured_are_left_out() -> None:
    run = Recorded("m", "qemu", False, [SEQ], [measured("c1", 1, direction(1e6, 4096, p99=None))])
    assert set(run.summaries[0].figures) == {"read_bw", "read_iops", "read_lat_mean"}


def test_figures_of_a_broken_trial_are_not_averaged_in() -> None:
    """It may have figures: a setting that did not stick is found out after fio ran."""
    good, other = measured("c1", 1, direction(100e6, 1 << 20)), measured("c1", 2, direction(1e6, 1 << 20))
    broken = Trial("c1", 2, Outcome.BROKEN, "chunk did not stick", figures=other.figures)
    run = Recorded("m", "qemu", False, [SEQ], [good, broken])
    assert run.summaries[0].figures["read_bw"].mean == 100e6


@settings(max_examples=50, deadline=None)
@given(samples.runs())
def test_any_run_can_be_summarised(run: Recorded) -> None:
    summaries = run.summaries
    assert sum(sum(summary.counts.values()) for summary in summaries) == len(run.trials)
    for summary in summaries:
        assert set(summary.figures) <= set(METRICS)
        for estimate in summary.figures.values():
            assert 1 <= estimate.n <= summary.counts[Outcome.MEASURED]
            assert (estimate.interval is None) == (estimate.n == 1)
