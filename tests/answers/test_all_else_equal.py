"""Which value of an axis is better with all else equal: chosen from many stacks, with a stated error."""

from __future__ import annotations

from itertools import product

import numpy as np

from matrix_runner.answers.all_else_equal import ComparedAxis, compare_values

LEVELS, CHUNKS, FILES = ("raid5", "raid6", "raid10"), ("64KiB", "512KiB"), ("ext4", "xfs")
Rates = dict[tuple[tuple[str, str], ...], dict[int, float]]


def stacks(seed: int, rounds: int, noise: float = 0.05, **factors: float) -> Rates:
    chance = np.random.default_rng(seed)
    found: Rates = {}
    for level, chunk, files in product(LEVELS, CHUNKS, FILES):
        rate = 100.0 * factors.get(level, 1.0) * factors.get(f"_{chunk}", 1.0) * factors.get(files, 1.0)
        place = (("layout", level), ("md.level", level[4:]), ("md.chunk", chunk), ("fs.type", files))
        found[place] = {at: rate * float(np.exp(chance.normal(0, noise))) for at in range(1, rounds + 1)}
    return found


def by_axis(found: tuple[ComparedAxis, ...]) -> dict[str, ComparedAxis]:
    return {one.axis: one for one in found}


def test_axes_are_decided_where_the_stacks_one_by_one_are_not() -> None:
    found = by_axis(compare_values(stacks(1, 2, raid10=1.4, raid6=0.8, _64KiB=1.2), 0.95))
    assert list(found) == ["layout", "md.chunk", "fs.type"], "the level follows from the layout"
    assert found["layout"].best == "raid10"
    assert [value for value, _ in found["layout"].behind] == ["raid5", "raid6"]
    assert 1.2 < dict(found["layout"].behind)["raid5"].ratio < 1.6
    assert (found["md.chunk"].best, [value for value, _ in found["md.chunk"].behind]) == ("64KiB", ["512KiB"])
    assert not found["fs.type"].behind


def test_less_is_better_for_times() -> None:
    found = by_axis(compare_values(stacks(2, 3, raid10=1.4), 0.95, more_is_better=False))
    assert found["layout"].best != "raid10"
    assert dict(found["layout"].behind)["raid10"].ratio > 1.2


def test_equal_values_are_told_apart_in_few_runs() -> None:
    wrong = sum(any(one.behind for one in compare_values(stacks(seed, 2), 0.95)) for seed in range(300))
    assert wrong <= 27, "5 % of 300, and three standard deviations"


def test_only_the_rounds_before_a_stack_may_leave_count() -> None:
    raced = stacks(3, 2)
    more = {place: {**one, 3: 1000.0} if dict(place)["layout"] == "raid5" else one for place, one in raced.items()}
    assert compare_values(more, 0.95, first=2) == compare_values(raced, 0.95, first=2)


def test_a_round_that_some_stacks_lack_still_counts_for_the_others() -> None:
    cut = stacks(4, 2, raid10=1.4)
    for place in list(cut)[:3]:
        del cut[place][2]
    found = by_axis(compare_values(cut, 0.95, first=2))
    assert found["layout"].best == "raid10"
    assert found["layout"].behind


def test_lost_time_widens_the_intervals() -> None:
    for best in ("raid5", "raid10"):  # the first and the last one
        rates = stacks(1, 2, **{best: 1.4})
        sharp, dull = (by_axis(compare_values(rates, 0.95, lost_share=lost))["layout"] for lost in (0.0, 0.5))
        assert sharp.behind
        assert not dull.behind


def test_one_round_decides_nothing_and_one_axis_says_no_more_than_its_stacks() -> None:
    assert not any(one.behind for one in compare_values(stacks(5, 1, raid10=9.0), 0.95))
    levels = {
        place: one for place, one in stacks(6, 3).items() if ("md.chunk", "64KiB") in place and place[3][1] == "xfs"
    }
    assert compare_values(levels, 0.95) == ()


def test_values_without_a_counterpart_are_not_compared() -> None:
    rates = stacks(7, 3, noise=0.01, raid5=1.3)
    alone = (("layout", "raid1"), ("fs.type", "ext4"))
    found = by_axis(compare_values({**rates, alone: {1: 500.0, 2: 501.0, 3: 502.0}}, 0.95))
    assert found["layout"].best == "raid5"
    assert {value for value, _ in found["layout"].others} == {"raid6", "raid10"}


def test_boundaries_of_figures_decide_nothing_and_break_nothing() -> None:
    assert compare_values({}, 0.95) == ()
    rates = stacks(8, 2)
    none: Rates = {place: {} for place in rates}
    still: Rates = {place: dict.fromkeys(one, 0.0) for place, one in rates.items()}
    assert compare_values(none, 0.95) == compare_values(still, 0.95) == ()
    huge = {place: {at: rate * 1e300 for at, rate in one.items()} for place, one in rates.items()}
    assert len(compare_values(huge, 0.95)) == len(compare_values(rates, 0.95)) == 3
    assert not any(one.behind for one in compare_values(stacks(8, 2, raid10=9.0), 0.95, lost_share=1.0))
    same = compare_values({place: dict.fromkeys(one, 1.0) for place, one in rates.items()}, 0.95)
    assert [ratio.apart for one in same for _, ratio in one.others] == [0.0] * 4
