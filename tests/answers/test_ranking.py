"""Which stack is fastest, which others may be, and which are surely slower."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.answers.ranking import Ranking, Standing
from matrix_runner.pages.answer import full_answer
from matrix_runner.statistics.ratios import PRACTICAL
from tests.answers.rankings import recorded_runs, run

if TYPE_CHECKING:
    import random

    from matrix_runner.pages.run_data import RunData

WRITE = "random/rw=randwrite"
THREE = {"raid5": {WRITE: 160.0}, "raid10-far": {WRITE: 300.0}, "stripe": {WRITE: 648.0}}


def only(recorded: RunData) -> Ranking:
    (one,) = recorded.rankings
    return one


def names(ranking: Ranking) -> list[str]:
    return [stack.cell.axes["layout"] for stack in ranking.stacks]


def test_the_fastest_comes_first_and_the_others_by_how_far_they_are_behind() -> None:
    one = only(run(THREE))
    assert names(one) == ["stripe", "raid10-far", "raid5"]
    assert [stack.standing for stack in one.slower] == [Standing.SLOWER] * 2
    assert one.fastest.behind is None
    second = one.slower[0].behind
    assert second is not None
    assert second.low < 648 / 300 < second.high
    assert second.ratio == pytest.approx(648 / 300, rel=0.03)


def test_rounds_cancel_so_a_moody_host_hides_no_difference() -> None:
    """The host's speed varies by 20 % from round to round, the stacks differ by 5 %."""
    close = {"raid5": {WRITE: 100.0}, "stripe": {WRITE: 110.0}}
    assert names(only(run(close, noise=0.003))) == ["stripe", "raid5"]
    assert only(run(close, noise=0.003)).slower


def test_mixed_work_is_ranked_by_its_total() -> None:
    one = only(run({"raid5": {"mixed": 100.0}, "stripe": {"mixed": 200.0}}, noise=0.0))
    assert one.metric.name == "total.iops"
    assert one.slower[0].level / one.fastest.level == pytest.approx(0.5)


def test_large_requests_are_ranked_by_bytes() -> None:
    assert only(run({"raid5": {"sequential": 100.0}, "stripe": {"sequential": 200.0}})).metric.name == "total.bw"


def test_the_practical_difference_decides_what_is_equal() -> None:
    recorded = run({"raid5": {"mixed": 100.0}, "raid6": {"mixed": 90.0}}, noise=0.001)
    assert recorded.rankings[0].stacks[1].standing is Standing.SLOWER
    found = replace(recorded, practical=0.15).rankings
    assert found[0].stacks[1].standing is Standing.EQUAL
    assert "equal within 15 %" in full_answer(found, synthetic=False, over=True)


def test_a_certain_but_small_difference_is_no_win() -> None:
    one = only(run({"raid5": {WRITE: 100.0}, "stripe": {WRITE: 102.0}}, noise=0.0001))
    assert one.stacks[1].standing is Standing.EQUAL
    assert not one.slower


def test_broken_stacks_are_listed_and_not_ranked() -> None:
    one = only(run(THREE, broken=["raid5"]))
    assert names(one) == ["stripe", "raid10-far"]
    assert [missing.name for missing in one.missing] == [f"raid5/{WRITE}"]


def test_one_stack_is_no_ranking() -> None:
    assert run({"raid5": {WRITE: 100.0, "mixed": 50.0}}).rankings == []


def test_a_workload_that_one_of_two_stacks_finished_is_kept_for_its_note() -> None:
    one = only(run({"raid5": {WRITE: 100.0}, "stripe": {WRITE: 50.0}}, broken=["raid5"]))
    assert [missing.name for missing in one.missing] == [f"raid5/{WRITE}"]
    assert (names(one), one.compared, one.leaders, one.slower) == (["stripe"], [], [], [])


def rounds_of(recorded: RunData, kept: dict[str, set[int]]) -> RunData:
    """The same run with the trials of these rounds only, by layout."""
    trials = [one for one in recorded.trials if one.round in kept.get(one.cell.split("/")[0], {one.round})]
    return replace(recorded, trials=trials)


def test_a_stack_with_few_rounds_does_not_weaken_the_others() -> None:
    one = only(rounds_of(run(THREE, rounds=5), {"raid5": {1}}))
    assert one.trials == 5
    assert [stack.cell.axes["layout"] for stack in one.slower] == ["raid10-far"]


def test_a_stack_without_common_rounds_is_last_and_not_compared() -> None:
    one = only(rounds_of(run(THREE, rounds=5), {"stripe": {1, 2, 3, 4}, "raid10-far": {5}}))
    assert names(one) == ["stripe", "raid5", "raid10-far"]
    assert one.stacks[-1].standing is Standing.NOT_COMPARED
    assert [stack.cell.axes["layout"] for stack in one.leaders] == ["stripe"]
    assert one.trials == 4


@pytest.mark.parametrize(("rounds", "trials"), [(1, 1), (2, 2)])
def test_one_trial_proves_no_stack_slower(rounds: int, trials: int) -> None:
    one = only(run(THREE, rounds=rounds, noise=0.001))
    assert one.trials == trials
    assert bool(one.slower) is (rounds > 1)


def test_host_limited_stacks_are_marked() -> None:
    one = only(run(THREE, host_limited={"raid5": 12}))
    assert [stack.lost_share for stack in one.stacks] == pytest.approx([0, 0, 0.12])
    assert [stack.standing for stack in one.slower] == [Standing.SLOWER] * 2


def test_a_stack_that_a_faster_host_could_make_as_fast_is_not_called_slower() -> None:
    """The stripe is 2.16 times as fast as RAID 10, which lost 60 % of its time to the host."""
    one = only(run(THREE, host_limited={"raid10-far": 60}))
    assert {stack.cell.axes["layout"]: stack.standing for stack in one.stacks} == {
        "stripe": Standing.FASTEST,
        "raid10-far": Standing.HOST_LIMITED,
        "raid5": Standing.SLOWER,
    }
    assert len(one.leaders) == 2


def test_a_ratio_is_widened_by_what_the_host_may_hide() -> None:
    plain, *_ = only(run(THREE)).slower
    limited, *_ = only(run(THREE, host_limited={"raid10-far": 20, "stripe": 50})).slower
    assert (plain.corrected, plain.behind) == (None, limited.behind)
    assert plain.behind is not None
    assert limited.corrected == pytest.approx((plain.behind.low * 0.8, plain.behind.high * 2))


def test_a_fastest_stack_that_the_host_slows_down_is_fastest_all_the_same() -> None:
    assert len(only(run(THREE, host_limited={"stripe": 90})).slower) == 2


def test_stacks_that_are_equally_slow_because_of_the_host_are_not_called_equal() -> None:
    one = only(run({"raid5": {WRITE: 100.0}, "stripe": {WRITE: 102.0}}, noise=0.0001, host_limited={"raid5": 30}))
    assert one.stacks[1].standing is Standing.HOST_LIMITED


def with_axes(recorded: RunData, changes: dict[str, dict[str, str]]) -> RunData:
    """The same run with further axes of some stacks."""
    changed = [replace(one, axes={**one.axes, **changes.get(one.axes["layout"], {})}) for one in recorded.cells]
    return replace(recorded, cells=changed)


def test_arrays_without_a_disk_do_not_compete_with_whole_ones() -> None:
    lost = {"stripe": {"md.state": "degraded"}, "raid5": {"md.state": "clean"}, "raid10-far": {"md.state": "clean"}}
    one = only(with_axes(run(THREE), lost))
    assert names(one) == ["raid10-far", "raid5"]
    assert [cell.axes["layout"] for cell in one.degraded] == ["stripe"]


def test_stacks_under_other_faults_do_not_compete() -> None:
    faults = {"stripe": {"faults": "none"}, "raid5": {"faults": "dies"}, "raid10-far": {"faults": "dies"}}
    assert [names(one) for one in with_axes(run(THREE), faults).rankings] == [["raid10-far", "raid5"]]


def test_steered_runs_take_more_to_be_sure() -> None:
    plain, steered = (only(replace(run(THREE), steered=steered)).stacks[1].behind for steered in (False, True))
    assert plain is not None
    assert steered is not None
    assert steered.low < plain.low < plain.high < steered.high


def test_the_truly_fastest_stack_is_among_the_leaders() -> None:
    """At 95 % confidence it is missed in one run of twenty at most."""
    truth = {"stripe": {WRITE: 101.0}, **{f"raid{level}": {WRITE: 100.0} for level in (0, 1, 5, 6, 10)}}
    runs = [only(run(truth, noise=0.05, rounds=5, seed=seed)) for seed in range(100)]
    missed = sum("stripe" not in {stack.cell.axes["layout"] for stack in one.leaders} for one in runs)
    assert missed <= 5
    assert any(names(one)[0] != "stripe" for one in runs)  # it does not always look so


@given(recorded_runs())
def test_the_standing_of_each_stack_follows_from_its_interval(recorded: RunData) -> None:
    for one in recorded.rankings:
        ids = [stack.cell.id for stack in one.stacks] + [missing.id for missing in one.missing]
        assert len(ids) == len(set(ids))
        assert one.fastest.standing is (Standing.FASTEST if one.compared else Standing.NOT_COMPARED)
        for stack in one.stacks[1:]:
            assert stack.standing is not Standing.FASTEST
            if stack.standing is Standing.SLOWER:
                assert stack.behind is not None
                assert stack.behind.low > 1
            if stack.standing is Standing.EQUAL:
                assert stack.apart <= PRACTICAL + 1e-9


@given(recorded_runs(), st.randoms())
def test_the_order_of_cells_does_not_matter(recorded: RunData, chance: random.Random) -> None:
    shuffled = list(recorded.cells)
    chance.shuffle(shuffled)
    there = {one.metric.name + one.fastest.cell.axes["workload"] + str(len(one.slower)) for one in recorded.rankings}
    others = replace(recorded, cells=shuffled).rankings
    assert there == {one.metric.name + one.fastest.cell.axes["workload"] + str(len(one.slower)) for one in others}
