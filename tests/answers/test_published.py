"""What is said of published ratios where the truth is known."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.answers.cell_figures import Verdict, measured_cell
from matrix_runner.answers.published import ComparedFigure, columns_of, compare_published, tally
from matrix_runner.language.references import MARGIN
from matrix_runner.pages.study import display_table
from matrix_runner.statistics.stopping import Rule
from matrix_runner.work.metrics import BESIDE, DECIMALS, KNOWN
from tests.answers.world import cells, guideline, row, run, verdict
from tests.records import past
from tests.support.facts import noted
from tests.support.studies import PAIR, published, times

if TYPE_CHECKING:
    from matrix_runner.language.references import Published
    from matrix_runner.records.record import Trial


def twice(value: float = 160, **more: Any) -> Published:
    return published(
        {"where": {"layout": "single"}, "value": 80}, {"where": {"layout": "raid0"}, "value": value, **more}
    )


def second(found: list[ComparedFigure]) -> ComparedFigure:
    _, one = found
    return one


@pytest.mark.parametrize(
    ("factor", "noise", "said"),
    [
        (2.0, 0.01, Verdict.HOLDS),
        (2.2, 0.01, Verdict.HOLDS),
        (1.8, 0.01, Verdict.HOLDS),
        (2.5, 0.01, Verdict.FAILS),
        (1.0, 0.01, Verdict.FAILS),
        (2.29, 0.05, Verdict.INCONCLUSIVE),
        (2.0, 0.50, Verdict.INCONCLUSIVE),
    ],
)
def test_a_ratio_is_met_where_all_of_its_interval_lies_within(factor: float, noise: float, said: Verdict) -> None:
    one = second(compare_published(twice(), run(PAIR, times(factor), noise=noise)))
    assert (one.ratio, one.verdict) == (2.0, said)
    assert one.result is not None
    assert one.result.value is not None
    assert one.result.low < one.result.value < one.result.high
    assert one.level is not None
    assert one.level.value == pytest.approx(75e6 * factor, rel=2 * noise)


def test_the_base_is_shown_and_not_judged() -> None:
    base, _ = found = compare_published(twice(), run(PAIR, times(2.0)))
    assert (base.verdict, base.ratio, base.result) == (None, None, None)
    assert base.level is not None
    assert tally(found) == {Verdict.HOLDS: 1}


def test_one_round_is_inconclusive() -> None:
    assert second(compare_published(twice(), run(PAIR, times(2.0), rounds=1))).verdict is Verdict.INCONCLUSIVE


def test_a_reason_is_given_only_where_it_is_needed() -> None:
    reasoned = twice(why="a kernel of 2007")
    assert second(compare_published(reasoned, run(PAIR, times(2.0)))).why == ""
    assert second(compare_published(reasoned, run(PAIR, times(1.0)))).why == "a kernel of 2007"
    undecided = compare_published(reasoned, run(PAIR, times(2.0), rounds=1))
    assert second(undecided).why == "a kernel of 2007"
    assert "layout=raid0 (undecided): a kernel of 2007" in display_table(undecided).notes[1]
    assert len(display_table(compare_published(twice(), run(PAIR, times(2.0), rounds=1))).notes) == 1, (
        "where nothing is known"
    )


def test_unmeasured_ratios_give_their_reason() -> None:
    lost = second(compare_published(twice(), run(PAIR[:1], times(1.0))))
    assert (lost.verdict, lost.why) == (Verdict.NOT_TESTED, "no cell has layout=raid0")
    never = second(compare_published(twice(unmeasured="it was a card"), run(PAIR, times(2.0))))
    assert (never.verdict, never.why) == (Verdict.NOT_TESTED, "it was a card")
    assert second(compare_published(twice(), [])).verdict is Verdict.NOT_TESTED


def test_without_a_measurable_base_no_ratio_is_tested() -> None:
    rows = (
        {"where": {"layout": "single"}, "value": 80, "unmeasured": "gone"},
        {"where": {"layout": "raid0"}, "value": 1},
    )
    assert second(compare_published(published(*rows), run(PAIR, times(2.0)))).verdict is Verdict.NOT_TESTED


def test_unpublished_ratios_are_measured_without_a_verdict() -> None:
    rows = {"where": {"layout": "single"}}, {"where": {"layout": "raid0"}}
    one = second(compare_published(published(*rows), run(PAIR, times(2.0))))
    assert (one.ratio, one.verdict) == (None, None)
    assert one.result is not None
    assert one.result.value == pytest.approx(2.0, rel=0.02)


def test_cells_that_a_row_does_not_tell_apart_count_as_their_mean() -> None:
    field = cells(layout=["single", "raid0"], workload_bs=["4KiB", "64KiB"])
    factor = {"4KiB": 1.0, "64KiB": 4.0}
    truth = run(field, lambda axes: factor[axes["workload.bs"]] if axes["layout"] == "raid0" else 1.0)
    one = second(compare_published(twice(), truth))
    assert one.verdict is Verdict.HOLDS
    assert one.result is not None
    assert len(one.result.case.cells) == 4


def test_drift_that_hits_all_cells_of_a_round_alike_is_no_doubt() -> None:
    assert second(compare_published(twice(), run(PAIR, times(2.0), mood=0.5))).verdict is Verdict.HOLDS


def test_synthetic_ratios_are_marked() -> None:
    assert second(compare_published(twice(), run(PAIR, times(2.0)), synthetic=True)).synthetic


def test_columns_are_read_for_the_tables_only() -> None:
    assert columns_of(published({"where": {"a": 1}, "value": 1}, metric="total.bw")) == [
        "read_bw",
        "write_bw",
        "trim_bw",
    ]


@given(st.floats(0.05, 20), st.floats(-0.4, 0.4), st.integers(1, 1000))
def test_precise_trials_decide_by_the_true_ratio(ratio: float, off: float, seed: int) -> None:
    distance = abs(abs(off) - log(1 + MARGIN))
    found = compare_published(twice(80 * ratio), run(PAIR, times(ratio * exp(off)), noise=1e-4, seed=seed))
    if distance > 0.002:
        assert second(found).verdict is (Verdict.HOLDS if abs(off) < log(1 + MARGIN) else Verdict.FAILS)


def trial(round_number: int, **notes: str) -> Trial:
    return replace(past.measured("layout=raid0", round_number, 1e8), **noted(notes))


def test_figures_counted_beside_the_work_can_be_claimed() -> None:
    trials = [
        trial(round_number, evenness=f"0.99{round_number}", iowait=f"0.4{round_number}") for round_number in (1, 2, 3)
    ]
    found = measured_cell("run", row({"layout": "raid0"}), trials, Rule(3, 3), {"evenness", "iowait"})
    assert found.columns == {
        "evenness": {1: 0.991, 2: 0.992, 3: 0.993},
        "iowait": {1: 0.41, 2: 0.42, 3: 0.43},
    }
    even = guideline(bound={"metric": "disks.evenness", "at_least": "95%"})
    assert not KNOWN["disks.strain"].more_is_better
    waits = guideline(bound={"metric": "cpu.iowait", "at_most": "30%"})
    assert verdict(even, [found]).verdict is Verdict.HOLDS
    assert verdict(waits, [found]).verdict is Verdict.FAILS


def test_claims_without_counters_are_not_tested() -> None:
    found = measured_cell("run", row({"layout": "raid0"}), [trial(1), trial(2)], Rule(2, 2), {"iowait"})
    said = verdict(guideline(bound={"metric": "cpu.iowait", "at_most": "30%"}), [found])
    assert (said.verdict, said.why) == (Verdict.NOT_TESTED, "no cell has cpu.iowait")


def counted(name: str, values: list[str], layout: str = "raid0") -> Any:
    trials = [trial(round_number, **{name: value}) for round_number, value in enumerate(values, start=1)]
    return measured_cell("run", row({"layout": layout}), trials, Rule(len(values), len(values)), {name})


def test_disks_that_stood_still_are_counted() -> None:
    even = guideline(bound={"metric": "disks.evenness", "at_least": "95%"})
    said = verdict(even, [counted("evenness", [*["0.000", "0.000", "1.000"] * 3, "0.000"])])
    assert (said.verdict, said.results[0].n) == (Verdict.FAILS, 10)


def test_trials_without_waiting_are_counted() -> None:
    waits = guideline(bound={"metric": "cpu.iowait", "at_most": "5%"})
    said = verdict(waits, [counted("iowait", [*["0.0000", "0.0000", "0.0600"] * 3, "0.0000"])])
    assert (said.verdict, said.results[0].n) == (Verdict.HOLDS, 10)


def test_waiting_may_fall_to_zero() -> None:
    falls = guideline(monotone={"metric": "cpu.iowait", "along": "layout", "direction": "falls"})
    waited = {"1": "0.3", "2": "0.1", "3": "0.0"}
    found = [counted("iowait", [text + digit for digit in "0000"], layout) for layout, text in waited.items()]
    said = verdict(falls, found)
    assert (said.verdict, len(said.results), said.notes) == (Verdict.HOLDS, 2, ())


def test_a_rate_of_zero_is_no_figure() -> None:
    assert KNOWN["read.bw"].floor == KNOWN["read.lat_p99"].floor == 0


@pytest.mark.parametrize("name", [name for name in BESIDE if KNOWN[name].unit == "share"])
def test_zero_counts_as_less_than_the_smallest_shown_value(name: str) -> None:
    metric = KNOWN[name]
    least = 10 ** -DECIMALS[BESIDE[name]]
    assert f"{least:.{DECIMALS[BESIDE[name]]}f}".endswith("01")
    assert 0 < metric.floor < least


def test_less_waiting_is_better() -> None:
    truth = {"single": 0.4, "raid0": 0.2}
    best = guideline(best={"metric": "cpu.iowait", "along": "layout", "is": "raid0"})
    assert verdict(best, run(PAIR, lambda axes: truth[axes["layout"]], column="iowait")).verdict is Verdict.HOLDS


TRIED = cells(layout=["single", "raid0"], workload=["read", "old"])


def tried(caused: float, **more: Any) -> ComparedFigure:
    """Return a ratio of 4, published, of which 2 is measured, and `caused` with the cause switched on."""
    whys = [{"where": {"layout": "raid0"}, "why": "an old processor", "experiment": {"workload": "old"}, **more}]
    rows = {"where": {"layout": "single"}, "value": 80}, {"where": {"layout": "raid0"}, "value": 320}
    factors = {("raid0", "read"): 2.0, ("raid0", "old"): caused}
    measured = run(TRIED, lambda axes: 75e6 * factors.get((axes["layout"], axes["workload"]), 1.0))
    return second(compare_published(published(*rows, where={"workload": "read"}, whys=whys), measured))


@pytest.mark.parametrize(("caused", "share"), [(4.0, 1.0), (2 * 2**0.5, 0.5), (2.0, 0.0), (8.0, 0.0), (1.0, -1.0)])
def test_an_experiment_explains_a_share_of_the_distance(caused: float, share: float) -> None:
    one = tried(caused)
    assert one.verdict is Verdict.FAILS
    assert one.result is not None
    assert one.result.value == pytest.approx(2, rel=0.02), "the cells of the experiment do not change the ratio itself"
    assert one.explained == pytest.approx(share, abs=0.04)


def test_an_experiment_that_could_have_no_effect_explains_nothing() -> None:
    one = tried(3.0)
    assert one.experiment
    assert one.explained
    wide = replace(one, experiment=replace(one.experiment, low=1.9))
    assert wide.explained == 0


def test_the_base_of_an_experiment_may_have_other_coordinates() -> None:
    one = tried(3.0, base={"workload": "read"})
    assert one.experiment is not None
    assert one.experiment.value == pytest.approx(3, rel=0.02)


def test_a_ratio_that_is_met_needs_no_experiment() -> None:
    rows = {"where": {"layout": "single"}, "value": 80}, {"where": {"layout": "raid0"}, "value": 160}
    for experiment in ({"layout": "raid0"}, {"layout": "single"}):
        whys = [{"where": {"layout": "raid0"}, "why": "", "experiment": experiment}]
        one = second(compare_published(published(*rows, whys=whys), run(PAIR, times(2.0))))
        assert (one.verdict, one.experiment, one.explained) == (Verdict.HOLDS, None, None), "both sides are the same"
