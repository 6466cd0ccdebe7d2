from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from matrix_runner.answers.cell_figures import METRICS
from matrix_runner.base.text import without_formula
from matrix_runner.pages.csv_files import summary_csv, trials_csv
from matrix_runner.pages.junit import junit
from matrix_runner.pages.run_data import RunData
from matrix_runner.records.record import UNSETTLED, Outcome, Trial
from matrix_runner.statistics.percentile import Histogram
from matrix_runner.statistics.ratios import student_interval
from matrix_runner.statistics.stopping import StopReason
from tests.pages import samples
from tests.pages.samples import RUN, SEQ, direction, measured
from tests.support.facts import noted


def test_every_cell_is_there_in_its_order() -> None:
    assert [summary.cell for summary in RUN.summaries] == list(RUN.cells)


def test_a_mean_comes_with_its_interval() -> None:
    bandwidth = RUN.summaries[0].figures["read_bw"]
    assert (bandwidth.mean, bandwidth.n) == (210e6, 2)
    assert bandwidth.interval == student_interval([200e6, 220e6])
    assert bandwidth.relative == pytest.approx(0.605, abs=1e-3)


def test_a_cell_that_stopped_early_has_the_wanted_interval() -> None:
    trials = [measured("c1", round_number, direction(200e6 + round_number, 1 << 20)) for round_number in (3, 1, 4, 2)]
    run = RunData("m", "qemu", False, [SEQ], trials, until=0.05, least=3, most=9)
    (seq,) = run.summaries
    assert (seq.stopped, seq.reaches(0.05)) == (StopReason.PRECISE, True)
    assert {name: estimate.relative for name, estimate in seq.figures.items()} == dict.fromkeys(
        (
            *("total_bw", "total_iops"),
            *(f"read_{name}" for name in ("bw", "iops", "lat_mean", "lat_p50", "lat_p90", "lat_p95", "lat_p99")),
        ),
        pytest.approx(0.05),
    )


@pytest.mark.parametrize(
    ("rates", "how"), [((200, 200, 200, 230), StopReason.PRECISE), ((230, 200, 200, 200), StopReason.UNFINISHED)]
)
def test_the_stop_reason_depends_on_the_order_of_rounds(rates: tuple[int, ...], how: StopReason) -> None:
    trials = [
        measured("c1", round_number, direction(rate * 1e6, 1 << 20)) for round_number, rate in enumerate(rates, 1)
    ]
    run = RunData("m", "qemu", False, [SEQ], trials[::-1], until=0.2, least=2, most=9)
    assert run.summaries[0].stopped is how


@pytest.mark.parametrize(("most", "how"), [(3, StopReason.MAX), (9, StopReason.BUDGET)])
def test_the_wanted_interval_may_be_reached_before_the_rule_stops(most: int, how: StopReason) -> None:
    trials = [
        measured("c1", round_number, direction(rate * 1e6, 1 << 20))
        for round_number, rate in enumerate((100, 101.5, 103))
    ]
    (found,) = RunData("m", "qemu", False, [SEQ], trials, until=0.05, least=3, most=most, over=True).summaries
    assert (found.stopped, found.reaches(0.05)) == (how, True)


def test_a_cell_with_trials_for_guidelines_is_marked() -> None:
    trials = [measured("c1", round_number, direction(200e6 + round_number, 1 << 20)) for round_number in range(5)]
    run = RunData("m", "qemu", False, [SEQ], trials, least=3, most=3, over=True, steered=True)
    (row,) = csv.DictReader(summary_csv(run))
    assert (row["stopped"], row["reached"]) == ("decided", "")
    assert run.summaries[0].figures["read_bw"].interval == student_interval(
        [200e6 + round_number for round_number in range(5)]
    )


def test_a_single_trial_has_a_mean_and_no_interval() -> None:
    bandwidth = RUN.summaries[1].figures["write_bw"]
    assert (bandwidth.mean, bandwidth.n, bandwidth.interval, bandwidth.relative) == (3.8e5, 1, None, None)


def test_outcomes_of_trials_are_counted() -> None:
    seq, rand, untried = RUN.summaries
    assert rand.counts == {Outcome.MEASURED: 1, Outcome.BROKEN: 1, Outcome.SKIPPED: 1}
    assert rand.reasons == ("the guest panicked", "quarantined: the guest panicked")
    assert (seq.outcome, rand.outcome, untried.outcome) == (Outcome.MEASURED, Outcome.BROKEN, None)


def test_mixed_work_is_known_by_its_total() -> None:
    run = RunData("m", "qemu", False, [samples.RAND], samples.mixed(), until=0.05, least=3, most=9)
    (found,) = run.summaries
    assert (found.headline, found.stopped, found.reaches(0.05)) == ("total_iops", StopReason.PRECISE, True)
    assert found.figures["total_bw"].mean == pytest.approx(10.01e6)
    for side in ("read", "write"):
        relative = found.figures[f"{side}_bw"].relative
        assert relative is not None
        assert relative > 0.2, "the split is as uncertain as before, and shown so"
    (row,) = csv.DictReader(summary_csv(run))
    assert (row["reached"], row["stopped"]) == ("true", "precise")
    assert float(row["total_bw"]) == pytest.approx(float(row["read_bw"]) + float(row["write_bw"]))
    (suite,) = etree.fromstring(junit(run))
    told = {one.get("name"): one.get("value") for one in suite.iterfind("properties/property")}
    assert told["until_reached"] == "true"
    assert float(told["total_iops"] or 0) == pytest.approx(10.01e6 / 4096)


def test_a_total_that_is_not_known_well_enough_is_not_reached() -> None:
    trials = [
        measured("c2", round_number, direction(rate, 4096), direction(rate, 4096))
        for round_number, rate in enumerate((1e6, 2e6, 3e6), start=1)
    ]
    run = RunData("m", "qemu", False, [samples.RAND], trials, until=0.05, least=3, most=3)
    assert run.summaries[0].reaches(0.05) is False


def test_directions_without_io_and_latencies_not_measured_are_left_out() -> None:
    run = RunData("m", "qemu", False, [SEQ], [measured("c1", 1, direction(1e6, 4096, p99=None, latencies=None))])
    told = {"bw", "iops", "lat_mean", "lat_p50", "lat_p90", "lat_p95", "lat_p999", "lat_p9999"}
    assert set(run.summaries[0].figures) == {f"read_{name}" for name in told} | {"total_bw", "total_iops"}


def test_figures_of_a_broken_trial_are_not_averaged_in() -> None:
    """It may have figures: a setting that did not stick is found out after fio ran."""
    good, other = measured("c1", 1, direction(100e6, 1 << 20)), measured("c1", 2, direction(1e6, 1 << 20))
    broken = Trial("c1", 2, Outcome.BROKEN, "chunk did not stick", figures=other.figures)
    run = RunData("m", "qemu", False, [SEQ], [good, broken])
    assert run.summaries[0].figures["read_bw"].mean == 100e6


def test_trials_that_never_settled_are_counted_and_not_averaged_in() -> None:
    trials = [
        measured("c1", round_number, direction(rate, 1 << 20)) for round_number, rate in enumerate((2e8, 2.2e8, 9e8))
    ]
    run = RunData("m", "qemu", False, [SEQ], [*trials[:2], unsettled(trials[2])])
    (found,) = run.summaries
    assert (found.figures["read_bw"].mean, found.figures["read_bw"].n) == (210e6, 2)
    assert (found.unsettled, found.counts[Outcome.MEASURED]) == (1, 3)
    (row,) = csv.DictReader(summary_csv(run))
    assert (row["measured"], row["unsettled"], row["read_bw"]) == ("3", "1", "210000000.0")
    assert [one["unsettled"] for one in csv.DictReader(trials_csv(run))] == ["", "", "iops:1% missed"]
    (suite,) = etree.fromstring(junit(run))
    told = {one.get("name"): one.get("value") for one in suite.iterfind("properties/property")}
    assert told["unsettled"] == "1"
    assert "[[PROPERTY|unsettled=iops:1% missed]]" in str(suite[-1].findtext("system-out"))


def test_a_cell_without_settled_trials_has_no_figures() -> None:
    trials = [unsettled(measured("c1", round_number, direction(2e8, 1 << 20))) for round_number in range(4)]
    run = RunData("m", "qemu", False, [SEQ], trials, until=0.05)
    (found,) = run.summaries
    assert (found.figures, found.unsettled, found.least_ios, found.reaches(0.05)) == ({}, 4, None, None)
    assert found.stopped is StopReason.MAX, "four that agree would have been enough"
    assert run.drift is None


def test_percentiles_are_those_of_all_requests_together() -> None:
    fast, slow = Histogram.of({1_000_000: 9_000, 2_000_000: 1}), Histogram.of({50_000_000: 1_000})
    trials = [
        measured("c1", 1, direction(2e8, 4096, latencies=fast)),
        measured("c1", 2, direction(1e8, 4096, latencies=slow)),
    ]
    figures = RunData("m", "qemu", False, [SEQ], trials).summaries[0].figures
    told = {name: figures[name].mean for name in ("read_lat_p50", "read_lat_p90", "read_lat_p95", "read_lat_p999")}
    assert told == {"read_lat_p50": 1e6, "read_lat_p90": 2e6, "read_lat_p95": 5e7, "read_lat_p999": 5e7}
    assert "read_lat_p9999" not in figures, "10,001 requests say nothing of one in ten thousand"


@pytest.mark.parametrize(("count", "told"), [(1, {"read_lat_p99": 9e6}), (2, {})])
def test_percentiles_of_trials_without_histograms_are_not_averaged(count: int, told: dict[str, float]) -> None:
    trials = [measured("c1", round_number, direction(2e8, 4096, latencies=None)) for round_number in range(count)]
    figures = RunData("m", "qemu", False, [SEQ], trials).summaries[0].figures
    assert {name: one.mean for name, one in figures.items() if name.endswith("_p99")} == told


@given(samples.runs())
def test_each_report_has_the_same_means(run: RunData) -> None:
    """Three formats, one truth: whoever reads any of them gets the very same float."""
    by_csv = {row["cell"]: row for row in csv.DictReader(summary_csv(run))}
    suites = iter(etree.fromstring(junit(run)))
    for summary in run.summaries:
        if not run.by_cell[summary.cell.id]:
            continue
        told = {one.get("name"): one.get("value") for one in next(suites).iterfind("properties/property")}
        for metric, estimate in summary.figures.items():
            assert float(by_csv[without_formula(summary.cell.id)][metric]) == estimate.mean
            if metric not in summary.cell.axes:
                assert float(str(told[metric])) == estimate.mean
        unseen = set(METRICS) - set(summary.figures)
        assert all(by_csv[without_formula(summary.cell.id)][metric] == "" for metric in unseen)


@given(samples.runs(), st.floats(0.5, 0.99), st.floats(0.5, 0.99))
def test_more_confidence_is_never_a_narrower_interval(run: RunData, one: float, other: float) -> None:
    less, more = (replace(run, confidence=confidence).summaries for confidence in sorted((one, other)))
    for low, high in zip(less, more, strict=True):
        for metric in METRICS:
            narrow, wide = (side.figures[metric].interval if metric in side.figures else None for side in (low, high))
            assert (narrow is None) == (wide is None)
            if narrow and wide:
                assert narrow.mean == wide.mean
                assert narrow.half_width <= wide.half_width * (1 + 1e-9)


@given(samples.runs())
def test_any_run_can_be_summarised(run: RunData) -> None:
    summaries = run.summaries
    assert sum(sum(summary.counts.values()) for summary in summaries) == len(run.trials)
    for summary in summaries:
        assert set(summary.figures) <= set(METRICS)
        for estimate in summary.figures.values():
            assert 1 <= estimate.n <= summary.counts[Outcome.MEASURED]
            assert (estimate.interval is None) == (estimate.n == 1)


def unsettled(trial: Trial) -> Trial:
    return replace(trial, **noted({**trial.notes, UNSETTLED: "iops:1% missed"}))


def drifting(*, synthetic: bool = False) -> RunData:
    """Two cells on a machine that becomes slower by a tenth; the second was known early."""
    trials = [
        measured("c1", round_number, direction(2e8 * 0.9 ** (round_number / 5), 1 << 20)) for round_number in range(6)
    ]
    trials += [
        measured("c2", round_number, None, direction(1e6 * 0.9 ** (round_number / 5), 4096))
        for round_number in range(3)
    ]
    return RunData("m", "qemu", synthetic, [SEQ, samples.RAND], trials)


def test_a_change_of_all_cells_is_drift() -> None:
    found = drifting().drift
    assert found is not None
    assert found.change == pytest.approx(0.9)
    assert found.p < 0.001


def test_synthetic_rates_do_not_drift() -> None:
    assert drifting(synthetic=True).drift is None


def test_two_rounds_are_too_few_for_drift() -> None:
    assert RUN.drift is None
