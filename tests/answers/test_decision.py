"""The table of decisions: what each stack offers, which are beaten, and the best one for all weighed workloads."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from matrix_runner.answers.decision import Rebuild
from matrix_runner.pages.ranking import all_else_equal, decision_text
from matrix_runner.records.record import Outcome, Trial
from matrix_runner.work.fio.output import Figures, Sync
from tests.answers.rankings import FACTS, TRUTH, cell, run

if TYPE_CHECKING:
    from matrix_runner.answers.decision import Decision


def decision(losses: dict[str, int], **weights: float) -> Decision:
    found = replace(run(TRUTH, rounds=5), losses=losses, stacks=FACTS, weights=weights).decision
    assert found
    return found


def test_each_stack_has_what_it_offers_beside_its_figures() -> None:
    found = decision({"raid5": 1, "raid6": 2, "raid10": 1})
    assert [one.name for one in found.choices] == ["raid10", "raid5", "raid6"]
    raid5 = found.choices[1]
    assert (raid5.capacity, raid5.losses) == (3000, 1)
    assert raid5.rebuild
    assert (raid5.rebuild.seconds, raid5.rebuild.measured) == (100.0, False)
    assert 0.5 < raid5.shares[1] < 0.6


def test_a_measured_rebuild_takes_the_place_of_the_computed_one() -> None:
    recorded = run({"raid5": {"sequential": 250.0}, "raid6": {"sequential": 200.0}}, rounds=3)
    rebuilds = [cell("raid5", "rebuild"), cell("raid6", "rebuild")]
    trials = [
        Trial(one.id, number, Outcome.MEASURED, figures=Figures(None, None, 1.0, 1.0, 1.0, 0, rebuild=Sync(1.0, rate)))
        for one, rate in zip(rebuilds, (20.0, 50.0), strict=True)
        for number in (1, 2, 3)
    ]
    found = replace(
        recorded, cells=[*recorded.cells, *rebuilds], trials=[*recorded.trials, *trials], stacks=FACTS
    ).decision
    assert found
    assert {one.name: one.rebuild for one in found.choices} == {
        "raid5": Rebuild(50.0, True),
        "raid6": Rebuild(20.0, True),
    }


def test_a_stack_is_beaten_only_if_another_is_as_large_as_safe_and_faster_everywhere() -> None:
    assert not any(one.beaten for one in decision({"raid5": 1, "raid6": 2, "raid10": 1}).choices)
    found = decision({"raid5": 1, "raid6": 1, "raid10": 1})
    assert [one.name for one in found.choices if one.beaten] == ["raid6"]
    assert not any(one.beaten for one in decision({"raid5": 1, "raid10": 1}).choices), "its safety is unknown"


def test_weights_decide_which_stack_is_best_overall() -> None:
    truth = {
        "wide": {"random/rw=randread": 200.0, "mixed": 100.0},
        "deep": {"random/rw=randread": 100.0, "mixed": 150.0},
    }
    recorded = run(truth, rounds=5)

    def best(**weights: float) -> str:
        found = replace(recorded, weights=weights).decision
        assert found
        assert not any(one.candidate for one in found.overall[1:])
        return found.name_of(found.overall[0])

    assert best(random=1, mixed=1) == "wide"
    assert best(random=1, mixed=4) == "deep"
    assert best(mixed=1) == "deep", "a workload without a weight does not count"


def test_stacks_that_may_be_best_overall_are_the_first_rows() -> None:
    truth = {name: {"random/rw=randread": 100.0, "mixed": 100.0} for name in "abcdef"}
    truth["odd"] = {"random/rw=randread": 160.0, "mixed": 20.0}
    found = replace(run(truth, rounds=5), weights={"random": 1, "mixed": 1}).decision
    assert found
    assert found.choices[-1].name == "odd"
    lines = [line.replace("\u00a0", " ") for line in decision_text(found)]
    assert any(", the first 6 rows, cannot be told apart" in line for line in lines)
    assert [one.name for one in decision({}, random=1).choices] == ["raid10", "raid5", "raid6"]


def test_variants_of_a_workload_share_its_weight() -> None:
    works = {f"random/rw=randread,iodepth={depth}": 1.0 for depth in (1, 2, 4, 8)}
    truth = {
        "wide": dict.fromkeys(works, 110.0) | {"mixed": 100.0},
        "deep": dict.fromkeys(works, 100.0) | {"mixed": 120.0},
    }
    found = replace(run(truth, rounds=5), weights={"random": 1, "mixed": 1}).decision
    assert found
    assert found.name_of(found.overall[0]) == "deep"


def test_stacks_that_lack_a_weighed_workload_are_not_best_overall() -> None:
    truth = {"part": {"mixed": 900.0}, "whole": {"random/rw=randread": 100.0, "mixed": 150.0}, "other": TRUTH["raid5"]}
    truth["other"] = {"random/rw=randread": 90.0, "mixed": 140.0}
    found = replace(run(truth, rounds=5), weights={"random": 1, "mixed": 1}).decision
    assert found
    assert {found.name_of(one) for one in found.overall} == {"whole", "other"}


def test_the_values_of_each_axis_are_compared_in_words() -> None:
    rates = {"raid5": 100.0, "raid10": 140.0}
    truth = {
        f"{level}/chunk={chunk}": {"random/rw=randread": rate * factor, "mixed": rate}
        for level, rate in rates.items()
        for chunk, factor in (("64KiB", 1.0), ("512KiB", 0.7))
    }
    found = replace(run(truth, rounds=5), weights={"random": 1, "mixed": 1}).decision
    assert found
    together = all_else_equal(found, len(found.rankings), "good", " for all workloads together")
    lines = [line.replace("\u00a0", " ") for line in together]
    assert lines[0] == "Value by value, for all workloads together with all else equal (95 % confidence):"
    assert re.fullmatch(r"layout: raid10 is 1\.\d+× \(1\..+ to 1\..+\) as good as raid5\.", lines[1])
    assert re.fullmatch(r"chunk: 64KiB is 1\.\d+× \(1\..+ to 1\..+\) as good as 512KiB\.", lines[2])
    mixed = next(at for at, one in enumerate(found.rankings) if one.workload == "mixed")
    assert "64KiB and 512KiB" in (text := list(all_else_equal(found, mixed))[2]) or "512KiB and 64KiB" in text
    assert not list(all_else_equal(replace(found, axes=((),) * 3), 0)), "no axes, no words"
