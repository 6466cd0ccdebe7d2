"""What is said of claims where the truth is known."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.answers.cell_figures import Measured, Verdict
from matrix_runner.answers.verdicts import Judgement, judge_guidelines
from matrix_runner.language.guidelines import SHAPES, Guideline
from matrix_runner.records.record import CellRow
from matrix_runner.statistics.ratios import paired_ratio
from matrix_runner.statistics.stopping import Rule, StopReason
from tests.answers.world import FIELD, cells, guideline, measured_as, of_layout, row, run, verdict

STRIPES = cells(lvm_stripes=["1", "2", "3", "4"], workload=["read"])


def chunky(axes: dict[str, str]) -> float:
    return {"64KiB": 100, "256KiB": 120, "1MiB": 150}[axes["md.chunk"]]


def striped(per: float) -> Any:
    return lambda axes: 100 * (1 + per * (int(axes["lvm.stripes"]) - 1))


#: A claim of each shape, and a truth of which it holds and one of which it does not.
CASES: dict[str, tuple[Guideline, list[CellRow], Any, Any]] = {
    "compare": (of_layout(within="10%"), FIELD, lambda _: 100.0, lambda axes: 70.0 if axes["layout"] == "far" else 100.0),
    "ratio": (of_layout("ratio", at_least="1.5x"), FIELD, lambda axes: 200.0 if axes["layout"] == "far" else 100.0, lambda _: 100.0),
    "best": (
        guideline(best={"metric": "read.bw", "along": "chunk", "is": "1MiB", "tolerance": "5%"}),
        FIELD, chunky, lambda axes: 1 / chunky(axes),
    ),
    "monotone": (
        guideline(monotone={"metric": "read.bw", "along": "md.chunk", "direction": "rises"}),
        FIELD, chunky, lambda axes: 1 / chunky(axes),
    ),
    "scaling": (
        guideline(scaling={"metric": "read.bw", "along": "lvm.stripes", "at_least": "0.9 per stripe"}),
        STRIPES, striped(0.97), striped(0.5),
    ),
    "effect": (
        guideline(ratio={"mean": True, "metric": "read.bw", "of": {"layout": "far"}, "to": {"layout": "raid0"}, "at_least": "1.3x"}),
        FIELD, lambda axes: 150.0 if axes["layout"] == "far" else 100.0, lambda _: 100.0,
    ),
    "bound": (
        guideline(bound={"metric": "read.bw", "where": {"layout": "far"}, "at_least": "200MB/s"}),
        FIELD, lambda _: 220e6, lambda _: 180e6,
    ),
    "sum": (
        guideline(sum={"metric": "read.bw", "whole": {"lvm.stripes": 3}, "parts": [{"lvm.stripes": 1}], "times": 3, "within": "10%"}),
        STRIPES, striped(1.0), striped(0.5),
    ),
    "profile": (
        guideline(profile={"metric": "read.bw", "along": "md.chunk", "follows": [1, 1.2, 1.5], "within": "10%"}),
        FIELD, chunky, lambda _: 100.0,
    ),
}  # fmt: skip


def test_every_shape_is_among_the_cases() -> None:
    assert {one.shape for one, *_ in CASES.values()} == set(SHAPES)


@pytest.mark.parametrize("shape", CASES)
def test_true_claims_hold_and_false_claims_fail(shape: str) -> None:
    claim, field, true, false = CASES[shape]
    holds, fails = verdict(claim, run(field, true)), verdict(claim, run(field, false))
    assert (holds.verdict, fails.verdict) == (Verdict.HOLDS, Verdict.FAILS)
    assert holds.telling is not None
    assert holds.telling.case.low <= holds.telling.low <= holds.telling.high <= holds.telling.case.high
    assert fails.telling is not None
    assert not fails.telling.seems
    assert holds.more == fails.more == 0
    assert fails.failed
    assert not holds.failed


@pytest.mark.parametrize("shape", CASES)
@pytest.mark.parametrize("rounds", [1, 2])
def test_too_little_is_inconclusive(shape: str, rounds: int) -> None:
    claim, field, true, false = CASES[shape]
    for truth in (true, false):
        said = verdict(claim, run(field, truth, noise=0.5, rounds=rounds))
        assert said.verdict is Verdict.INCONCLUSIVE
        assert set(said.cells) <= {cell.id for cell in field}


@pytest.mark.parametrize("shape", CASES)
def test_unmeasured_claims_are_not_tested(shape: str) -> None:
    claim, field, *_ = CASES[shape]
    assert verdict(claim, []).why == "nothing was measured"
    elsewhere = verdict(claim, run(cells(layout=["single"]), lambda _: 1.0))
    assert elsewhere.verdict is Verdict.NOT_TESTED
    assert elsewhere.why
    without = verdict(claim, [replace(measured_as(cell, {}), trials=0) for cell in field])
    assert (without.verdict, without.notes) == (Verdict.NOT_TESTED, ())
    assert without.why.startswith("no read.bw of ")
    assert all(name in {cell.name for cell in field} for name in named(without.why))


def named(why: str) -> list[str]:
    """The cells that a reason names."""
    return why.removeprefix("no read.bw of ").partition(" and ")[0].split("; ")


def test_missing_cells_of_a_half_measured_claim_are_named() -> None:
    claim, _, truth = CASES["ratio"][:3]
    *there, last = run(cells(layout=["raid0", "far"]), truth)
    said = verdict(claim, [*(replace(one, host_limited=3) for one in there), replace(last, columns={}, trials=0)])
    assert (said.verdict, said.why, said.notes) == (Verdict.NOT_TESTED, f"no read.bw of {last.cell.name}", ())


@pytest.mark.parametrize("shape", CASES)
def test_the_number_of_rounds_to_a_decision_is_about_right(shape: str) -> None:
    """With so many rounds as was said for a quiet start, most are decided."""
    claim, field, true, _ = CASES[shape]
    decided = told = 0
    for seed in range(40):
        first = verdict(claim, run(field, true, noise=0.12, rounds=4, seed=seed))
        if first.verdict is not Verdict.INCONCLUSIVE or first.more is None or first.more > 400:
            continue
        told += 1
        later = verdict(claim, run(field, true, noise=0.12, rounds=4 + first.more, seed=seed + 1000))
        decided += later.verdict is not Verdict.INCONCLUSIVE
    assert told >= 5
    assert decided >= told * 0.3


def test_drift_that_hits_all_cells_alike_is_no_difference() -> None:
    said = verdict(of_layout(within="5%"), run(FIELD, lambda _: 100.0, noise=0.003, mood=0.5))
    assert said.verdict is Verdict.HOLDS


def test_the_interval_is_that_of_compare() -> None:
    pair = cells(layout=["raid0", "far"])
    found = list(run(pair, lambda _: 100.0, noise=0.1, rounds=7))
    one, other = (item.columns["read_bw"] for item in found)
    expected = paired_ratio(one, other)
    (result,) = verdict(of_layout(within="5%"), found).results
    assert expected is not None
    assert (result.value, result.low, result.high) == pytest.approx((expected.ratio, expected.low, expected.high))


def with_lost_time(metric: str, level: float, lost: float, **bounds: str) -> Judgement:
    """The verdict on far against raid0, of which far lost a share of its time to the host."""
    truth = {"raid0": 100.0, "far": level}
    column = metric.replace(".", "_")
    found = run(cells(layout=[*truth]), lambda axes: truth[axes["layout"]], noise=0.003, column=column)
    slowed = [replace(one, lost_share=lost if one.cell.axes["layout"] == "far" else 0.0) for one in found]
    return verdict(of_layout("ratio", metric=metric, **bounds), slowed)


@pytest.mark.parametrize(
    ("metric", "level", "lost", "bounds", "expected"),
    [
        ("read.bw", 98.0, 0.0, {"at_least": "1.2x"}, Verdict.FAILS),
        ("read.bw", 98.0, 0.1, {"at_least": "1.2x"}, Verdict.FAILS),
        ("read.bw", 98.0, 0.2, {"at_least": "1.2x"}, Verdict.INCONCLUSIVE),
        ("read.bw", 130.0, 0.2, {"at_least": "1.2x"}, Verdict.HOLDS),
        ("read.bw", 98.0, 0.2, {"at_most": "1.2x"}, Verdict.INCONCLUSIVE),
        ("read.bw", 98.0, 1.0, {"at_least": "1.2x"}, Verdict.INCONCLUSIVE),
        ("read.lat_mean", 110.0, 0.2, {"at_most": "0.9x"}, Verdict.INCONCLUSIVE),
        ("read.lat_mean", 110.0, 0.2, {"at_least": "0.8x"}, Verdict.HOLDS),
    ],
)
def test_a_verdict_holds_without_the_lost_time_too(
    metric: str, level: float, lost: float, bounds: dict[str, str], expected: Verdict
) -> None:
    found = with_lost_time(metric, level, lost, **bounds)
    assert found.verdict is expected
    assert found.blocked is (expected is Verdict.INCONCLUSIVE)
    assert not found.blocked or found.more is None


def test_a_figure_that_needs_no_time_is_not_corrected() -> None:
    cell = row({"layout": "one"})
    values = {"evenness": {1: 0.9, 2: 0.9001, 3: 0.9}}
    claim = guideline(bound={"metric": "disks.evenness", "where": {"layout": "one"}, "at_most": "95%"})
    assert verdict(claim, [Measured("run", cell, values, lost_share=0.2)]).verdict is Verdict.HOLDS


def test_each_of_several_runs_counts_its_share_of_lost_time() -> None:
    runs = [list(run(cells(layout=["raid0", "far"]), lambda _: 100.0, name=f"run{number}")) for number in range(10)]
    runs[0] = [replace(one, lost_share=0.2 if one.cell.axes["layout"] == "far" else 0.0) for one in runs[0]]
    without = [one for several in runs[1:] for one in several]
    (plain,), (one_of_ten,) = (
        verdict(of_layout(within="9%"), found).results for found in (without, [*runs[0], *without])
    )
    assert one_of_ten.high / plain.high < 1.05


def test_the_largest_share_in_a_sum_counts() -> None:
    parts = {"whole": 200.0, "one": 100.0, "other": 100.0}
    shares = {"whole": 0.0, "one": 0.0, "other": 0.2}
    claim = guideline(
        sum={
            "metric": "read.bw",
            "whole": {"layout": "whole"},
            "parts": [{"layout": "one"}, {"layout": "other"}],
            "within": "5%",
        }
    )
    found = [
        replace(one, lost_share=shares[one.cell.axes["layout"]])
        for one in run(cells(layout=[*parts]), lambda axes: parts[axes["layout"]], noise=0.003)
    ]
    assert verdict(claim, found).results[0].low == pytest.approx(0.8, rel=0.01)


def test_a_case_that_more_trials_decide_is_not_blocked() -> None:
    """Both ends of the interval are undecidable, but not what lies between them."""
    one, other = cells(layout=["raid0", "far"])
    values = {1: 0.95, 2: 1.0, 3: 1.03, 4: 0.965}
    far = replace(measured_as(other, values), lost_share=0.03)
    found = verdict(of_layout(within="5%"), [measured_as(one, dict.fromkeys(values, 1.0)), far])
    (result,) = found.results
    assert (found.verdict, result.enough is not None) == (Verdict.INCONCLUSIVE, True)
    assert not result.blocked


def test_missing_figures_are_not_the_fault_of_the_host() -> None:
    found = [one for one in run(FIELD, lambda _: 100.0, noise=0.001) if one.cell.axes["md.chunk"] != "1MiB"]
    empty = [Measured("run", cell) for cell in FIELD if cell.axes["md.chunk"] == "1MiB"]
    judged = verdict(of_layout(within="10%"), [*found, *empty])
    assert (judged.verdict, judged.blocked) == (Verdict.INCONCLUSIVE, False)


def test_one_blocked_case_blocks_a_claim_that_no_other_refutes() -> None:
    truth = {"64KiB": 1.0, "1MiB": 1.03}
    pairs = cells(layout=["raid0", "far"], md_chunk=[*truth])
    measured = run(
        pairs, lambda axes: truth[axes["md.chunk"]] if axes["layout"] == "far" else 1.0, noise=0.02, rounds=4
    )
    found = [replace(one, lost_share=0.2 if one.cell.axes["md.chunk"] == "64KiB" else 0.0) for one in measured]
    judged = verdict(of_layout(within="5%"), found)
    assert [one.blocked for one in judged.results] == [True, False]
    assert judged.blocked


def test_the_interval_includes_the_lost_time() -> None:
    (plain,), (slowed,) = (with_lost_time("read.bw", 98.0, lost, at_least="1.2x").results for lost in (0.0, 0.2))
    assert (slowed.value, slowed.low, slowed.high) == pytest.approx((plain.value, plain.low, plain.high / 0.8))


def test_only_rounds_that_all_cells_share_count() -> None:
    one, other = cells(layout=["raid0", "far"])
    said = verdict(
        of_layout(within="5%"), [measured_as(one, {1: 1, 2: 1, 3: 9}), measured_as(other, {1: 1, 2: 1, 4: 7})]
    )
    (result,) = said.results
    assert (result.n, result.value) == (2, 1)


def test_a_claim_must_hold_in_each_context() -> None:
    def but_one(axes: dict[str, str]) -> float:
        return 50.0 if axes == {"layout": "far", "md.chunk": "1MiB", "workload": "rnd"} else 100.0

    said = verdict(of_layout(within="10%"), run(FIELD, but_one))
    assert said.verdict is Verdict.FAILS
    assert len(said.results) == 6
    assert said.telling is not None
    assert said.telling.case.label == "md.chunk=1MiB, workload=rnd"


def test_an_effect_is_averaged_and_names_contexts_that_differ() -> None:
    def mixed(axes: dict[str, str]) -> float:
        return {"64KiB": 300.0, "256KiB": 300.0, "1MiB": 80.0}[axes["md.chunk"]] if axes["layout"] == "far" else 100.0

    said = verdict(CASES["effect"][0], run(FIELD, mixed))
    (result,) = said.results
    assert said.verdict is Verdict.HOLDS
    assert result.case.label == "mean over 6 pairs"
    assert result.value == pytest.approx((3 * 3 * 0.8) ** (1 / 3), rel=0.02)
    (note,) = said.notes
    assert note.startswith("another verdict alone: md.chunk=1MiB, workload=seq (0.80\u00d7 fails)")


def test_an_effect_of_which_a_part_broke_is_that_of_the_rest() -> None:
    found = [
        measured_as(one.cell, {}) if one.cell.axes["md.chunk"] == "1MiB" else one
        for one in run(FIELD, CASES["effect"][2])
    ]
    said = verdict(CASES["effect"][0], found)
    assert said.verdict is Verdict.HOLDS
    assert said.results[0].case.label == "mean over 4 pairs"
    assert said.notes == ("no figures: md.chunk=1MiB, workload=seq; md.chunk=1MiB, workload=rnd",)


def test_cells_that_only_write_are_left_out_of_claims_on_reads() -> None:
    field = cells(layout=["raid0", "far"], workload_rw=["read", "randwrite"])
    reads = [one for one in run(field, lambda _: 100.0) if one.cell.axes["workload.rw"] == "read"]
    for trials in (0, 5):
        writes = [
            replace(measured_as(cell, {}), trials=trials) for cell in field if cell.axes["workload.rw"] == "randwrite"
        ]
        said = verdict(of_layout(within="10%"), [*reads, *writes])
        assert (said.verdict, len(said.results), said.notes) == (Verdict.HOLDS, 1, ())


def test_a_claim_of_which_a_part_broke_does_not_hold() -> None:
    found = list(run(FIELD, lambda _: 100.0))
    found[0] = measured_as(found[0].cell, {})
    said = verdict(of_layout(within="10%"), found)
    assert said.verdict is Verdict.INCONCLUSIVE
    assert said.notes == ("no figures: md.chunk=64KiB, workload=seq",)


@pytest.mark.parametrize(
    ("former", "now"),
    [
        (
            {"compare": {"of": {"layout": "far"}, "to": {"layout": "raid0"}, "within": "10%"}},
            {"of": {"layout": "far"}, "to": {"layout": "raid0"}, "within": "10%"},
        ),
        (
            {"effect": {"of": {"layout": "far"}, "over": {"layout": "raid0"}, "at_least": 1.3}},
            {"of": {"layout": "far"}, "to": {"layout": "raid0"}, "at_least": 1.3, "mean": True},
        ),
    ],
)
def test_former_names_of_a_ratio_are_the_same_claim(former: dict[str, dict[str, Any]], now: dict[str, Any]) -> None:
    ((shape, words),) = former.items()
    old, new = guideline(**{shape: {"metric": "read.bw", **words}}), guideline(ratio={"metric": "read.bw", **now})
    assert old.claimed == new.claimed
    assert verdict(old, run(FIELD, chunky)).results == verdict(new, run(FIELD, chunky)).results


def test_an_axis_has_the_order_of_its_numbers_and_places_that_lack_one_do_not_count() -> None:
    field = [cell for cell in FIELD if (cell.axes["md.chunk"], cell.axes["workload"]) != ("256KiB", "rnd")]
    said = verdict(CASES["monotone"][0], run(list(reversed(field)), chunky))
    assert said.verdict is Verdict.HOLDS
    assert {one.case.label.partition(",")[0] for one in said.results} == {
        "md.chunk=256KiB against 64KiB", "md.chunk=1MiB against 256KiB", "md.chunk=1MiB against 64KiB",
    }  # fmt: skip


def test_scaling_takes_a_stripe_size_that_a_single_disk_has_not() -> None:
    field = [row({"lvm.stripes": "1"}), *cells(lvm_stripes=["2", "4"], lvm_stripe_size=["4KiB", "64KiB"])]
    field = [row({axis.replace("stripe.size", "stripe_size"): v for axis, v in one.axes.items()}) for one in field]
    said = verdict(CASES["scaling"][0], run(field, striped(1.0)))
    assert said.verdict is Verdict.HOLDS
    assert len(said.results) == 4


def test_latencies_are_best_where_they_are_lowest() -> None:
    claim = guideline(best={"metric": "read.lat_p99", "along": "md.chunk", "is": "64KiB"})
    assert verdict(claim, run(FIELD, chunky, column="read_lat_p99")).verdict is Verdict.HOLDS


def test_a_total_is_of_both_directions() -> None:
    cell = row({"layout": "one"})
    found = Measured("run", cell, {"read_iops": {1: 100, 2: 101, 3: 99}, "write_iops": {1: 140, 2: 139, 3: 141}})
    claim = guideline(bound={"metric": "total.iops", "at_least": "230 IOPS", "at_most": 250})
    (result,) = verdict(claim, [found]).results
    assert result.value == pytest.approx(240)


def test_the_interval_of_a_figure_that_stopped_early_is_what_it_was_stopped_by() -> None:
    values = {1: 100.0, 2: 100.1, 3: 99.9, 4: 100.0}
    claim = guideline(bound={"metric": "read.bw", "at_least": "0.000097MB/s"})
    fixed = Measured("run", row({"layout": "one"}), {"read_bw": values})
    early = Measured("run", row({"layout": "one"}), {"read_bw": values}, Rule(3, 20, 0.05), StopReason.PRECISE)
    assert verdict(claim, [fixed]).verdict is Verdict.HOLDS
    said = verdict(claim, [early])
    assert said.verdict is Verdict.INCONCLUSIVE
    assert said.results[0].low == pytest.approx(100 / 1.05)


def test_synthetic_results_are_no_failure() -> None:
    claim, field, _, false = CASES["ratio"]
    said = verdict(claim, run(field, false), synthetic=True)
    assert (said.verdict, said.failed) == (Verdict.FAILS, False)


def test_host_limited_trials_get_a_note() -> None:
    one, other = run(cells(layout=["raid0", "far"]), lambda _: 100.0)
    host_limited = Measured(other.run, other.cell, other.columns, host_limited=2)
    assert "host-limited" in verdict(of_layout(within="10%"), [one, host_limited]).notes[0]


@given(
    st.integers(0, 10**6),
    st.sampled_from(sorted(CASES)),
    st.sampled_from([0.001, 0.03, 0.2]),
    st.integers(1, 8),
    st.booleans(),
)
def test_a_verdict_is_what_its_answers_say(seed: int, shape: str, noise: float, rounds: int, truth: bool) -> None:
    claim, field, *truths = CASES[shape]
    said = verdict(claim, run(field, truths[truth], noise=noise, rounds=rounds, seed=seed))
    for result in said.results:
        assert result.value is not None
        assert result.low <= result.value <= result.high or result.case.absolute
        asked = result.case
        if result.verdict is Verdict.HOLDS:
            assert asked.low <= result.low
            assert result.high <= asked.high
        elif result.verdict is Verdict.FAILS:
            assert not result.seems
        else:
            assert result.low < asked.low or result.high > asked.high
    verdicts = {result.verdict for result in said.results}
    if said.verdict is Verdict.HOLDS:
        assert verdicts == {Verdict.HOLDS}
    assert (said.verdict is Verdict.FAILS) == (Verdict.FAILS in verdicts)


@given(st.integers(0, 10**6), st.floats(0.1, 10), st.integers(2, 6))
def test_units_and_the_order_of_cells_do_not_change_a_verdict(seed: int, unit: float, rounds: int) -> None:
    for shape, (claim, field, true, _) in CASES.items():
        if shape == "bound":
            continue
        found = list(run(field, true, noise=0.05, rounds=rounds, seed=seed))
        other = [
            measured_as(
                one.cell, {round_number: value * unit for round_number, value in one.columns["read_bw"].items()}
            )
            for one in reversed(found)
        ]
        first, second = verdict(claim, found), verdict(claim, other)
        assert {one.case.label for one in first.results} == {one.case.label for one in second.results}
        assert first.verdict is second.verdict


def test_a_steered_run_needs_more_to_be_sure() -> None:
    claim, field, true, _ = CASES["compare"]
    found = list(run(field, true, noise=0.02))
    plain, steered = verdict(claim, found), verdict(claim, found, share=0.2)
    assert all(one.high < other.high for one, other in zip(plain.results, steered.results, strict=True))


def test_many_guidelines_are_judged_in_their_order() -> None:
    found = list(run(FIELD, lambda _: 100.0))
    several = [of_layout(within="10%"), of_layout("ratio", at_least=2)]
    assert [one.verdict for one in judge_guidelines(several, found)] == [Verdict.HOLDS, Verdict.FAILS]
    assert judge_guidelines([], found) == []


def test_a_single_value_has_no_interval() -> None:
    (result, *_) = verdict(of_layout(within="10%"), run(FIELD, lambda _: 100.0, rounds=1)).results
    assert (result.low, result.high, result.enough) == (0, inf, None)


def test_cells_of_different_runs_are_not_held_against_each_other() -> None:
    one, other = cells(layout=["raid0", "far"])
    found = [measured_as(one, {1: 1.0, 2: 1.0}), measured_as(other, {1: 1.0, 2: 1.0}, name="other")]
    said = verdict(of_layout(within="10%"), found)
    assert said.verdict is Verdict.NOT_TESTED
    assert said.why.startswith("its cells were measured in different runs")
