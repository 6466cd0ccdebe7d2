"""The answer of a run, in words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrix_runner.pages.answer import (
    MOST_LINES,
    SYNTHETIC,
    answer_as_markdown,
    answer_lines,
    as_objects,
    full_answer,
    summarize_rankings,
)
from matrix_runner.pages.html import page
from matrix_runner.pages.table import escape_markdown
from tests.answers.rankings import recorded_runs, run
from tests.pages.samples import render_reports
from tests.records import past

if TYPE_CHECKING:
    from collections.abc import Mapping

    from syrupy.assertion import SnapshotAssertion

    from matrix_runner.pages.run_data import RunData

WORKS = (
    *("sequential/rw=read", "sequential/rw=write", "random/rw=randread,iodepth=1", "random/rw=randread,iodepth=16"),
    *("random/rw=randwrite,iodepth=1", "random/rw=randwrite,iodepth=16", "mixed"),
)
SPEEDS = {
    "raid5": (250, 150, 115, 320, 60, 160, 280),
    "raid10-far": (330, 160, 117, 340, 110, 300, 420),
    "stripe": (331, 323, 116, 323, 118, 648, 640),
}
THREE = {stack: dict(zip(WORKS, map(float, speeds), strict=True)) for stack, speeds in SPEEDS.items()}


def some(works: tuple[str, ...], truth: Mapping[str, Mapping[str, float]] = THREE) -> dict[str, dict[str, float]]:
    return {stack: {work: speeds[work] for work in works} for stack, speeds in truth.items()}


def with_chunks() -> dict[str, dict[str, float]]:
    """Two chunk sizes of every layout; the larger one is better for sequential work."""
    return {
        f"{stack}/chunk={chunk}": {
            work: speed * (1.1 if chunk == "512KiB" and "seq" in work else 1) for work, speed in speeds.items()
        }
        for stack, speeds in THREE.items()
        for chunk in ("64KiB", "512KiB")
    }


def many() -> dict[str, dict[str, float]]:
    """36 workloads."""
    axes = [(rw, bs, depth) for rw in ("randread", "randwrite") for bs in (4, 8, 16) for depth in (1, 2, 4, 8, 16, 32)]
    return {
        stack: {
            f"random/rw={rw},bs={bs}KiB,iodepth={depth}": level
            * depth**0.5
            * (1 if "read" in rw or stack == "stripe" else 0.5 + 0.1 * depth**0.5)
            for rw, bs, depth in axes
        }
        for stack, level in (("raid5", 100.0), ("raid10-far", 110.0), ("stripe", 112.0))
    }


def text(recorded: RunData, width: int = 100) -> str:
    words = summarize_rankings(recorded.rankings, synthetic=recorded.synthetic, over=recorded.over)
    return "\n".join(answer_lines(words, width)) if words else ""


SITUATIONS: dict[str, dict[str, Any]] = {
    "three layouts": {"truth": THREE},
    "two chunk sizes each": {"truth": with_chunks(), "rounds": 5},
    "one workload": {"truth": some(("mixed",))},
    "one winner of two workloads": {"truth": some(("mixed", "random/rw=randwrite,iodepth=16"))},
    "one layout": {"truth": {name: speeds for name, speeds in with_chunks().items() if "raid5" in name}, "rounds": 5},
    "many workloads": {"truth": many()},
    "broken": {"truth": some(("mixed", "sequential/rw=read")), "broken": ["raid5"]},
    "host-limited": {"truth": some(("mixed",)), "host_limited": {"raid5": 12, "stripe": 34}},
    "host too slow": {"truth": some(("mixed",)), "host_limited": {"raid5": 91, "raid10-far": 60}},
    "host too slow for one": {"truth": some(("mixed",)), "host_limited": {"raid10-far": 60}},
    "single trials": {"truth": some(("mixed", "sequential/rw=read")), "rounds": 1},
    "noise": {"truth": some(("mixed", "sequential/rw=read")), "noise": 0.5},
    "synthetic and alike": {"truth": dict.fromkeys(THREE, THREE["stripe"]), "synthetic": True, "noise": 0.05},
    "so far": {"truth": some(("mixed",)), "over": False},
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_words(situation: str, snapshot: SnapshotAssertion) -> None:
    assert text(run(**SITUATIONS[situation])) == snapshot


def test_every_stack_of_every_workload(snapshot: SnapshotAssertion) -> None:
    recorded = run(some(("mixed", "sequential/rw=read")), host_limited={"raid5": 12}, broken=["raid10-far"])
    assert full_answer(recorded.rankings, synthetic=True, over=False) == snapshot


def test_the_answer_names_what_is_not_ranked_and_why(snapshot: SnapshotAssertion) -> None:
    truth = {stack: {"mixed": speeds["mixed"]} for stack, speeds in THREE.items()}
    whole = run({**truth, "raid6": {"mixed": 50.0}, "raid4": {"mixed": 900.0}}, rounds=5)
    cells = [
        replace(one, axes={**one.axes, "md.state": "degraded"} if "raid4" in one.name else one.axes)
        for one in whole.cells
    ]
    rounds = {"stripe": {1, 2, 3}, "raid10-far": {3}, "raid6": {4}}
    trials = [one for one in whole.trials if one.round in rounds.get(one.cell.split("/")[0], {one.round})]
    recorded = replace(whole, cells=cells, trials=trials)
    assert text(recorded) == snapshot
    assert full_answer(recorded.rankings, synthetic=False, over=True) == snapshot
    assert [one["degraded"] for one in as_objects(recorded.rankings)] == [["raid4/mixed"]]


def test_one_of_two_stacks_is_no_answer_and_the_other_is_named(snapshot: SnapshotAssertion) -> None:
    recorded = run({stack: THREE[stack] for stack in ("raid5", "stripe")}, broken=["raid5"])
    assert text(recorded) == snapshot


def test_single_trials_name_no_fastest_stack() -> None:
    recorded = run(THREE, rounds=1, over=False)
    words = full_answer(recorded.rankings, synthetic=False, over=False)
    assert "highest, in one round" in words
    assert " fastest\n" not in words


def test_one_stack_needs_no_answer() -> None:
    assert text(run({"raid5": THREE["raid5"]})) == ""


def test_an_interrupted_run_answers_with_what_is_known_so_far() -> None:
    once, twice, thrice = (text(run(THREE, rounds=rounds, over=False, noise=0.5)) for rounds in (1, 2, 3))
    assert "Fastest stack by workload, so far:" in once
    assert "One round cannot tell" in once
    assert "Intervals need two trials" not in once
    assert "so far (95 % confidence):" in twice
    assert "more trials needed" in twice
    assert "raise `repeat:`" not in twice, "the same command adds the trials that are missing"
    assert "so far" in thrice


def test_more_trials_are_advised_only_where_the_host_is_fast_enough() -> None:
    truth = some(("mixed",))
    assert "raise `repeat:`" in text(run(truth, rounds=2, noise=0.5))
    slow = text(run(truth, rounds=2, noise=0.5, host_limited=dict.fromkeys(truth, 30)), 200)
    assert "raise `repeat:`" not in slow
    assert "more trials needed" not in slow
    assert "this host is too slow" in slow
    assert "`slow: 32` in `disks:`" in slow
    assert "`slow: auto`" not in slow, "the run may have it"
    hardly = text(run(truth, rounds=2, noise=0.5, host_limited=dict.fromkeys(truth, 1)), 200)
    assert "raise `repeat:`" in hardly


def test_a_tie_has_each_figure_and_no_bound_that_ignores_the_host() -> None:
    truth = {"stripe": {"mixed": 640.0}, "raid6": {"mixed": 630.0}, "raid5": {"mixed": 100.0}}
    quiet = text(run(truth, rounds=4, noise=0.1), 300)
    assert re.search(r"stripe \(\d+ IOPS\) and raid6 \(\d+ IOPS\) cannot be told apart for mixed; at most", quiet)
    slow = text(run(truth, rounds=4, noise=0.1, host_limited={"stripe": 60, "raid5": 7}), 300)
    assert " apart;" not in slow
    assert "; stripe is " in slow
    assert " as fast as raid5. Time lost because the host was too slow: stripe 60 % and raid5 7 %.\n" in slow


def test_synthetic_figures_are_called_so_everywhere() -> None:
    recorded = run(THREE, synthetic=True)
    assert SYNTHETIC in text(recorded, 200)
    assert SYNTHETIC in render_reports(recorded)["answer.txt"].decode()
    assert "synthetic" not in render_reports(run(THREE))["answer.txt"].decode()


def test_the_page_begins_with_it() -> None:
    found = page(run(THREE), past.manifest(), "three").decode()
    assert found.index("stripe is fastest for 4 of 7 workloads") < found.index("<h2>Figures")
    assert "Fastest stack" not in page(run({"raid5": THREE["raid5"]}), past.manifest(), "three").decode()


def test_names_are_no_markup() -> None:
    recorded = run({"ra|id*": {"mixed": 1.0}, "_st<b>": {"mixed": 9.0}})
    words = summarize_rankings(recorded.rankings, synthetic=False, over=True)
    assert words is not None
    assert r"\_st\<b> is fastest for mixed" in answer_as_markdown(words)
    assert "<b>" not in page(recorded, past.manifest(), "three").decode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("raise `repeat: a_b` now", "raise `repeat: a_b` now"),
        ("one ` alone_", r"one \` alone\_"),
        ("`a|b` and `<i>` and `c`", r"\`a\|b\` and \`\<i>\` and `c`"),
        ("``x``", r"\`\`x\`\`"),
        ("a@b and @org/team, (@me)", "a@b and @\u200borg/team, (@\u200bme)"),
        ("[a](https://b) and ![a](https://b)", r"\[a](https://b) and !\[a](https://b)"),
    ],
)
def test_plain_text_between_backticks_is_code(text: str, shown: str) -> None:
    assert escape_markdown(text) == shown


def test_programs_have_all_of_it() -> None:
    (mixed,) = as_objects(run(some(("mixed",)), broken=["raid5"]).rankings)
    assert mixed["workload"] == "mixed"
    assert mixed["metric"] == "total.iops"
    assert mixed["without_figures"] == ["raid5/mixed"]
    first, second = orjson.loads(orjson.dumps(mixed["stacks"]))
    assert (first["stack"], first["standing"], first["low"]) == ("stripe", "fastest", None)
    assert (second["stack"], second["standing"]) == ("raid10-far", "slower")
    assert 1 < second["low"] < second["fastest_over_this"] < second["high"]


@given(recorded_runs(), st.integers(60, 200))
def test_it_is_short_and_fits_the_terminal(recorded: RunData, width: int) -> None:
    for over in (True, False):
        words = summarize_rankings(replace(recorded, over=over).rankings, synthetic=True, over=over)
        if words is None:
            continue
        lines = list(answer_lines(words, width))
        assert all(len(line) <= width for line in lines)
        assert "\u00a0" not in "".join(lines)
        assert sum(1 + len(group.lines) for group in words.groups) <= MOST_LINES + 1
        answer_as_markdown(words)
    orjson.dumps(as_objects(recorded.rankings))
    if recorded.rankings:
        full_answer(recorded.rankings, synthetic=False, over=True)
